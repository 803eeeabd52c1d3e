"""A new machine from a known one and few measured trees.

The known machine's rates are multiplied by one factor, four or ten, or the new machine
is learned from its own trees alone: whichever predicts held-out trees of the new one
best. With one tree nothing can be held out and four factors are taken; without any tree
the known machine stands in, with wide intervals and a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import norm, t

from irene.dataset.table import NodeTable
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
from irene.predict.learning.candidates import ALONE, Target, rounds
from irene.predict.learning.join import Joiner
from irene.predict.learning.scaling import GROUPINGS
from irene.predict.machines.domain import Domain, domain_of
from irene.predict.machines.predictor import Predictor
from irene.predict.machines.specs.method import SHARED_JOINER, measurements
from irene.predict.machines.specs.model import SpecsModel

__all__ = ["SOURCE", "UNCALIBRATED", "calibrate"]

Progress = Callable[[int, int, str], None]

SOURCE = "source"
"""The choice where nothing was measured."""
WITHOUT_EXAM = "few"
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

    Args:
        source: The known machine.
        table: Trees measured on the new machine; None if there is none.
        hardware: The new machine.
        provenance: Where the data comes from; what was chosen, and its errors, are
            added.
        joiner: Matches measured trees with traces.
        progress: Told of every step.

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
    errors = {name: mean_percent(held_out) for name, held_out in exams.items()}
    choice = min(errors, key=lambda name: _total(errors[name]), default=WITHOUT_EXAM)
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
    )


def _hull(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return min(a[0], b[0]), max(a[1], b[1])


def _widths(
    source: Predictor, target: Target, model: SpecsModel, held_out: HeldOut | None
) -> Widths:
    """Intervals from held-out errors, wider the fewer groups were held out.

    They are never narrower than the known machine's. Of a single tree, the largest
    misfit at any level stands for all levels: its root alone is always explained.
    """
    old = source.widths
    if held_out is None:
        seen = widths_of([target.errors(model, target.trees)])
        missed = _widening(2) * max(seen.values())
        inside = {level: math.hypot(old.outside[level], missed) for level in LEVELS}
    else:
        factor = _widening(len(held_out))
        missed_at = widths_of(held_out)
        inside = {
            level: max(old.inside[level], factor * missed_at[level]) for level in LEVELS
        }
    inside = {level: min(width, UNCALIBRATED) for level, width in inside.items()}
    outside = {
        level: min(math.hypot(inside[level], old.outside[level]), UNCALIBRATED)
        for level in LEVELS
    }
    return Widths(inside, outside, max(old.streams, outside["ml"]))


def _widening(groups: int) -> float:
    """How much wider Student's interval is for so few groups than for many."""
    tail = 0.5 + COVERAGE / 2
    return float(t.ppf(tail, groups - 1) / norm.ppf(tail))


def _total(errors: Mapping[str, float | None]) -> float:
    return sum(error for error in errors.values() if error is not None)
