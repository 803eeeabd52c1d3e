from __future__ import annotations

import csv
from pathlib import Path

import pytest

from irene.account.studies import MODES, Store, grid, modes, precision
from irene.account.studies.profile import median_difference, pearson
from irene.show.picture.study_pictures import StudyReport
from tests.account.studies.steady import bert, quick


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


@pytest.fixture(scope="module")
def small_grid() -> StudyReport:
    return StudyReport(grid([bert(1), bert(3)], quick(), Store()))


def test_the_matrices_are_those_of_the_table(
    small_grid: StudyReport, tmp_path: Path
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


def test_a_configuration_is_like_itself(small_grid: StudyReport) -> None:
    for name, same in (("correlation", 1.0), ("difference", 0.0)):
        for one, other, value in small_grid.pictures[name].rows:
            if one == other:
                assert value == pytest.approx(same)


def test_tables_are_what_the_pictures_show(
    small_grid: StudyReport, tmp_path: Path
) -> None:
    files = small_grid.write(tmp_path)
    for name, picture in small_grid.pictures.items():
        text = (tmp_path / f"{name}.csv").read_text()
        assert text == picture.csv()
        assert (tmp_path / f"{name}.svg").read_text() == picture.svg()
    summary = (tmp_path / "summary.md").read_text()
    assert all(f"{name}.svg" in summary for name in small_grid.pictures)
    assert {file.name for file in files} == {f.name for f in tmp_path.iterdir()}
    energies = {f.name: f.value for f in small_grid.study.findings}
    for program, _, joules, *_ in small_grid.pictures["energy"].rows:
        assert joules == energies[f"{program}: energy per step"]
    assert "num_hidden_layers: power with which energy follows" in energies


def test_every_mode_has_its_dearest_operations() -> None:
    pictures = StudyReport(modes(bert(1), quick(), Store())).pictures
    assert {row[0] for row in pictures["energy"].rows} == set(MODES)
    assert {f"top-{mode}" for mode in MODES} <= set(pictures)


def test_precision_has_its_four_plots() -> None:
    conditions = quick(runs=3, steps=2)
    study = precision(bert(1), conditions, Store(), [0.002, 0.004], "prediction")
    report = StudyReport(study)
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
