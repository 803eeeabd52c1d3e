"""Accuracy against energy: which models are worth a look, in the manner of Figure 4.

A model is on the Pareto front if no other has at least its accuracy for less energy, or
more accuracy for at most its energy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from irene.analyse.accuracy_table import AccuracyRow
from irene.analyse.subject import LeftOut, Progress, read_subject, tree_of
from irene.energy import Energy
from irene.errors import UsageError
from irene.predict.machines.finding import find_predictor
from irene.spec import RunSpec
from irene.trace.sources import quiet

__all__ = ["Candidate", "TradeOff", "pareto_front", "trade_off"]

SCHEMA = "irene.trade_off/1"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model with accuracy and energy.

    Attributes:
        model: Its name.
        accuracy: Higher is better.
        energy: Per sequence.
        on_front: Whether no other is better in both.
        beaten_by: A model on the front that is, "" if none is.
        maybe: Not on the front, but its energy interval overlaps those of all models
            that are at least as accurate: it may be on the front.
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

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {**asdict(self), "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class TradeOff:
    """All candidates, the cheapest first.

    Attributes:
        candidates: With their places.
        budget_j: Most J per sequence that may be spent, if anybody said so.
        at_least: Least accuracy, if anybody said so.
        left_out: Models that could not be predicted.
        run: The run of every model, as the machine runs it.
    """

    candidates: tuple[Candidate, ...]
    budget_j: float | None = None
    at_least: float | None = None
    left_out: tuple[LeftOut, ...] = ()
    run: RunSpec = field(default_factory=RunSpec)

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
            "schema": SCHEMA,
            "run": self.run.of_any_model(),
            "budget_j": self.budget_j,
            "at_least": self.at_least,
            "chosen": chosen.model if chosen else None,
            "front": [each.model for each in self.front],
            "candidates": [each.to_dict() for each in self.candidates],
            "left_out": [asdict(each) for each in self.left_out],
        }

    def table(self) -> list[dict[str, Any]]:
        """One flat row for each candidate."""
        return [_flat(each) for each in self.candidates]


def pareto_front(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Candidates with their places filled in, the cheapest first.

    Of models equal in both, all are on the front.
    """
    ranked = sorted(candidates, key=lambda c: (c.energy.joules, -c.accuracy, c.model))
    placed: list[Candidate] = []
    best: Candidate | None = None
    for each in ranked:
        if best is None or each.accuracy > best.accuracy or _equal(each, best):
            best = replace(each, on_front=True, beaten_by="", maybe=False)
            placed.append(best)
        else:
            maybe = _may_be_on_front(each, candidates)
            beaten = replace(each, on_front=False, beaten_by=best.model, maybe=maybe)
            placed.append(beaten)
    return tuple(placed)


def _equal(one: Candidate, other: Candidate) -> bool:
    return (one.energy.joules, one.accuracy) == (other.energy.joules, other.accuracy)


def _may_be_on_front(each: Candidate, candidates: Sequence[Candidate]) -> bool:
    rivals = [c for c in candidates if c is not each and c.accuracy >= each.accuracy]
    return all(each.energy.low < rival.energy.high for rival in rivals)


def trade_off(
    rows: Sequence[AccuracyRow],
    run: RunSpec,
    on: str = "pc1",
    *,
    budget_j: float | None = None,
    at_least: float | None = None,
    progress: Progress | None = None,
) -> TradeOff:
    """Predict the energy of every model of a table and find the Pareto front.

    Args:
        rows: Models with accuracies; those with an energy are not predicted.
        run: The run; its model does not count.
        on: Machine or file of a predictor.
        budget_j: Most energy per sequence, J.
        at_least: Least accuracy.
        progress: Told what is being done.

    Raises:
        UsageError: None of the models can be predicted.
    """
    run = run.resolved(find_predictor(on))
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
    return TradeOff(pareto_front(found), budget_j, at_least, tuple(left_out), run)


def _candidate(row: AccuracyRow, run: RunSpec, on: str) -> Candidate:
    from irene.tree.headline import is_warning

    if row.energy_j is not None:
        value = row.energy_j
        energy = Energy(value, value, value, "measured", "the file")
        return Candidate(
            row.model, row.accuracy, energy, split=row.split, source=row.source
        )
    with quiet():
        tree = tree_of(read_subject(row.model, run, on))
    whole = tree.energy_of(0)
    assert whole is not None
    size = tree.spec.batch_size if tree.spec else 1
    return Candidate(
        row.model,
        row.accuracy,
        whole.scaled(1 / size),
        split=row.split,
        source=row.source,
        notes=tuple(note for note in tree.notes if is_warning(note)),
    )


def _flat(each: Candidate) -> dict[str, Any]:
    return {
        "model": each.model,
        "accuracy": each.accuracy,
        "energy_j": each.energy.joules,
        "low_j": each.energy.low,
        "high_j": each.energy.high,
        "on_front": each.on_front,
        "beaten_by": each.beaten_by,
        "split": each.split,
        "source": each.source,
    }
