"""Energy with its interval and its source: a bare number does not exist here.

Two energies of one machine share errors, and what they share cancels between them. So
an energy carries the causes of its error: each with its size, and with a place. Errors
of one cause are one error at one place, and differ the more the farther apart two
places are, until they share nothing. What is named nowhere is the energy's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

Source = Literal["measured", "predicted", "estimated"]
ROUNDING = 1e-9
"""Share of an energy, or of a squared interval, below which nothing is left of it."""


@dataclass(frozen=True, slots=True)
class SharedError:
    """An error that an energy shares with others of the same cause.

    Attributes:
        cause: What makes it, in words; names the error.
        width: Half the interval that it alone would give, in log units.
        place: Coordinates by name, 0 where one is missing. Distances along them add
            up, to the square of what errors of near places differ by, in log units.
    """

    cause: str
    width: float
    place: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        return {"cause": self.cause, "width": self.width, "place": dict(self.place)}

    def likeness(self, other: SharedError) -> float:
        """Correlation with another error of the same cause, 0 to 1."""
        here, there = self.place, other.place
        # The sum is the same in every order: sets have another in every process.
        square = math.fsum(
            abs(here.get(a, 0.0) - there.get(a, 0.0)) for a in {*here, *there}
        )
        # Of two widths a and b with a correlation r: (a − b)² + 2 (1 − r) a b.
        both = 2 * self.width * other.width
        return math.exp(-square / both) if both else 1.0


@dataclass(frozen=True, slots=True)
class Energy:
    """An amount of energy that says where it comes from.

    Attributes:
        joules: Best value, J.
        low: Lower end of the interval, J.
        high: Upper end of the interval, J.
        source: How the value came about.
        produced_by: What produced it: a meter, or a predictor and its version.
        errors: What makes the interval and may be shared with other energies; the rest
            of it is this energy's own.
    """

    joules: float
    low: float
    high: float
    source: Source
    produced_by: str
    errors: tuple[SharedError, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that no reader could interpret."""
        if self.source not in get_args(Source):
            raise ValueError(f"energy source {self.source!r} is not one of {_SOURCES}")
        if not all(map(math.isfinite, (self.joules, self.low, self.high))):
            raise ValueError(f"energy must be finite, got {self}")
        if not self.low <= self.joules <= self.high:
            raise ValueError(f"energy outside its own interval: {self}")

    def scaled(self, factor: float) -> Energy:
        """The energy of `factor` such runs (or of a part, below 1).

        Args:
            factor: Non-negative multiplier.
        """
        if factor < 0:
            raise ValueError(f"factor must not be negative, got {factor}")
        return replace(
            self,
            joules=self.joules * factor,
            low=self.low * factor,
            high=self.high * factor,
        )


def source_of_sum(parts: Iterable[Source]) -> Source:
    """Of a sum: `estimated` as soon as one part of it is."""
    return "estimated" if "estimated" in parts else "measured"


@dataclass(frozen=True, slots=True)
class Difference:
    """An energy compared with another.

    Attributes:
        joules: Second minus first, J.
        half_j: Half the width of its interval, J.
        ratio: Second by first; None if one of them is zero.
        ratio_low: Lower end of the interval of the ratio.
        ratio_high: Its upper end.
    """

    joules: float
    half_j: float
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None

    @property
    def is_real(self) -> bool:
        """Whether both intervals leave no difference out."""
        low, high = self.ratio_low or 0.0, self.ratio_high or 0.0
        inside = low * (1 - ROUNDING) <= 1 <= high * (1 + ROUNDING)
        return abs(self.joules) > self.half_j and not inside


def difference(base: Energy, other: Energy) -> Difference:
    """Compare an energy with another; what both share cancels.

    Equal energies are one energy: they differ by 0 ± 0.
    """
    pair = (base, other)
    joules = other.joules - base.joules
    if base == other:
        return Difference(0.0, 0.0, *((1.0, 1.0, 1.0) if base.joules else ()))
    if min(each.low for each in pair) <= 0:
        halves = ((each.high - each.low) / 2 for each in pair)
        return Difference(joules, math.hypot(*halves))
    terms = list(_terms(base, other))
    half = math.sqrt(sum(max(a * a + b * b - 2 * r * a * b, 0.0) for a, b, r in terms))
    # A half-width of w in log units is one of sinh(w) beside the energy.
    first, second = (each.joules * _widening(each) for each in pair)
    squares = (
        (first * a) ** 2 + (second * b) ** 2 - 2 * r * first * a * second * b
        for a, b, r in terms
    )
    half_j = math.sqrt(sum(max(square, 0.0) for square in squares))
    ratio = other.joules / base.joules
    spread = math.exp(half)
    return Difference(joules, half_j, ratio, ratio / spread, ratio * spread)


def _terms(base: Energy, other: Energy) -> Iterable[tuple[float, float, float]]:
    """Widths of every error in both energies, in log units, and its correlation."""
    theirs = {error.cause: error for error in other.errors}
    for mine in base.errors:
        match = theirs.pop(mine.cause, None)
        if match is None:
            yield mine.width, 0.0, 0.0
        else:
            yield mine.width, match.width, mine.likeness(match)
    for rest in theirs.values():
        yield 0.0, rest.width, 0.0
    yield _own(base), _own(other), 0.0


def _own(energy: Energy) -> float:
    """What of an interval no shared error explains, in log units."""
    whole = _width(energy) ** 2
    left = whole - sum(error.width**2 for error in energy.errors)
    return math.sqrt(left) if left > ROUNDING * whole else 0.0


def _width(energy: Energy) -> float:
    return math.log(energy.high / energy.low) / 2


def _widening(energy: Energy) -> float:
    """Half an interval in J by that in log units, for one joule."""
    width = _width(energy)
    return (energy.high - energy.low) / 2 / energy.joules / width if width else 1.0


_SOURCES = ", ".join(get_args(Source))
