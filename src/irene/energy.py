"""Energy with its interval and its source: a bare number does not exist here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["Energy", "Source"]

Source = Literal["measured", "predicted", "estimated"]


@dataclass(frozen=True, slots=True)
class Energy:
    """An amount of energy that says where it comes from.

    Attributes:
        joules: Best value, J.
        low: Lower end of the interval, J.
        high: Upper end of the interval, J.
        source: How the value came about.
        produced_by: What produced it: a meter, or a predictor and its version.
    """

    joules: float
    low: float
    high: float
    source: Source
    produced_by: str

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
        return Energy(
            self.joules * factor,
            self.low * factor,
            self.high * factor,
            self.source,
            self.produced_by,
        )


_SOURCES = ", ".join(get_args(Source))
