"""Accuracies of models: a user's CSV file, or the published ones that ship."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from irene.errors import UsageError

__all__ = [
    "AccuracyRow",
    "accuracies_text",
    "parse_accuracies",
    "published_accuracies",
    "read_accuracies",
]

HOW = "the first line is model,accuracy (and, if known, energy_j per sequence, source)"
LARGEST_FILE = 10_000_000


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """A model and its score.

    Attributes:
        model: As in the file.
        accuracy: In the file's unit, higher is better.
        energy_j: J per sequence, where the file has it.
        split: Which data was scored (`test`, `dev`), "" if unsaid.
        source: Where the score is published, "" if unsaid.
    """

    model: str
    accuracy: float
    energy_j: float | None = None
    split: str = ""
    source: str = ""


@cache
def published_accuracies() -> tuple[AccuracyRow, ...]:
    """Published accuracies on SST-2 (GLUE), %, each with its source."""
    file = resources.files("irene.analyse").joinpath("tables", "sst2.csv")
    return tuple(parse_accuracies(file.read_text(encoding="utf-8"), "sst2.csv"))


def read_accuracies(path: str | Path) -> list[AccuracyRow]:
    """Read a CSV file with the columns `model` and `accuracy`.

    Args:
        path: May also have `energy_j` (J per sequence), `split` and `source`.

    Raises:
        UsageError: The file cannot be read, is empty, or a row is wrong.
    """
    return parse_accuracies(accuracies_text(path), str(path))


def accuracies_text(path: str | Path) -> str:
    """The text of such a file.

    Raises:
        UsageError: The file cannot be read.
    """
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise UsageError(f"{path} is too large for a table of accuracies")
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8: {HOW}") from error


def parse_accuracies(text: str, name: str) -> list[AccuracyRow]:
    """Read the text of such a file.

    Args:
        text: CSV.
        name: What messages call it.

    Raises:
        UsageError: It is empty, or a row is wrong.
    """
    reader = csv.DictReader(io.StringIO(text))
    columns = [column.strip().lower() for column in reader.fieldnames or ()]
    if not columns:
        raise UsageError(f"{name} is empty: {HOW}")
    missing = {"model", "accuracy"} - set(columns)
    if missing:
        found = ", ".join(columns)
        raise UsageError(
            f"{name} has no column {' and '.join(sorted(missing))} (it has {found}): "
            f"{HOW}"
        )
    reader.fieldnames = columns
    rows = [_row(fields, name, reader.line_num) for fields in _filled(reader)]
    if not rows:
        raise UsageError(f"{name} has no rows below its first line: {HOW}")
    seen = [row.model for row in rows]
    twice = next((model for model in seen if seen.count(model) > 1), None)
    if twice:
        raise UsageError(f"{name} has {twice} twice")
    return rows


def _filled(reader: csv.DictReader[str]) -> Sequence[Mapping[str, str]]:
    filled = []
    for fields in reader:
        row = {key: (value or "").strip() for key, value in fields.items() if key}
        if any(row.values()):
            filled.append(row)
    return filled


def _row(fields: Mapping[str, str], name: str, line: int) -> AccuracyRow:
    if not fields["model"]:
        raise UsageError(f"{name}: a row before line {line + 1} names no model")
    energy = fields.get("energy_j")
    return AccuracyRow(
        fields["model"],
        _number(fields["accuracy"], "accuracy", fields["model"], name),
        _number(energy, "energy_j", fields["model"], name) if energy else None,
        fields.get("split", ""),
        fields.get("source", ""),
    )


def _number(text: str, column: str, model: str, name: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError as error:
        raise UsageError(
            f"{name}: {column} of {model} is {text!r}, not a number"
        ) from error
    if not 0 <= value < float("inf"):
        raise UsageError(f"{name}: {column} of {model} is {text}, which cannot be")
    return value
