"""A new machine from a known one and few measured trees.

The known machine's rates are multiplied by one factor, four or ten, or the new machine
is learned from its own trees alone: whichever predicts held-out trees of the new one
best. With one tree nothing can be held out and ten factors are taken; without any tree
the known machine stands in, with wide intervals and a warning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from irene.arrays import Floats, Ints
from irene.dataset.table import NodeTable, TreeKey
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.predict.intervals import (
    COVERAGE,
    LEVELS,
    HeldOut,
    Widths,
    mean_percent,
    widths_of,
)
from irene.predict.learning.join import Joiner, Progress
from irene.predict.learning.scaling import (
    GROUPINGS,
    Parts,
    fit_factors,
    parts_of,
    scaled,
)
from irene.predict.learning.training_runs import held_out
from irene.predict.machines.domain import Domain, domain_of
from irene.predict.machines.predictor import Predictor
from irene.predict.machines.specs.specs_method import (
    SHARED_JOINER,
    measured_rows_j,
    measurements,
)
from irene.predict.machines.specs.specs_model import SpecsModel, fit_specs

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
            raise joiner.without_configs(table)
        return cls(source, table, joiner, parts, trees)

    def fit(self, name: str, trees: Ints) -> SpecsModel:
        """A candidate (`ALONE` or a key of `GROUPINGS`) learned from some trees."""
        if name == ALONE:
            return fit_specs(measurements(self.table.take(trees), self.joiner))
        return scaled(self.source, self.factors(name, trees))

    def factors(self, name: str, trees: Ints) -> dict[str, float]:
        """Factors of a candidate that multiplies the known machine's rates."""
        return fit_factors(self.parts.of_trees(trees), GROUPINGS[name])

    def errors(self, model: SpecsModel, trees: Ints) -> dict[str, Floats]:
        """log(predicted / measured) of some trees' nodes, by level."""
        test = self.table.take(trees)
        return held_out(test, measured_rows_j(model, test, self.joiner))

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


SOURCE = "source"
"""The choice where nothing was measured."""
WITHOUT_EXAM = "many"
"""The choice with one tree, where nothing can be held out: never far from the best on
machines made of PC1's rates (`benchmarks/second_machine.py`)."""
UNCALIBRATED = math.log(3.0)
"""Half-width, on the logarithm, where no tree was measured: a third to three times."""


def calibrate(
    source: Predictor,
    table: NodeTable | None,
    hardware: Hardware,
    provenance: Mapping[str, Any],
    joiner: Joiner = SHARED_JOINER,
    progress: Progress | None = None,
) -> Predictor:
    """Bring a known machine to a new one.

    Raises:
        UsageError: Trees were given and none could be matched with a trace, or the
            known machine is a CPU.
    """
    if table is None or not len(table.keys):
        return _uncalibrated(source, hardware, provenance)
    if not isinstance(source.model, SpecsModel):
        raise UsageError(
            f"{source.hardware.name} runs one op after the other and is no start for "
            "another machine: train one from the trees"
        )
    target = Target.of(source.model, table, joiner)
    split, groups = rounds(table.keys, target.trees)
    exams = target.exams(groups, progress)
    errors = {name: mean_percent(each) for name, each in exams.items()}
    totals = {name: sum(filter(None, each.values())) for name, each in errors.items()}
    choice = min(totals, key=totals.__getitem__, default=WITHOUT_EXAM)
    model = target.fit(choice, target.trees)
    told = {
        **provenance,
        **_account(source, target, choice),
        "held_out_errors_percent": {split: errors[choice]} if errors else {},
        "errors_percent_by_choice": errors,
    }
    widths = _widths(source, target, model, exams.get(choice))
    return Predictor(hardware, model, widths, _domain(source, target, choice), told)


def _uncalibrated(
    source: Predictor, hardware: Hardware, provenance: Mapping[str, Any]
) -> Predictor:
    wide = dict.fromkeys(LEVELS, UNCALIBRATED)
    told = {
        **provenance,
        "method": "specs",
        "calibrated_from": _name(source),
        "choice": SOURCE,
        "models": [],
        "trees": 0,
        "measurements": 0,
        "coverage": None,
        "held_out_errors_percent": {},
        "caveats": [
            f"warning: nothing was measured on {hardware.name}: these are the rates "
            f"of {source.hardware.name}, and the interval is a guess"
        ],
    }
    widths = Widths(wide, wide, UNCALIBRATED)
    return Predictor(hardware, source.model, widths, source.domain, told)


def _account(source: Predictor, target: Target, choice: str) -> dict[str, Any]:
    """For the record: what was learned, from what, and how."""
    keys = [target.table.keys[tree] for tree in target.trees.tolist()]
    told: dict[str, Any] = {
        "method": "specs",
        "calibrated_from": _name(source),
        "choice": choice,
        "models": list(dict.fromkeys(key.model for key in keys)),
        "trees": len(keys),
        "measurements": len(np.unique(target.parts.energy_j)),
        "unmatched": dict(target.joiner.unknown),
        "coverage": COVERAGE,
    }
    if choice != ALONE:
        factors = target.factors(choice, target.trees)
        names = GROUPINGS[choice]
        told["factors"] = {names[part]: round(v, 4) for part, v in factors.items()}
    if len(keys) == 1:
        told["caveats"] = [
            "warning: calibrated on one tree: nothing was held out, the interval "
            "is a guess"
        ]
    return told


def _name(source: Predictor) -> str:
    return source.hardware.predictor or source.hardware.name


def _domain(source: Predictor, target: Target, choice: str) -> Domain:
    """What both were measured on; for a machine learned alone, its own."""
    table = target.table.take(target.trees)
    kernels = measurements(table, target.joiner).kernels
    old = source.domain
    new = domain_of(table.keys, kernels, old.dtype, old.software)
    if choice == ALONE:
        return new
    return replace(
        old,
        models=tuple(dict.fromkeys((*old.models, *new.models))),
        tokens=_hull(old.tokens, new.tokens),
        lengths=_hull(old.lengths, new.lengths),
        widths=_hull(old.widths, new.widths),
        elements={
            group: _hull(of_old, new.elements.get(group, of_old))
            for group, of_old in old.elements.items()
        },
    )


def _hull(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return min(a[0], b[0]), max(a[1], b[1])


def _widths(
    source: Predictor, target: Target, model: SpecsModel, missed: HeldOut | None
) -> Widths:
    """Intervals from held-out errors, wider the fewer groups were held out.

    They are never narrower than the known machine's. Of a single tree, the largest
    misfit at any level stands for all levels: its root alone is always explained.
    """
    old = source.widths
    if missed is None:
        seen = widths_of([target.errors(model, target.trees)])
        most = max(seen.values())
        inside = {level: math.hypot(old.outside[level], most) for level in LEVELS}
    else:
        missed_at = widths_of(missed)
        inside = {level: max(old.inside[level], missed_at[level]) for level in LEVELS}
    inside = {level: min(width, UNCALIBRATED) for level, width in inside.items()}
    outside = {
        level: min(math.hypot(inside[level], old.outside[level]), UNCALIBRATED)
        for level in LEVELS
    }
    streams = max(old.streams, outside["ml"])
    return Widths(inside, outside, streams, beyond=old.beyond)
