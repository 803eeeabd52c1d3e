"""What chance makes of intervals that are right, beside which coverage is read."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.coverage import Row, chances, show_values, told

from irene.energy import SharedError


def rows_that_share(part: float, count: int = 20) -> list[Row]:
    """Rows of ± 0.2, of which so much of the square is one error."""
    error = SharedError("one", 0.2 * part**0.5)
    energy = told(1.0, 0.2, [error])
    return [Row("some", {"run": place}, energy, 1.0) for place in range(count)]


def test_right_intervals_hold_nine_of_ten_whatever_is_shared():
    for part in (0.0, 0.5, 1.0):
        assert chances(rows_that_share(part)).mean() == pytest.approx(0.9, abs=0.015)


def test_rows_that_share_errors_are_inside_together():
    spread = {p: chances(rows_that_share(p)).mean(axis=1).std() for p in (0, 0.5, 1)}
    assert spread[0] == pytest.approx(np.sqrt(0.9 * 0.1 / 20), rel=0.1)
    assert spread[0] < spread[0.5] < spread[1]
    assert set(chances(rows_that_share(1.0)).mean(axis=1).round(6)) == {0.0, 1.0}


def test_what_chance_does_not_explain_has_a_star(capsys):
    outside = [
        Row("wrong", row.settings, row.energy, 2.0) for row in rows_that_share(0.0)
    ]
    show_values("a test", [*rows_that_share(0.9), *outside])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[2:]}
    assert "0.0%" in lines["wrong"]
    assert "*" in lines["wrong"]
    assert "100.0%" in lines["some"]
    assert "*" not in lines["some"]
