"""Non-negative rates by relative least squares, and a smooth correction by shape.

The measuring loop of 2021 never waited for the GPU, so a node takes the longer of the
GPU's and the host's time. While the host is the slower one, the GPU idles at part of
its power: E = max(r, h + r/2), r = Σ rates × work, h the host's share.

What rates leave over is corrected on the logarithm of shapes by a small Gaussian
process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, Protocol

import numpy as np

from irene.arrays import Floats
from irene.saved import Saved

FLAGGED = 2.0
"""How much noisier a measurement counts as that something disturbed: an assumption."""
BUSY_SHARE = 0.5
"""Part of a kernel's energy that remains its own while the host is the slower one."""

STARTS = (0.0, 0.15, 0.5, 1.0)
"""Shares of the smallest rows that are first taken for held up by the host."""
ROUNDS = 8


class Shaped(Protocol):
    """Something that is run, by its sizes."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of a product or a table."""

    @property
    def transposed(self) -> bool:
        """Whether a weight is stored inputs first (`Conv1D`)."""


class FloorFit(NamedTuple):
    """A fit of E = max(r, h + r/2).

    Attributes:
        loss: Mean squared relative error.
        rates: J per unit of work.
        floor_j: h, J; 0 where no row is held up by the host.
    """

    loss: float
    rates: Floats
    floor_j: float


def relative_nnls(features: Floats, target: Floats) -> Floats:
    """Non-negative least squares with columns brought to one scale."""
    scale = np.maximum(np.abs(features).max(axis=0, initial=0.0), 1e-12)
    from scipy.optimize import nnls  # to fit, not to predict

    solution: Floats = nnls(features / scale, target)[0] / scale
    return solution


def with_floor(roofline_j: Floats, floor_j: Floats | float) -> Floats:
    """E = max(r, h + r/2), J."""
    held_up: Floats = floor_j + BUSY_SHARE * roofline_j
    return np.maximum(roofline_j, held_up)


def least_weight(repeats: Floats) -> Floats:
    """1, or less for what was only measured while something disturbed it."""
    return np.sqrt(np.minimum(repeats, 1.0))


def fit_with_floor(
    work: Floats,
    energy_j: Floats,
    floor_limit_j: float,
    fixed: Floats | None = None,
    weight: Floats | None = None,
) -> FloorFit:
    """Rates and floor that fit measured energies best, relative to their size.

    A part of every row's roofline is `fixed`: known already, J. No floor beyond the
    limit is believed.
    """
    known = np.zeros(len(energy_j)) if fixed is None else fixed
    weights = np.ones(len(energy_j)) if weight is None else weight
    best: FloorFit | None = None
    for start in STARTS:
        free = energy_j > (np.quantile(energy_j, start) if start else 0.0)
        for _ in range(ROUNDS):
            share = np.where(free, 1.0, BUSY_SHARE)
            columns = np.column_stack([work * share[:, None], (~free).astype(float)])
            target = 1.0 - share * known / energy_j
            relative = columns / energy_j[:, None] * weights[:, None]
            solution = relative_nnls(relative, target * weights)
            rates, floor_j = solution[:-1], float(solution[-1])
            roofline_j = work @ rates + known
            predicted = with_floor(roofline_j, floor_j)
            loss = float(np.mean((weights * (predicted / energy_j - 1.0)) ** 2))
            if best is None or (loss < best.loss - 1e-9 and floor_j <= floor_limit_j):
                best = FloorFit(loss, rates, floor_j)
            now_free = roofline_j >= floor_j + BUSY_SHARE * roofline_j
            if (now_free == free).all():
                break
            free = now_free
    assert best is not None
    return best


LAYOUT_STEP = 0.15
"""Distance between the two layouts of a weight in the coordinates of the correction."""
LENGTHS = (0.15, 0.3, 0.5, 0.8, 1.3, 2.0, 3.0)
AMPLITUDES = (0.01, 0.02, 0.04, 0.08, 0.16)
NOISE = 0.008
"""Relative noise of one measurement: the meter repeats to 0.6 to 1.3 %."""
SMALLEST_SPREAD = 0.3
LAYOUT_SPREADS = (0.9, 0.5, 0.3)
"""Spreads of the last coordinate, a weight's layout, which has no scale of its own:
the larger, the more one layout says about the other."""


@dataclass(frozen=True, slots=True)
class Residual(Saved):
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
        near = _correlation(scaled, self.points, self.length)
        # Not as a product: that of a row would depend on the rows beside it.
        values: Floats = self.amplitude**2 * (near * self.weights).sum(axis=1)
        return values


def coordinates(shaped: Sequence[Shaped]) -> Floats:
    """Where a correction is looked up: logarithms of sizes, layout of the weight."""
    sizes = np.log(np.array([each.sizes for each in shaped], dtype=float))
    layout = np.array([[LAYOUT_STEP * each.transposed] for each in shaped])
    return np.hstack([sizes, layout])


def fit_residual(
    coordinates: Floats,
    logs: Floats,
    repeats: Floats,
    noises: Sequence[float] = (NOISE,),
    amplitudes: Sequence[float] = AMPLITUDES,
) -> Residual | None:
    """The Gaussian process of highest marginal likelihood on a small grid."""
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
    squared: Floats = np.zeros((len(a), len(b)))
    for here, there in zip(a.T, b.T, strict=True):
        squared += (here[:, None] - there) ** 2
    return np.exp(-0.5 * squared / length**2)
