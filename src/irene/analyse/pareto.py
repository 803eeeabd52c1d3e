"""Accuracy against energy: which models are worth a look, in the manner of Figure 4.

A model is on the Pareto front if no other has at least its accuracy for less energy, or
more accuracy for at most its energy.

Accuracies of models: a user's CSV file, or the published ones that ship.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

from irene.analyse.subject import LeftOut, Progress, read_subject, tree_of
from irene.energy import Energy, difference
from irene.errors import UsageError
from irene.plain import Document, flat_row
from irene.predict.machines.finding import find_machine
from irene.presented import Drawn
from irene.spec import RunSpec
from irene.trace.sources import quiet

ACCURACY = "accuracy"
PUBLISHED = "SST-2 accuracy"
"""What the published accuracies are of."""


@dataclass(frozen=True, slots=True)
class Candidate(Document):
    """A model with accuracy and energy.

    Attributes:
        model: Its name.
        accuracy: Higher is better.
        energy: Per sequence.
        on_front: Whether no other is better in both.
        beaten_by: A model that is, or may be; "" if none is.
        maybe: That is not sure. Not on the front: no model that is at least as accurate
            takes less for sure. On it: a more accurate one may take no more.
        split: Which data was scored.
        source: Where the accuracy is from.
        notes: Warnings of the prediction.
    """

    model: str
    accuracy: float
    energy: Energy
    on_front: bool = False
    beaten_by: str = ""
    maybe: bool = False
    split: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class TradeOff(Drawn):
    """All candidates, the cheapest first, of a run as the machine runs it."""

    candidates: tuple[Candidate, ...]
    budget_j: float | None = None
    at_least: float | None = None
    left_out: tuple[LeftOut, ...] = ()
    run: RunSpec = field(default_factory=RunSpec)
    hardware: str = ""
    score: str = ACCURACY

    schema: ClassVar = "irene.trade_off/1"

    @property
    def front(self) -> tuple[Candidate, ...]:
        """Those on the Pareto front, the cheapest first."""
        return tuple(each for each in self.candidates if each.on_front)

    @property
    def chosen(self) -> Candidate | None:
        """The model to take within budget and above accuracy; None if none fits.

        The cheapest if an accuracy was asked for, else the most accurate.
        """
        fit = [each for each in self.front if self._fits(each)]
        if not fit:
            return None
        return fit[0] if self.at_least is not None else fit[-1]

    def _fits(self, each: Candidate) -> bool:
        cheap = self.budget_j is None or each.energy.joules <= self.budget_j
        return cheap and (self.at_least is None or each.accuracy >= self.at_least)

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.trade_off/1` as JSON-ready values."""
        asked = self.budget_j is not None or self.at_least is not None
        chosen = self.chosen if asked else None
        return {
            "schema": self.schema,
            "run": self.run.of_any_model(),
            "hardware": self.hardware,
            "score": self.score,
            "budget_j": self.budget_j,
            "at_least": self.at_least,
            "chosen": chosen.model if chosen else None,
            "front": [each.model for each in self.front],
            "candidates": [each.to_dict() for each in self.candidates],
            "left_out": [asdict(each) for each in self.left_out],
        }

    def table(self) -> list[dict[str, Any]]:
        """One flat row for each candidate."""
        return [flat_row(each, "maybe", "notes") for each in self.candidates]


def pareto_front(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Candidates with their places filled in, the cheapest first.

    Of models equal in both, all are on the front.
    """
    ranked = sorted(candidates, key=lambda c: (c.energy.joules, -c.accuracy, c.model))
    placed: list[Candidate] = []
    best: Candidate | None = None
    for each in ranked:
        if best is None or each.accuracy > best.accuracy or _equal(each, best):
            rival = _rival(each, ranked)
            best = replace(each, on_front=True, beaten_by=rival, maybe=bool(rival))
            placed.append(best)
        else:
            maybe = _may_be_on_front(each, candidates)
            beaten = replace(each, on_front=False, beaten_by=best.model, maybe=maybe)
            placed.append(beaten)
    return tuple(placed)


def _equal(one: Candidate, other: Candidate) -> bool:
    return (one.energy.joules, one.accuracy) == (other.energy.joules, other.accuracy)


def _rival(each: Candidate, ranked: Sequence[Candidate]) -> str:
    """The cheapest of the more accurate, unless it takes more for sure."""
    above = next((c for c in ranked if c.accuracy > each.accuracy), None)
    if above is None:
        return ""
    more = difference(each.energy, above.energy)
    return "" if more.is_real and more.joules > 0 else above.model


def _may_be_on_front(each: Candidate, candidates: Sequence[Candidate]) -> bool:
    rivals = [c for c in candidates if c is not each and c.accuracy >= each.accuracy]
    against = (difference(each.energy, rival.energy) for rival in rivals)
    return not any(found.is_real and found.joules < 0 for found in against)


def trade_off(
    rows: Sequence[AccuracyRow],
    run: RunSpec,
    on: str = "default",
    *,
    budget_j: float | None = None,
    at_least: float | None = None,
    score: str = ACCURACY,
    progress: Progress | None = None,
) -> TradeOff:
    """Predict the energy of every model of a table and find the Pareto front.

    Args:
        rows: Models with accuracies; those with an energy are not predicted.
        run: The run; its model does not count.
        on: Machine or file of a predictor.
        budget_j: Most energy per sequence, J.
        at_least: Least accuracy.
        score: What the accuracy is of.
        progress: Told what is being done.

    Raises:
        UsageError: None of the models can be predicted.
    """
    machine = find_machine(on)
    run = run.resolved(machine)
    found: list[Candidate] = []
    left_out: list[LeftOut] = []
    for done, row in enumerate(rows):
        if progress:
            progress(done, len(rows), row.model)
        try:
            found.append(_candidate(row, run, on))
        except UsageError as error:
            left_out.append(LeftOut(row.model, str(error)))
    if not found:
        raise UsageError(left_out[0].problem)
    return TradeOff(
        *(pareto_front(found), budget_j, at_least, tuple(left_out), run),
        *(machine.hardware.name, score),
    )


def _candidate(row: AccuracyRow, run: RunSpec, on: str) -> Candidate:
    from irene.tree.headline import is_warning, sequence_energy, unfit

    if row.energy_j is not None:
        value = row.energy_j
        energy = Energy(value, value, value, "measured", "the file")
        return Candidate(
            row.model, row.accuracy, energy, split=row.split, source=row.source
        )
    with quiet():
        tree = tree_of(read_subject(row.model, run, on))
    if unfit(tree):
        raise UsageError(unfit(tree))
    return Candidate(
        row.model,
        row.accuracy,
        sequence_energy(tree),
        split=row.split,
        source=row.source,
        notes=tuple(note for note in tree.notes if is_warning(note)),
    )


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
    """The text of such a file."""
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
    """Read the text of such a file."""
    try:
        return _parsed(text, name)
    except csv.Error as error:
        raise UsageError(f"{name} cannot be read: {error}; {HOW}") from error


def _parsed(text: str, name: str) -> list[AccuracyRow]:
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
