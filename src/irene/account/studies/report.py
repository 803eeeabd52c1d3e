"""Report: what a study has found, in numbers, pictures, tables and words."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.account.studies.profile import (
    OperationKey,
    Profile,
    operation_label,
    role_of,
)
from irene.show.picture import AxisSpec, Bar, Picture, bar_chart
from irene.whole_file import whole_file

if TYPE_CHECKING:
    from irene.account.studies.run import Conditions

__all__ = [
    "Finding",
    "Report",
    "Table",
    "energy_bars",
    "grouped_bars",
    "meter_notes",
    "operation_table",
]

SCHEMA = "irene.study/1"


@dataclass(frozen=True, slots=True)
class Finding:
    """A number that a study was made for.

    Attributes:
        name: What it is.
        value: NaN where it is not known.
        unit: Of the value; "" for ratios.
    """

    name: str
    value: float
    unit: str = ""

    @property
    def words(self) -> str:
        """The value with its unit."""
        if not math.isfinite(self.value):
            return "not known"
        return f"{self.value:.4g} {self.unit}".strip()


@dataclass(frozen=True, slots=True)
class Table:
    """A table that no picture shows.

    Attributes:
        columns: Their names.
        rows: Their values.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def csv(self) -> str:
        """The table as CSV; numbers in full."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()


@dataclass(frozen=True, slots=True)
class Report:
    """What a study has found.

    Attributes:
        study: Its name.
        title: What was studied.
        conditions: How everything was run.
        findings: The numbers that it was made for.
        pictures: By name of their file; each with its numbers as CSV.
        tables: More tables, by name of their file.
        notes: What a reader should know.
    """

    study: str
    title: str
    conditions: Conditions
    findings: tuple[Finding, ...]
    pictures: Mapping[str, Picture]
    tables: Mapping[str, Table] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.study/1`, JSON-ready."""
        return {
            "schema": SCHEMA,
            "study": self.study,
            "title": self.title,
            "conditions": self.conditions.to_dict(),
            "findings": [
                {"name": f.name, "value": _number(f.value), "unit": f.unit}
                for f in self.findings
            ],
            "pictures": {
                name: _records(picture.columns, picture.rows)
                for name, picture in self.pictures.items()
            },
            "tables": {
                name: _records(table.columns, table.rows)
                for name, table in self.tables.items()
            },
            "notes": list(self.notes),
        }

    def write(self, folder: Path, *, png: bool = False) -> list[Path]:
        """Write pictures, tables and a summary.

        Args:
            folder: Where to.
            png: Whether to draw the pictures as PNG, too.

        Returns:
            The files.
        """
        files: list[Path] = []
        for name, picture in self.pictures.items():
            files += picture.save(folder / f"{name}.svg")
            if png:
                files.append(picture.save(folder / f"{name}.png")[0])
        texts = {f"{name}.csv": table.csv() for name, table in self.tables.items()}
        for name, text in {**texts, "summary.md": self.summary()}.items():
            with whole_file(folder / name) as file:
                file.write(text.encode())
            files.append(folder / name)
        return files

    def summary(self) -> str:
        """The findings as Markdown, with the pictures."""
        lines = [f"# {self.title}", "", *(f"> {note}" for note in self.notes), ""]
        lines += ["| finding | value |", "|---|---:|"]
        lines += [f"| {_cell(f.name)} | {f.words} |" for f in self.findings]
        for name, picture in self.pictures.items():
            lines += ["", f"## {picture.title}", "", f"![{picture.title}]({name}.svg)"]
        return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _number(value: Any) -> Any:
    """JSON knows no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _records(
    columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> list[dict[str, Any]]:
    return [dict(zip(columns, map(_number, row), strict=True)) for row in rows]


def meter_notes(profiles: Sequence[Profile]) -> tuple[str, ...]:
    """Where the watts come from, and what that means."""
    meters = ", ".join(dict.fromkeys(each.produced_by for each in profiles))
    if all(each.source == "measured" for each in profiles):
        return (f"Energy measured by {meters}.",)
    return (
        f"Energy ESTIMATED by {meters}: power follows the load of the machine, so "
        "energies are mostly time × one power. Ratios say more than joules.",
    )


def operation_table(profiles: Sequence[Profile]) -> Table:
    """Every operation of every profile, J per step."""
    rows = [
        (p.name, operation_label(key), *key, role_of(key), joules, p.spread_j[key])
        for p in profiles
        for key, joules in p.joules.items()
    ]  # fmt: skip
    columns = (
        "program", "operation", *OperationKey._fields, "role", "energy_j", "std_j",
    )  # fmt: skip
    return Table(columns, tuple(rows))


def energy_bars(profiles: Sequence[Profile], title: str) -> Picture:
    """Energy of a step of every profile, with its spread over runs."""
    bars = [
        Bar(
            each.name,
            each.total_j,
            max(0.0, each.total_j - each.deviation_j),
            each.total_j + each.deviation_j,
        )
        for each in profiles
    ]
    return bar_chart(bars, title, AxisSpec("energy per step", "J"))


def grouped_bars(
    tables: Mapping[str, Mapping[str, float]], title: str, x: AxisSpec
) -> Picture:
    """Bars of some names that stand together, one of each table.

    Args:
        tables: Values by name, for each group.
        title: What it shows.
        x: What their length is.
    """
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
