"""How long the rest takes."""

from __future__ import annotations

import pytest

from irene.collect.collector import Pace


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_guesses_are_corrected_by_what_took_place():
    clock = Clock()
    pace = Pace({"a": 10.0, "b": 30.0, "c": None}, slower=2.0, clock=clock)
    assert pace.left_s == 2.0 * (10 + 30 + 20)
    clock.now += 5.0  # twice as fast as it was guessed
    pace.finish("a")
    assert pace.left_s == pytest.approx((30 + 20) / 2)
    assert pace.rate_per_hour == pytest.approx(720)
    pace.finish("b", worked=False)
    assert pace.left_s == pytest.approx(10)
    pace.finish("c")
    assert pace.left_s == 0


def test_without_guesses_runs_are_counted():
    clock = Clock()
    pace = Pace({"a": None, "b": None, "c": None}, clock=clock)
    assert pace.left_s == 0
    clock.now += 5.0
    pace.finish("a")
    assert pace.left_s == pytest.approx(10)
