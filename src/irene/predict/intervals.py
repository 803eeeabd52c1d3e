"""Intervals from held-out errors: grouped conformal prediction.

Models are the unit that is exchangeable, not nodes: a node of an unseen model is like
the nodes of other models when those were left out. So the width at a level is that of
the held-out models, wider the fewer there are (`group_width`). What lies beyond the
measured adds to it, cause by cause, with how far and how much of the energy does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from irene.arrays import Bools, Floats, Ints
from irene.energy import SharedError
from irene.human import human_width
from irene.saved import Saved
from irene.tree import KINDS, ModelTree

LEVELS = ("ml", "module", "model")
"""Kinds of nodes whose errors are told apart."""
COVERAGE = 0.9
"""Part of the nodes that an interval is to cover."""
WORTH_SAYING = 0.25
"""Part of an interval from which on a cause is worth a word: 3 % are added to it."""
BEYOND: Mapping[str, float] = MappingProxyType(
    {
        "width": 0.06,
        "tokens": 0.06,
        "length": 0.08,
        "elements": 0.12,
        "dtype": 0.7,
        "phase": 0.5,
        "group": 0.9,
    }
)
"""Half the interval, in log units, of what was never measured, by cause.

Of sizes for each octave. From exams on PC1 that leave the cause out: weights wider than
768, runs of at most 1,024 tokens and of more than 2,048, lengths above 128 and below
96, the smallest and the largest of kernels that are no products, each group of kernels
in turn; of types from kernels of GPUs whose table was left
out (`benchmarks/coverage.py`).
"""
ASSUMED = frozenset({"phase"})
"""Causes that no exam can ask for."""
ROUNDS = 8
ROUNDING = 1e-6
"""Part of the largest difference, squared, below which nothing is told apart."""

HeldOut = list[dict[str, Floats]]
"""log(predicted / measured) by level, and the `tokens` of whole runs, for each group of
trees that was held out."""


class Doubt(NamedTuple):
    """How uncertain something that was never measured makes single rows.

    Attributes:
        cause: Names the error.
        words: What is beyond.
        rows: Half the interval that each row would have alone, in log units.
        is_assumed: Whether no measurement could tell that.
        is_beyond: Whether it goes beyond what was measured.
    """

    cause: str
    words: str
    rows: Floats
    is_assumed: bool = False
    is_beyond: bool = True


@dataclass(frozen=True, slots=True)
class Beyond:
    """Something that was never measured, and how much it makes energies uncertain.

    Attributes:
        cause: Names the error: it is one error wherever it occurs on a machine.
        words: What is beyond, as it goes on from "so much of the energy is".
        widths: Half the interval that it gives every node, in log units.
        share: Part of the whole energy that it concerns, 0 to 1.
        is_assumed: Whether no measurement could tell how uncertain it is.
        is_beyond: Whether it goes beyond what was measured, or is only doubted.
    """

    cause: str
    words: str
    widths: Floats
    share: float
    is_assumed: bool = False
    is_beyond: bool = True

    @classmethod
    def of(
        cls, tree: ModelTree, own_j: Floats, doubts: Sequence[Doubt]
    ) -> list[Beyond]:
        """Causes by the rows they touch; what rows have in common adds up.

        Args:
            tree: Folded or not.
            own_j: Energy of every row without its children, J.
            doubts: Each cause, in its rows.
        """
        if not doubts:
            return []
        columns = np.column_stack([each.rows for each in doubts])
        each = np.column_stack([columns, columns > 0, np.ones(len(own_j))])
        sums = tree.columns.inclusive(each * own_j[:, None], tree.structure.levels)
        whole = np.where(sums[:, -1] > 0, sums[:, -1], 1.0)
        widths = np.ascontiguousarray((sums[:, : len(doubts)] / whole[:, None]).T)
        shares = (sums[0, len(doubts) : -1] / whole[0]).tolist()
        return [
            cls(doubt.cause, doubt.words, width, share, *doubt[3:])
            for doubt, width, share in zip(doubts, widths, shares, strict=True)
        ]

    @property
    def width(self) -> float:
        """Half the interval that it gives the whole, in log units."""
        return float(self.widths[0])

    def note(self) -> str:
        """What a reader should know of it."""
        share = "all" if self.share > 0.995 else f"{self.share:.0%}"
        return (
            ("extrapolation: " if self.is_beyond else "")
            + f"{share} of the energy is {self.words}; that alone "
            f"leaves it {human_width(self.width)}"
            + (", an assumption" if self.is_assumed else "")
        )


def with_beyond(widths: Floats, causes: Sequence[Beyond]) -> Floats:
    """Intervals with what lies beyond what was measured, half of each in log units."""
    squares = sum((each.widths**2 for each in causes), widths**2)
    return np.asarray(np.sqrt(squares), dtype=np.float64)


def worth_saying(widths: Floats, causes: Sequence[Beyond]) -> list[Beyond]:
    """Causes that make the interval of the whole wider, the largest first.

    Args:
        widths: Half the intervals without them, in log units.
        causes: All of them.
    """
    least = WORTH_SAYING * float(with_beyond(widths, causes)[0])
    return sorted((c for c in causes if c.width > least), key=lambda c: -c.width)


@dataclass(frozen=True, slots=True)
class Widths(Saved):
    """Half-widths of the intervals on the logarithm of energy, by level.

    Attributes:
        inside: Within what was measured.
        outside: In exams beyond it: other sizes, architectures.
        streams: Of primitives that nobody measured alone, elementwise ones above all:
            how much their rates differ between exams.
        own: Of a whole run, the part that it does not share with other runs of the
            machine; None where nothing was held out: half of it.
        drift: How far errors of two runs drift apart for each octave between their
            tokens, beside what is their own.
        beyond: By cause, of what was never measured: `BEYOND` where an exam could not
            tell. Of sizes per octave.
    """

    inside: Mapping[str, float]
    outside: Mapping[str, float]
    streams: float = 0.0
    own: float | None = None
    beyond: Mapping[str, float] = field(default_factory=dict)
    drift: float = 0.0

    def of(self, kinds: Ints, is_indirect: Bools) -> Floats:
        """Half-width of every node within what was measured."""
        by_kind = [self.inside["ml" if kind == "math" else kind] for kind in KINDS]
        widths = np.array(by_kind)[kinds]
        return np.where(is_indirect, np.maximum(widths, self.streams), widths)

    def rate(self, cause: str) -> float:
        """Half-width by cause."""
        return self.beyond.get(cause, BEYOND[cause])

    def shared(self, cause: str, tokens: int) -> SharedError:
        """The part of a run's error that others share; those of other sizes less."""
        whole = self.inside["model"]
        own = whole * math.sqrt(0.5) if self.own is None else min(self.own, whole)
        place = {"tokens": self.drift**2 * math.log2(max(tokens, 1))}
        return SharedError(cause, math.sqrt(whole**2 - own**2), place)


