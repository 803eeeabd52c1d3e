from __future__ import annotations

import csv
from pathlib import Path

import pytest

from irene.account.studies import (
    MODES,
    Report,
    Store,
    evolution,
    grid,
    modes,
    precision,
)
from irene.account.studies.likeness import median_difference, pearson
from irene.errors import UsageError
from tests.account.studies.steady import albert, bert, quick


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def values(report: Report) -> dict[str, float]:
    return {finding.name: finding.value for finding in report.findings}


@pytest.fixture(scope="module")
def small_grid() -> Report:
    return grid([bert(1), bert(3)], quick(), Store())


def test_the_matrices_are_those_of_the_table(
    small_grid: Report, tmp_path: Path
) -> None:
    small_grid.write(tmp_path)
    tables: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows(tmp_path / "operations.csv"):
        energies = tables.setdefault(row["program"], {})
        energies[row["operation"], row["in_body"]] = float(row["energy_j"])
    assert list(tables) == ["L=1", "L=3"]
    for file, names, measure in (
        ("correlation.csv", ("of", "with"), pearson),
        ("difference.csv", ("from", "to"), median_difference),
    ):
        cells = rows(tmp_path / file)
        assert len(cells) == 4
        for cell in cells:
            a, b = (tables[cell[name]] for name in names)
            assert float(cell["value"]) == pytest.approx(measure(a, b), rel=1e-9)


def test_a_configuration_is_like_itself(small_grid: Report) -> None:
    for name, same in (("correlation", 1.0), ("difference", 0.0)):
        for one, other, value in small_grid.pictures[name].rows:
            if one == other:
                assert value == pytest.approx(same)


def test_tables_are_what_the_pictures_show(small_grid: Report, tmp_path: Path) -> None:
    files = small_grid.write(tmp_path)
    for name, picture in small_grid.pictures.items():
        text = (tmp_path / f"{name}.csv").read_text()
        assert text == picture.csv()
        assert (tmp_path / f"{name}.svg").read_text() == picture.svg()
    summary = (tmp_path / "summary.md").read_text()
    assert all(f"{name}.svg" in summary for name in small_grid.pictures)
    assert {file.name for file in files} == {f.name for f in tmp_path.iterdir()}
    energies = values(small_grid)
    for program, _, joules, *_ in small_grid.pictures["energy"].rows:
        assert joules == energies[f"{program}: energy per step"]
    assert "num_hidden_layers: power with which energy follows" in energies


def test_a_report_says_where_its_watts_come_from(small_grid: Report) -> None:
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
    drawn = {row[0] for row in report.pictures["energy"].rows}
    assert drawn == set(MODES)
    assert {f"top-{mode}" for mode in MODES} <= set(report.pictures)
    with pytest.raises(UsageError, match="two or three"):
        modes(bert(1), quick(), Store(), ["prediction"])


def test_precision_has_its_four_plots() -> None:
    report = precision(
        bert(1), quick(runs=3, steps=2), Store(), [0.002, 0.004], "prediction"
    )
    places = {
        name: [row[1] for row in picture.rows]
        for name, picture in report.pictures.items()
    }
    assert len(places.pop("between-runs")) == 9
    assert places == {
        "by-runs": [1.0],
        "by-batches": [1.0, 2.0],
        "by-period": [0.002, 0.004],
    }
    for _, *numbers in report.pictures["by-period"].rows:
        _, mean, low, high = (float(str(value)) for value in numbers)
        assert -1 <= low <= mean <= high <= 1


def test_what_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="there is 1"):
        grid([bert(1)], quick(), Store())
    with pytest.raises(UsageError, match="twice"):
        grid([bert(1), bert(1)], quick(), Store())
    with pytest.raises(UsageError, match="--runs 1"):
        precision(bert(1), quick(runs=1), Store())
    with pytest.raises(UsageError, match="given twice"):
        precision(bert(1), quick(runs=2), Store(), [0.1, 0.1])
