"""Intervals from held-out errors: grouped conformal prediction.

Models are the unit that is exchangeable, not nodes: a node of an unseen model is like
the nodes of other models when those were left out. So the width at a level is the
largest of the held-out models' quantiles. Outside what was measured the width is that
of harder exams: a whole family left out, small runs from large ones and the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from irene.predict.learned_file import Floats, Saved
from irene.tree import KINDS

__all__ = [
    "COVERAGE",
    "LEVELS",
    "HeldOut",
    "Verdict",
    "Widths",
    "covering_error",
    "log_errors",
    "mean_percent",
    "widths_of",
]

LEVELS = ("ml", "module", "model")
"""Kinds of nodes whose errors are told apart."""
COVERAGE = 0.9
"""Part of the nodes that an interval is to cover."""

HeldOut = list[dict[str, Floats]]
"""log(predicted / measured) by level, for each group of trees that was held out."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run is within what was measured.

    Attributes:
        reasons: In words, what goes beyond it.
        factor: How much wider than for other sizes the intervals are.
    """

    reasons: tuple[str, ...]
    factor: float

    @property
    def is_outside(self) -> bool:
        """True if anything goes beyond what was measured."""
        return bool(self.reasons)


@dataclass(frozen=True, slots=True)
class Widths(Saved):
    """Half-widths of the intervals on the logarithm of energy, by level.

    Attributes:
        inside: Within what was measured.
        outside: Beyond it: other sizes, widths, architectures.
        streams: Of primitives that nobody measured alone, elementwise ones above all:
            how much their rates differ between exams.
    """

    inside: Mapping[str, float]
    outside: Mapping[str, float]
    streams: float = 0.0

    def of(
        self,
        kinds: npt.NDArray[np.int64],
        is_indirect: npt.NDArray[np.bool_],
        verdict: Verdict,
    ) -> Floats:
        """Half-width of every node.

        Args:
            kinds: Index into `KINDS` of every node.
            is_indirect: Whether a primitive was never measured by itself.
            verdict: Whether the run is beyond what was measured.
        """
        chosen = self.outside if verdict.is_outside else self.inside
        by_kind = [chosen["ml" if kind == "math" else kind] for kind in KINDS]
        widths = np.array(by_kind)[kinds]
        widened: Floats = np.where(
            is_indirect, np.maximum(widths, self.streams), widths
        )
        return verdict.factor * widened


def log_errors(predicted_j: Floats, measured_j: Floats) -> Floats:
    """log(predicted / measured); NaN where there is no prediction."""
    with np.errstate(divide="ignore", invalid="ignore"):
        errors: Floats = np.log(predicted_j / measured_j)
    return errors


def widths_of(groups: Iterable[Mapping[str, Floats]]) -> dict[str, float]:
    """Width per level that covers the nodes of every held-out group.

    Args:
        groups: For every held-out group, the errors of its nodes by level.
    """
    several = list(groups)
    return {
        level: max(float(np.nan_to_num(covering_error(g[level]))) for g in several)
        for level in LEVELS
    }


def covering_error(errors: Sequence[float] | Floats) -> float:
    """The conformal quantile of one group's errors: at least `COVERAGE` are within.

    Args:
        errors: Of every node; NaN where there is no prediction.

    Returns:
        A size of error; NaN where there is none.
    """
    known = np.sort(np.abs(np.asarray(errors)[np.isfinite(errors)]))
    if not len(known):
        return math.nan
    rank = min(math.ceil((len(known) + 1) * COVERAGE), len(known))
    return float(known[rank - 1])


def mean_percent(groups: HeldOut) -> dict[str, float | None]:
    """Mean error per level over the nodes, then over the held-out groups, %."""
    means: dict[str, float | None] = {}
    for level in LEVELS:
        each = [np.abs(np.expm1(group[level])) for group in groups]
        known = [np.nanmean(some) for some in each if np.isfinite(some).any()]
        means[level] = round(100 * float(np.mean(known)), 3) if known else None
    return means
