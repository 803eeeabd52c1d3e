"""How far predictions are off: cross-validation, the same for every method.

No round needs to know of another. Whoever asks for them says how they are predicted:
one after the other in this process, or by a function that sends them elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats, Ints
from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.plain import Document
from irene.predict.exams.splits import Fold, Split
from irene.predict.intervals import LEVELS, covering_error, group_width
from irene.predict.learning.join import Progress
from irene.predict.machines.specs.specs_method import SpecsMethod
from irene.predict.machines.specs.specs_model import SpecsModel
from irene.predict.methods import Method
from irene.tree import KINDS


@dataclass(frozen=True, slots=True)
class Round:
    """Trees to predict from others with one random start.

    Attributes:
        name: What is held out, in words.
        fold: The trees.
        seed: The random start.
    """

    name: str
    fold: Fold
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Predicted:
    """What came out of a round.

    Attributes:
        energy_j: Of every node of the trees that were held out, J; NaN where the
            method gave no number.
        stream_j: Rates of streams that `specs` learned from the rest, J per MiB; None
            for other methods and machines.
    """

    energy_j: Floats
    stream_j: Floats | None = None


PredictRounds = Callable[[Sequence[Round], Progress | None], Sequence[Predicted]]
"""Predicts rounds, in whatever order, and gives them in the order they came; tells how
many are done, of how many, and which was the last."""


def predict_round(table: NodeTable, method: Method, fold: Fold) -> Predicted:
    """Learn from some trees, predict the others without a look at their energy."""
    test = table.take(fold.test)
    blind = replace(test, energy_j=np.full(len(test), np.nan))
    energy_j = method.fit(table.take(fold.train)).predict(blind)
    learned = method.model_ if isinstance(method, SpecsMethod) else None
    if isinstance(learned, SpecsModel):
        return Predicted(energy_j, learned.composition.stream_j)
    return Predicted(energy_j)


def rounds_here(
    table: NodeTable, make_method: Callable[[int], Method]
) -> PredictRounds:
    """Rounds one after the other, in this process."""

    def predict(
        rounds: Sequence[Round], progress: Progress | None = None
    ) -> list[Predicted]:
        found = []
        for each in rounds:
            method = make_method(each.seed)
            found.append(predict_round(table, method, each.fold))
            if progress is not None:
                progress(len(found), len(rounds), each.name)
        return found

    return predict


SCHEMA = "irene.crossvalidation/1"


@dataclass(frozen=True, slots=True)
class Errors:
    """Mean of 100·|P−G|/G over the nodes of each level, %; NaN where there is none."""

    ml: float
    module: float
    model: float

    @classmethod
    def by_level(cls, error: Callable[[str], float]) -> Errors:
        """What a function says of every level."""
        return cls(*map(error, LEVELS))

    @classmethod
    def mean(cls, several: Sequence[Errors]) -> Errors:
        """Mean of each level over those that have it."""
        return cls.by_level(
            lambda level: mean_known([getattr(e, level) for e in several])
        )

    def to_dict(self) -> dict[str, float | None]:
        """Levels by name; None for NaN."""
        values = {level: float(getattr(self, level)) for level in LEVELS}
        return {k: None if math.isnan(v) else v for k, v in values.items()}


@dataclass(frozen=True, slots=True)
class Row:
    """One round.

    Attributes:
        held_out: What was predicted from the rest.
        errors: Mean over seeds.
        unpredicted: Nodes for which the method gave no number.
        coverage: Part of the nodes of each level, %, whose energy lies in an interval
            as wide as 90 % of the nodes of every other round need; None where there
            is no other round.
    """

    held_out: str
    errors: Errors
    unpredicted: int = 0
    coverage: Errors | None = None

    def to_dict(self) -> dict[str, object]:
        """As in the JSON document."""
        row: dict[str, object] = {"held_out": self.held_out, **self.errors.to_dict()}
        if self.unpredicted:
            row["unpredicted"] = self.unpredicted
        if self.coverage is not None:
            row["coverage_percent"] = self.coverage.to_dict()
        return row


@dataclass(frozen=True, slots=True)
class CrossValidation(Document):
    """What came out.

    Attributes:
        dataset: Name of the data.
        method: Name of the method.
        features: What it saw of a node.
        split: What was held out.
        rows: One per round.
        average: Mean over the rounds.
        node_weighted: Mean over all nodes of all rounds.
        seeds: Seeds whose errors were averaged.
        node_errors: Errors of all nodes with every seed by level, %, sorted.
    """

    schema: ClassVar = SCHEMA
    dataset: str
    method: str
    features: str
    split: str
    rows: tuple[Row, ...]
    average: Errors
    node_weighted: Errors
    seeds: tuple[int, ...] = (0,)
    node_errors: Mapping[str, Floats] = field(
        default_factory=dict, compare=False, repr=False, metadata={"kept": False}
    )

    def to_dict(self) -> dict[str, object]:
        """The JSON document."""
        document = Document.to_dict(self)
        if len(self.seeds) == 1:
            del document["seeds"]
        return document


def percent_errors(predicted_j: Floats, table: NodeTable) -> Floats:
    """100·|P−G|/G of every row, %; NaN where there is no prediction.

    Args:
        predicted_j: Prediction of every row, (rows,) or (seeds, rows), J.
        table: The truth.
    """
    off = np.abs(predicted_j - table.energy_j) / table.energy_j
    return np.asarray(100.0 * off, dtype=np.float64)


def crossvalidate(
    table: NodeTable,
    make_method: Callable[[int], Method],
    split: Split,
    seeds: Sequence[int] = (0,),
    *,
    features: str = "all",
    split_name: str = "model",
    progress: Progress | None = None,
    predict_rounds: PredictRounds | None = None,
) -> CrossValidation:
    """Predict every part of the data from the rest.

    The method does not see the energy of what it predicts.

    Args:
        table: Measured trees.
        make_method: A new method for a seed.
        split: What is held out, round after round.
        seeds: Errors are averaged over these.
        features: For the record: what the method sees.
        split_name: For the record: what the split is called.
        progress: Called after every round of every seed with rounds done, rounds in
            all, and what was held out.
        predict_rounds: Predicts the rounds elsewhere, with the same method; None for
            here, one after the other.

    Raises:
        UsageError: No seed.
    """
    if not seeds:
        raise UsageError("cross-validation needs at least one seed")
    folds = split(table)
    asked = [Round(fold.held_out, fold, seed) for fold in folds for seed in seeds]
    predict = predict_rounds or rounds_here(table, make_method)
    found = predict(asked, progress)
    rounds = [
        _errors_of(table, fold, found[i * len(seeds) : (i + 1) * len(seeds)])
        for i, fold in enumerate(folds)
    ]
    rows = tuple(
        Row(fold.held_out, each.errors(), each.unpredicted, coverage)
        for fold, each, coverage in zip(folds, rounds, _coverages(rounds), strict=True)
    )
    every = _Round(
        np.concatenate([each.percent for each in rounds], axis=1),
        np.concatenate([each.level for each in rounds]),
        sum(each.unpredicted for each in rounds),
    )
    return CrossValidation(
        table.name,
        make_method(seeds[0]).name,
        features,
        split_name,
        rows,
        Errors.mean([row.errors for row in rows]),
        every.errors(),
        tuple(seeds),
        {level: _known(every.of_level(level)) for level in LEVELS},
    )


@dataclass(frozen=True, slots=True)
class _Round:
    """Errors of the nodes that were held out.

    Attributes:
        percent: Seeds × nodes, %.
        level: Kind of every node, an index into `KINDS`.
        unpredicted: Nodes for which the method gave no number.
    """

    percent: Floats
    level: Ints
    unpredicted: int

    def errors(self) -> Errors:
        """Mean of every level over nodes, then over seeds."""
        return Errors.by_level(
            lambda level: mean_known(list(map(mean_known, self.of_level(level))))
        )

    def of_level(self, level: str) -> Floats:
        """Errors of the nodes of a level, seeds × nodes, %."""
        return self.percent[:, self.level == KINDS.index(level)]

    def covering(self) -> Errors:
        """Error that 90 % of the nodes of each level stay below, %."""
        return Errors.by_level(lambda level: covering_error(self.of_level(level)))

    def covered(self, others: Sequence[Errors]) -> Errors:
        """Part of the nodes of each level within the width of others, %."""

        def part(level: str) -> float:
            width = group_width([getattr(other, level) for other in others])
            return 100.0 * mean_known((self.of_level(level) <= width).ravel())

        return Errors.by_level(part)


def _errors_of(table: NodeTable, fold: Fold, of_seeds: Sequence[Predicted]) -> _Round:
    test = table.take(fold.test)
    predicted_j = np.stack([each.energy_j for each in of_seeds])
    unpredicted = int(np.isnan(predicted_j).any(axis=0).sum())
    return _Round(percent_errors(predicted_j, test), test.kind, unpredicted)


def _coverages(rounds: Sequence[_Round]) -> list[Errors | None]:
    """Coverage of every round by intervals that the others set (cross-conformal)."""
    if len(rounds) < 2:
        return [None] * len(rounds)
    needed = [each.covering() for each in rounds]
    return [
        each.covered([w for j, w in enumerate(needed) if j != i])
        for i, each in enumerate(rounds)
    ]


def _known(errors: Floats) -> Floats:
    """The errors that there are, sorted."""
    return np.sort(errors[~np.isnan(errors)])


def mean_known(
    values: Sequence[float] | npt.NDArray[Any], weights: Floats | None = None
) -> float:
    """Mean of what is known; NaN where nothing is."""
    known = np.asarray(values, dtype=np.float64)
    there = ~np.isnan(known)
    weights = weights if weights is None else weights[there]
    return float(np.average(known[there], weights=weights)) if there.any() else math.nan
