"""Studies in pictures: what one has found as charts, tables, a summary and JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from irene.account.studies.findings import Agreement, Study, Table, percent
from irene.account.studies.profile import (
    Profile,
    matrix,
    median_difference,
    operation_label,
    pearson,
)
from irene.account.studies.run import OperationKey
from irene.show.picture.axis import AxisSpec
from irene.show.picture.bars import Bar, bar_chart
from irene.show.picture.heat_matrix import heat_matrix
from irene.show.picture.line_chart import Line, line_chart
from irene.show.picture.picture import Picture
from irene.tables import csv_of_rows
from irene.whole_file import whole_file

SCHEMA = "irene.study/1"
TOP = 10
JOULES = AxisSpec("energy per step", "J")


class StudyReport:
    """A study for people and programs.

    Attributes:
        study: What was found.
    """

    def __init__(self, study: Study) -> None:
        self.study = study

    @cached_property
    def pictures(self) -> dict[str, Picture]:
        """By name of their file; each has its numbers, too."""
        draw = {
            "grid": _grid,
            "evolution": _evolution,
            "modes": _modes,
            "precision": _precision,
        }
        return draw[self.study.kind](self.study)

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.study/1`, JSON-ready."""
        study = self.study
        return {
            "schema": SCHEMA,
            "study": study.kind,
            "title": study.title,
            "conditions": study.conditions.to_dict(),
            "findings": [
                {
                    "name": f.name,
                    "value": _number(f.value),
                    "unit": f.unit,
                    "spread": _number(f.spread),
                    "noise": f.is_noise,
                }
                for f in study.findings
            ],
            "pictures": {name: _records(p) for name, p in self.pictures.items()},
            "tables": {name: _records(table) for name, table in study.tables.items()},
            "notes": list(study.notes),
        }

    def write(self, folder: Path, *, png: bool = False) -> list[Path]:
        """Write pictures, tables and a summary.

        Returns:
            The files.
        """
        files: list[Path] = []
        for name, picture in self.pictures.items():
            files += picture.save(folder / f"{name}.svg")
            if png:
                files.append(picture.save(folder / f"{name}.png")[0])
        texts = {
            f"{name}.csv": csv_of_rows(table.columns, table.rows)
            for name, table in self.study.tables.items()
        }
        for name, text in {**texts, "summary.md": self.summary()}.items():
            with whole_file(folder / name) as file:
                file.write(text.encode())
            files.append(folder / name)
        return files

    def summary(self) -> str:
        """The findings as Markdown, with the pictures."""
        from irene.show.page.shell import rendered

        return rendered("study.md", study=self.study, pictures=self.pictures)


