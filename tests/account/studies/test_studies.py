from __future__ import annotations

import pytest

from irene.account.studies import (
    MODES,
    Store,
    Study,
    evolution,
    grid,
    modes,
    precision,
)
from irene.errors import UsageError
from tests.account.studies.steady import albert, bert, quick


def values(report: Study) -> dict[str, float]:
    return {finding.name: finding.value for finding in report.findings}


@pytest.fixture(scope="module")
def small_grid() -> Study:
    return grid([bert(1), bert(3)], quick(), Store())


def test_a_report_says_where_its_watts_come_from(small_grid: Study) -> None:
    assert small_grid.notes == ("Energy measured by wall:power.",)


def test_one_model_against_another() -> None:
    report = evolution(bert(2), albert(2), quick(), Store())
    found = values(report)
    # Layers share their weights, and the embeddings are narrow.
    assert found["albert / L=2: weights"] < 0.6
    assert found["albert / L=2: optimizer"] > 0
    aligned = {row[0]: row for row in report.tables["aligned"].rows}
    for name in ("attention · forward", "feed-forward · backward", "optimizer"):
        assert aligned[name][1] > 0
        assert aligned[name][2] > 0
    with pytest.raises(UsageError, match="same model"):
        evolution(bert(2), bert(2), quick(), Store())


def test_modes_compared() -> None:
    report = modes(bert(1), quick(), Store())
    assert [each.name for each in report.profiles] == list(MODES)
    with pytest.raises(UsageError, match="two or three"):
        modes(bert(1), quick(), Store(), ["prediction"])


def test_agreement_by_runs_batches_and_period() -> None:
    report = precision(
        bert(1), quick(runs=3, steps=2), Store(), [0.002, 0.004], "prediction"
    )
    assert [len(row) for row in report.between_runs] == [3, 3, 3]
    assert {name: list(points) for name, points in report.agreement.items()} == {
        "runs": [1.0],
        "batches": [1.0, 2.0],
        "period": [0.002, 0.004],
    }
    for points in report.agreement.values():
        assert all(-1 <= value <= 1 for values in points.values() for value in values)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="there is 1"):
        grid([bert(1)], quick(), Store())
    with pytest.raises(UsageError, match="twice"):
        grid([bert(1), bert(1)], quick(), Store())
    with pytest.raises(UsageError, match="--runs 1"):
        precision(bert(1), quick(runs=1), Store())
    with pytest.raises(UsageError, match="given twice"):
        precision(bert(1), quick(runs=2), Store(), [0.1, 0.1])
