"""A smooth correction on the logarithm of shapes: a small Gaussian process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Residual", "fit_residual"]

Floats = npt.NDArray[np.float64]

LENGTHS = (0.15, 0.3, 0.5, 0.8, 1.3, 2.0, 3.0)
AMPLITUDES = (0.01, 0.02, 0.04, 0.08, 0.16)
NOISE = 0.008
"""Relative noise of one measurement: the meter repeats to 0.6 to 1.3 %."""
SMALLEST_SPREAD = 0.3
LAYOUT_SPREADS = (0.9, 0.5, 0.3)
"""Spreads of the last coordinate, a weight's layout, which has no scale of its own:
the larger, the more one layout says about the other."""


@dataclass(frozen=True, slots=True)
class Residual:
    """log(measured / roofline) as a function of shape; 0 far from what was measured.

    Attributes:
        centre: Mean of the coordinates.
        spread: Scale of the coordinates.
        points: Coordinates that were measured, scaled.
        weights: Weight of every point.
        length: Correlation length in scaled coordinates.
        amplitude: Prior standard deviation.
    """

    centre: Floats
    spread: Floats
    points: Floats
    weights: Floats
    length: float
    amplitude: float

    def predict(self, coordinates: Floats) -> Floats:
        """Correction of the logarithm at some shapes."""
        scaled = (coordinates - self.centre) / self.spread
        values: Floats = self.amplitude**2 * (
            _correlation(scaled, self.points, self.length) @ self.weights
        )
        return values

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "centre": self.centre.tolist(),
            "spread": self.spread.tolist(),
            "points": np.round(self.points, 6).tolist(),
            "weights": self.weights.tolist(),
            "length": self.length,
            "amplitude": self.amplitude,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Residual:
        """Read what `to_dict` wrote."""
        return cls(
            np.array(fields["centre"], dtype=float),
            np.array(fields["spread"], dtype=float),
            np.array(fields["points"], dtype=float),
            np.array(fields["weights"], dtype=float),
            float(fields["length"]),
            float(fields["amplitude"]),
        )


def fit_residual(
    coordinates: Floats,
    logs: Floats,
    repeats: Floats,
    noises: Sequence[float] = (NOISE,),
    amplitudes: Sequence[float] = AMPLITUDES,
) -> Residual | None:
    """The Gaussian process of highest marginal likelihood on a small grid.

    Args:
        coordinates: Distinct shapes × coordinates.
        logs: log(measured / roofline) of every shape.
        repeats: How often each shape was measured.
        noises: Relative noises of one measurement to choose from.
        amplitudes: Prior standard deviations to choose from.
    """
    if len(logs) < 4:
        return None
    centre = coordinates.mean(axis=0)
    spread = np.maximum(coordinates.std(axis=0), SMALLEST_SPREAD)
    unit = 1.0 / np.minimum(repeats, 6.0)
    best: tuple[float, Residual] | None = None
    both_layouts = bool(np.ptp(coordinates[:, -1]) > 0)
    for layout in LAYOUT_SPREADS if both_layouts else LAYOUT_SPREADS[:1]:
        scale = np.append(spread[:-1], layout)
        points = np.round((coordinates - centre) / scale, 6)
        for length in LENGTHS:
            correlation = _correlation(points, points, length)
            for amplitude, noise in product(amplitudes, noises):
                prior = amplitude**2 * correlation
                scatter = np.diag(noise**2 * unit + 1e-6)
                evidence, weights = _condition(prior + scatter, logs)
                if best is None or evidence > best[0]:
                    found = Residual(centre, scale, points, weights, length, amplitude)
                    best = (evidence, found)
    assert best is not None
    return best[1]


def _condition(covariance: Floats, logs: Floats) -> tuple[float, Floats]:
    """Log marginal likelihood up to a constant, and the weight of every point."""
    factor = np.linalg.cholesky(covariance)
    half = np.linalg.solve(factor, logs)
    evidence = float(-0.5 * half @ half - np.log(np.diag(factor)).sum())
    return evidence, np.linalg.solve(factor.T, half)


def _correlation(a: Floats, b: Floats, length: float) -> Floats:
    squared = (
        (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    )
    values: Floats = np.exp(-0.5 * np.maximum(squared, 0.0) / length**2)
    return values
