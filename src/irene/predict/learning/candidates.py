"""Ways to a new machine, examined on trees of that machine that they have not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from irene.dataset.table import NodeTable, TreeKey
from irene.errors import UsageError
from irene.predict.exams.evaluation import measured_rows_j
from irene.predict.intervals import LEVELS, HeldOut, log_errors
from irene.predict.learning.join import Joiner
from irene.predict.learning.scaling import (
    GROUPINGS,
    Parts,
    fit_factors,
    parts_of,
    scaled,
)
from irene.predict.machines.specs.method import measurements
from irene.predict.machines.specs.model import SpecsModel, fit_specs

__all__ = ["ALONE", "Rounds", "Target", "rounds"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Progress = Callable[[int, int, str], None]

ALONE = "alone"
"""The candidate that learns from the new machine's trees and nothing else."""
MOST_ROUNDS = 8


class Rounds(NamedTuple):
    """What is held out.

    Attributes:
        split: `size` or `tree`.
        groups: Trees that are held out together.
    """

    split: str
    groups: list[Ints]


def rounds(keys: Sequence[TreeKey], trees: Ints) -> Rounds:
    """Hold out sizes where there are three or more, otherwise trees.

    At one size, equal shapes of another model would make the exam a look-up.

    Args:
        keys: Model and size of every tree.
        trees: Those that count.
    """
    sizes: dict[tuple[int, int, int], list[int]] = {}
    for tree in trees.tolist():
        _, batch, length = keys[tree]
        sizes.setdefault((batch * length, batch, length), []).append(tree)
    by_size = len(sizes) > 2
    groups = [sizes[size] for size in sorted(sizes)]
    if not by_size:
        groups = [[tree] for tree in trees.tolist()] if len(trees) > 1 else []
    count = min(len(groups), MOST_ROUNDS)
    several = np.array_split(np.arange(len(groups)), count) if count else []
    joined = [[tree for group in some for tree in groups[group]] for some in several]
    return Rounds("size" if by_size else "tree", [np.array(some) for some in joined])


@dataclass(frozen=True, slots=True)
class Target:
    """The new machine's measurements, and the known machine they are held against.

    Attributes:
        source: The known machine.
        table: What was measured.
        joiner: Matches it with traces.
        parts: What the known machine would take.
        trees: Trees that could be matched.
    """

    source: SpecsModel
    table: NodeTable
    joiner: Joiner
    parts: Parts
    trees: Ints

    @classmethod
    def of(cls, source: SpecsModel, table: NodeTable, joiner: Joiner) -> Target:
        """Match measured trees with traces.

        Raises:
            UsageError: None could be matched.
        """
        parts = parts_of(source, table, joiner)
        trees = np.unique(parts.tree)
        if not len(trees):
            known = ", ".join(f"{m} ({why})" for m, why in joiner.unknown.items())
            raise UsageError(f"no model of {table.name} has a config: {known}")
        return cls(source, table, joiner, parts, trees)

    def fit(self, name: str, trees: Ints) -> SpecsModel:
        """A candidate learned from some of the trees.

        Args:
            name: `ALONE` or a key of `GROUPINGS`.
            trees: What it may see.
        """
        if name == ALONE:
            return fit_specs(measurements(self.table.take(trees), self.joiner))
        return scaled(self.source, self.factors(name, trees))

    def factors(self, name: str, trees: Ints) -> dict[str, float]:
        """Factors of a candidate that multiplies the known machine's rates."""
        return fit_factors(self.parts.of_trees(trees), GROUPINGS[name])

    def errors(self, model: SpecsModel, trees: Ints) -> dict[str, Floats]:
        """log(predicted / measured) of some trees' nodes, by level."""
        test = self.table.take(trees)
        errors = log_errors(measured_rows_j(model, test, self.joiner), test.energy_j)
        return {level: errors[test.rows(level)] for level in LEVELS}

    def exams(
        self, groups: Sequence[Ints], progress: Progress | None = None
    ) -> dict[str, HeldOut]:
        """Every candidate's errors on each group of trees when it is held out.

        A candidate that cannot learn from what remains is left out.
        """
        names = (*GROUPINGS, ALONE)
        results: dict[str, HeldOut] = {name: [] for name in names if groups}
        for done, test in enumerate(groups):
            rest = np.setdiff1d(self.trees, test)
            for i, name in enumerate(names):
                if progress is not None:
                    step, steps = done * len(names) + i, len(groups) * len(names)
                    progress(step, steps, f"{name}, round {done + 1}")
                try:
                    results[name].append(self.errors(self.fit(name, rest), test))
                except UsageError:
                    continue
        return {n: each for n, each in results.items() if len(each) == len(groups)}
