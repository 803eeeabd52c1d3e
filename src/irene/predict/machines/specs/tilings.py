"""Tiles of a product's result, waves of tiles, and which of them a machine uses.

A GPU works on tiles of the result, as many at a time as it has room for. A product
whose result does not fill the last tile costs as if it did. A place that is empty in
the last wave still takes its time: it costs at least what the machine draws while it
waits, and at most as much as a full one.

Which tiles and how many at a time is not known. Every combination predicts the measured
products, the smallest of them from the others, and the largest from the others. The
best are averaged, as many as predict best together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from irene.predict.machines.specs.rates import (
    BUSY_SHARE,
    FloorFit,
    fit_with_floor,
    with_floor,
)
from irene.predict.machines.specs.work import MIB, Kernel

__all__ = [
    "NO_TILING",
    "PRODUCTS",
    "TILES",
    "Explanation",
    "Tiling",
    "all_tilings",
    "best_together",
    "explain",
    "roofline_work",
]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

TILES = (
    (32, 32), (64, 32), (32, 64), (64, 64),
    (128, 32), (128, 64), (64, 128), (128, 128),
)  # fmt: skip
WAVES = (
    0, 10, 12, 14, 15, 16, 20, 24, 28, 30, 32, 36, 40, 42, 45, 48, 56, 60, 64, 72,
    80, 84, 96, 108, 112, 120, 132,
)  # fmt: skip
"""Tiles that may run at a time; 0 for any number."""
PRODUCTS = ("gemm", "bmm")
END = 0.35
"""Part of the products at either end of their sizes that is predicted from the rest."""
FEW_ROWS = 64
"""Products of fewer rows (a pooler's) say nothing about tiles and waves."""
EMPTY_PLACES = np.array(
    [[BUSY_SHARE, 0.0, 0.0], [1.0 - BUSY_SHARE, 1.0, 0.0], [0.0, 0.0, 1.0]]
)
"""Rates of tiles, of waves and of MiB from three numbers that are not negative.

Of a kernel's energy `BUSY_SHARE` is work, the rest is drawn as long as it runs, also by
places that are empty. So the rate of whole waves is at least that rest.
"""


class Tiling(NamedTuple):
    """Size of a tile of the result, and how many run at a time."""

    rows: int
    columns: int
    waves: int


NO_TILING = Tiling(1, 1, 0)


class Explanation(NamedTuple):
    """What some tilings, equal for all measured products, make of them.

    Attributes:
        tilings: The tilings.
        fit: Their rates and floor.
        errors: Relative errors in all exams, each exam scaled to its number of rows.
    """

    tilings: tuple[Tiling, ...]
    fit: FloorFit
    errors: Floats

    @property
    def loss(self) -> float:
        """Sum over the exams of the mean squared relative error."""
        return float(self.errors @ self.errors)


def all_tilings() -> list[Tiling]:
    """Every combination that is tried."""
    return [Tiling(*tile, waves) for tile, waves in product(TILES, WAVES)]


def roofline_work(kernels: Sequence[Kernel], tiling: Tiling) -> Floats:
    """Work of kernels of one group, a column for each rate.

    Products: GFLOP of whole tiles, GFLOP of whole waves, MiB of both factors and the
    result. Other kernels: MiB read and written.
    """
    sizes = np.array([kernel.sizes for kernel in kernels], dtype=float)
    itemsize = np.array([kernel.itemsize for kernel in kernels], dtype=float)
    if kernels[0].group not in PRODUCTS:
        moved: Floats = 2 * sizes.prod(axis=1) * itemsize / MIB
        return moved[:, None]
    batch, m, n, k = sizes.T
    tiles = batch * np.ceil(m / tiling.rows) * np.ceil(n / tiling.columns)
    per_tile = 2.0 * tiling.rows * tiling.columns * k / 1e9
    whole = np.ceil(tiles / tiling.waves) * tiling.waves if tiling.waves else tiles
    factors = itemsize * batch * (m * k + n * k + m * n) / MIB
    return np.column_stack([tiles * per_tile, whole * per_tile, factors])


def explain(
    kernels: Sequence[Kernel],
    energy_j: Floats,
    floor_limit_j: float,
    fixed: Floats,
    tilings: Sequence[Tiling],
) -> list[Explanation]:
    """Fit every tiling and let it sit the exams; the best first.

    Args:
        kernels: Distinct kernels of one group.
        energy_j: Measured energy of each, J.
        floor_limit_j: Largest floor that is believed, J.
        fixed: Part of every kernel's roofline that is known already, J.
        tilings: Tilings to try.
    """
    same: dict[bytes, tuple[Floats, list[Tiling]]] = {}
    for tiling in tilings:
        work = roofline_work(kernels, tiling)
        same.setdefault(np.round(work, 9).tobytes(), (work, []))[1].append(tiling)
    held_out = _ends(kernels) if len(same) > 1 else []
    found = []
    for work, equal in same.values():
        fit = _fit(work, energy_j, floor_limit_j, fixed)
        errors = [_errors(fit, work, energy_j, fixed)]
        for end in held_out:
            rest = ~end
            other = _fit(work[rest], energy_j[rest], floor_limit_j, fixed[rest])
            errors.append(_errors(other, work[end], energy_j[end], fixed[end]))
        found.append(Explanation(tuple(equal), fit, np.concatenate(errors)))
    return sorted(found, key=lambda explanation: explanation.loss)


def best_together(found: Sequence[Explanation]) -> Sequence[Explanation]:
    """The first few whose average does best in the exams."""
    sums = np.cumsum([explanation.errors for explanation in found], axis=0)
    mean = sums / np.arange(1, len(found) + 1)[:, None]
    return found[: int(np.argmin((mean**2).sum(axis=1))) + 1]


def _fit(work: Floats, energy_j: Floats, limit_j: float, fixed: Floats) -> FloorFit:
    if work.shape[1] != len(EMPTY_PLACES):
        return fit_with_floor(work, energy_j, limit_j, fixed)
    fit = fit_with_floor(work @ EMPTY_PLACES, energy_j, limit_j, fixed)
    return fit._replace(rates=EMPTY_PLACES @ fit.rates)


def _errors(fit: FloorFit, work: Floats, energy_j: Floats, fixed: Floats) -> Floats:
    predicted = with_floor(work @ fit.rates + fixed, fit.floor_j)
    scaled: Floats = (predicted / energy_j - 1.0) / np.sqrt(len(energy_j))
    return scaled


def _ends(kernels: Sequence[Kernel]) -> list[Bools]:
    """The smallest and the largest products, where something is left beside them."""
    batch, m, n, _ = np.array([kernel.sizes for kernel in kernels], dtype=float).T
    rows = batch * m
    size = rows if kernels[0].group == "gemm" else rows * n
    usual = rows > FEW_ROWS
    if not usual.any():
        return []
    low, high = np.quantile(size[usual], (END, 1.0 - END))
    ends = (usual & (size <= low), usual & (size >= high))
    return [end for end in ends if not end.all()]