def log_errors(predicted_j: Floats, measured_j: Floats) -> Floats:
    """log(predicted / measured); NaN where there is no prediction."""
    with np.errstate(divide="ignore", invalid="ignore"):
        errors: Floats = np.log(predicted_j / measured_j)
    return errors


def widths_of(groups: Iterable[Mapping[str, Floats]]) -> dict[str, float]:
    """Width per level that covers the nodes of every held-out group.

    A module has fewer of the parts that the whole has, whose errors even out: its
    interval is never the narrower one.
    """
    several = list(groups)
    widths = {
        level: group_width([covering_error(g[level]) for g in several])
        for level in LEVELS
    }
    return {**widths, "module": max(widths["module"], widths["model"])}


def group_width(errors: Sequence[float]) -> float:
    """Width for a group like others: their largest error but one, widened for how few.

    One odd group does not decide.

    Args:
        errors: What covers the nodes of each group; NaN of one without any.
    """
    known = sorted(error for error in errors if not math.isnan(error))
    if not known:
        return 0.0
    return known[max(len(known) - 2, 0)] * _widening(len(known))


def _widening(groups: int) -> float:
    """How much wider Student's interval is: how groups differ, few cannot tell."""
    from scipy.stats import norm, t

    tail = 0.5 + COVERAGE / 2
    return float(t.ppf(tail, max(groups, 2) - 1) / norm.ppf(tail))


def own_and_drift(groups: Iterable[Mapping[str, Floats]]) -> tuple[float | None, float]:
    """What errors of two runs of one machine differ by, in log units.

    The square of a difference is 2 · own² + drift² · octaves between the tokens of both
    runs, by relative least squares over all pairs, and as wide as holds `COVERAGE` of
    them. Pairs are many, and tell what is a run's own; how errors drift with size,
    groups tell, and these are few.

    Args:
        groups: For every held-out group, the errors of whole runs as `model`, and
            their `tokens`.

    Returns:
        Both; None and 0 of fewer than two runs.
    """
    from scipy.optimize import nnls

    several = list(groups)
    errors, tokens = (
        np.concatenate([g[name] for g in several] or [np.zeros(0)])
        for name in ("model", "tokens")
    )
    first, second = np.triu_indices(len(errors), 1)
    squares = (errors[first] - errors[second]) ** 2
    octaves = np.abs(np.log2(tokens[first] / tokens[second]))
    known = np.isfinite(squares)
    squares, terms = squares[known], np.column_stack([known, octaves])[known]
    if not squares.any():
        return (0.0 if len(squares) else None), 0.0
    least = ROUNDING * squares.max()
    expected = np.full(len(squares), squares.mean())
    for _ in range(ROUNDS):
        weights = 1 / np.maximum(expected, least)
        rates, _ = nnls(terms * weights[:, None], squares * weights)
        expected = terms @ rates
    covering = np.quantile(squares / np.maximum(expected, least), COVERAGE)
    own, drift = np.sqrt(covering * rates / (2.0, 1.0)).tolist()
    return own, drift * _widening(len(several))


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