def _number(value: Any) -> Any:
    """JSON knows no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _records(table: Table | Picture) -> list[dict[str, Any]]:
    columns = table.columns
    return [dict(zip(columns, map(_number, r), strict=True)) for r in table.rows]


# The pictures of each study ------------------------------------------------


def _grid(study: Study) -> dict[str, Picture]:
    profiles = study.profiles
    tables = [each.joules for each in profiles]
    return {
        "energy": _energy(profiles, f"Energy of a {study.subject} step"),
        **_matrices(
            profiles,
            tables,
            "Median difference of an operation's energy",
            "Pearson correlation of the energies of operations",
        ),
    }


def _evolution(study: Study) -> dict[str, Picture]:
    title, both = study.subject, study.profiles
    roles = {each.name: each.by_role() for each in both}
    phases = {each.name: each.by_phase() for each in both}
    return {
        "energy": _energy(both, f"{title}: energy of a step"),
        "roles": _grouped(roles, f"{title}: by role", JOULES),
        "phases": _grouped(phases, f"{title}: by phase", JOULES),
    }


def _modes(study: Study) -> dict[str, Picture]:
    model, profiles = study.subject, study.profiles
    # Only the forward pass is in all of them.
    forward = [
        {key: value for key, value in each.joules.items() if key.phase == "forward"}
        for each in profiles
    ]
    parts = {
        f"{each.name}, {phase}": percent(each.parts(phase))
        for each in profiles
        for phase in ("forward", "backward")
        if each.parts(phase)
    }
    phases = {each.name: each.by_phase() for each in profiles}
    share = AxisSpec("share of phase", "%")
    return {
        "energy": _energy(profiles, f"{model}: energy of a step"),
        "phases": _grouped(phases, f"{model}: energy by phase", JOULES),
        "parts": _grouped(parts, f"{model}: parts of the model", share),
        **_matrices(
            profiles,
            forward,
            "Median difference of a forward operation",
            "Pearson correlation of the forward operations",
        ),
        **{f"top-{each.name}": _top(model, each) for each in profiles},
    }


def _precision(study: Study) -> dict[str, Picture]:
    names = [f"run {number}" for number in range(1, len(study.between_runs) + 1)]
    title = "Pearson correlation between runs"
    matrix = heat_matrix(study.between_runs, names, names, title, "", "of", "with")
    axes = {
        "runs": AxisSpec("runs averaged"),
        "batches": AxisSpec("batches per run"),
        "period": AxisSpec("sampling period", "s"),
    }
    plots = {
        f"by-{name}": _agreement(points, axes[name])
        for name, points in study.agreement.items()
    }
    return {"between-runs": matrix, **plots}


# Kinds of picture ------------------------------------------------


def _energy(profiles: Sequence[Profile], title: str) -> Picture:
    """Energy of a step of every profile, with its spread over runs."""
    bars = [_bar(each.name, each.total_j, each.deviation_j) for each in profiles]
    return bar_chart(bars, title, JOULES)


def _bar(name: str, energy_j: float, spread_j: float) -> Bar:
    return Bar(name, energy_j, max(0.0, energy_j - spread_j), energy_j + spread_j)


def _top(model: str, profile: Profile) -> Picture:
    """The dearest operations; error bars are the spread over runs."""
    keys = profile.largest(TOP)
    bars = [
        _bar(label, profile.joules[key], profile.spread_j[key])
        for key, label in zip(keys, _labels(keys), strict=True)
    ]
    title = f"{model}, {profile.name}: the dearest operations, layers merged"
    return bar_chart(bars, title, JOULES, width=1000)


def _labels(keys: Sequence[OperationKey]) -> list[str]:
    """Names from the layer on, where these are enough to tell them apart."""
    short = [
        operation_label(key._replace(scope=key.scope.rpartition("#.")[2]))
        for key in keys
    ]
    full = [operation_label(key) for key in keys]
    return short if len(set(short)) == len(set(full)) else full


def _grouped(
    tables: Mapping[str, Mapping[str, float]], title: str, x: AxisSpec
) -> Picture:
    """Bars of some names that stand together, one of each table."""
    totals: dict[str, float] = {}
    for table in tables.values():
        for name, value in table.items():
            totals[name] = max(totals.get(name, 0.0), value)
    order = sorted(totals, key=lambda name: -totals[name])
    bars = [
        Bar(name, table[name], group=group)
        for name in order
        for group, table in tables.items()
        if name in table
    ]
    return bar_chart(bars, title, x)


def _matrices(
    profiles: Sequence[Profile],
    tables: Sequence[Mapping[OperationKey, float]],
    difference: str,
    correlation: str,
) -> dict[str, Picture]:
    """How far every pair differs, and how it correlates."""
    names = [each.name for each in profiles]
    return {
        "difference": heat_matrix(
            matrix(median_difference, tables), names, names,
            f"{difference}, column against row", "%", "from", "to",
        ),
        "correlation": heat_matrix(
            matrix(pearson, tables), names, names, correlation, "", "of", "with"
        ),
    }  # fmt: skip


def _agreement(points: Agreement, x: AxisSpec) -> Picture:
    """Mean and range of the correlations, by what was varied."""
    known = {at: values for at, values in points.items() if values}
    line = Line(
        "correlation",
        list(known),
        [statistics.fmean(values) for values in known.values()],
        [min(values) for values in known.values()],
        [max(values) for values in known.values()],
    )
    y = AxisSpec("Pearson correlation, mean and range")
    return line_chart([line], f"Agreement by {x.label}", x, y)
