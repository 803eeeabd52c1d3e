"""Every method's prediction of every node when its model was held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from benchmarks.accuracy import CANDIDATES

from irene.dataset import NodeTable
from irene.predict.exams.crossvalidation import percent_errors
from irene.predict.exams.splits import by_model
from irene.tree import KINDS

SEEDS = tuple(range(20))
"""Seeds of methods that learn from random weights: enough to see what chance does."""

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class HeldOut:
    """Predictions of one method.

    Attributes:
        table: The truth.
        energy_j: Seeds × rows of the table, J.
    """

    table: NodeTable
    energy_j: Floats

    @cached_property
    def percent(self) -> Floats:
        """Errors, seeds × rows, %."""
        return percent_errors(self.energy_j, self.table)

    def mean(self, rows: Bools) -> float:
        """Mean error of some rows over seeds, %."""
        return float(np.nanmean(self.percent[:, rows]))

    def range(self, rows: Bools) -> tuple[float, float]:
        """Mean error of some rows with the best and with the worst seed, %."""
        each = np.nanmean(self.percent[:, rows], axis=1)
        return float(each.min()), float(each.max())


def predict_held_out(table: NodeTable, label: str) -> HeldOut:
    """Predict each model from the others, with every seed.

    Args:
        table: Measured trees.
        label: Label of a candidate of benchmarks/accuracy.py.
    """
    candidate = next(c for c in CANDIDATES if c.label == label)
    seeds = SEEDS if len(candidate.seeds) > 1 else candidate.seeds
    energy_j = np.full((len(seeds), len(table)), np.nan)
    for fold in by_model(table):
        train, test = table.take(fold.train), table.take(fold.test)
        blind = replace(test, energy_j=np.full(len(test), np.nan))
        rows = _rows(table, fold.test)
        for i, seed in enumerate(seeds):
            energy_j[i, rows] = candidate.make(seed).fit(train).predict(blind)
    return HeldOut(table, energy_j)


def predict_all(
    table: NodeTable, labels: Sequence[str], progress: Callable[[str], None]
) -> dict[str, HeldOut]:
    """Predictions of several methods by label."""
    results = {}
    for label in labels:
        progress(f"{label}: every node, its model held out")
        results[label] = predict_held_out(table, label)
    return results


def of_kind(table: NodeTable, kind: str) -> Bools:
    """Rows of one kind."""
    return np.asarray(table.kind == KINDS.index(kind))


def of_model(table: NodeTable, model: str) -> Bools:
    """Rows of one model's trees."""
    is_of = np.array([key.model == model for key in table.keys])
    return np.asarray(is_of[table.tree])


def of_op(table: NodeTable, op: str) -> Bools:
    """Rows of one class."""
    return np.array([each == op for each in table.op])


def _rows(table: NodeTable, trees: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.concatenate(
        [np.arange(table.starts[t], table.starts[t + 1]) for t in trees]
    )
