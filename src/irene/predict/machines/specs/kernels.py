"""Energy of single kernels: a roofline, a floor that the host sets, a correction.

A GPU works on tiles of a product's result, as many at a time as it has room for. A
product whose result does not fill the last tile costs as if it did. A place that is
empty in the last wave still takes its time: it costs at least what the machine draws
while it waits, and at most as much as a full one.

Which tiles and how many at a time is not known. Every combination predicts the measured
products, the smallest of them from the others, and the largest from the others. The
best are averaged, as many as predict best together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from irene.arrays import Bools, Floats
from irene.predict.machines.specs.regression import (
    BUSY_SHARE,
    FloorFit,
    Residual,
    coordinates,
    fit_residual,
    fit_with_floor,
    least_weight,
    with_floor,
)
from irene.predict.machines.specs.work import MIB, Kernel
from irene.saved import Saved

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
    work: Floats = roofline_works(kernels, [tiling])[0]
    return work


def roofline_works(kernels: Sequence[Kernel], tilings: Sequence[Tiling]) -> Floats:
    """The same for several tilings: tilings × kernels × rates."""
    sizes = np.array([kernel.sizes for kernel in kernels], dtype=float)
    itemsize = np.array([kernel.itemsize for kernel in kernels], dtype=float)
    if kernels[0].group not in PRODUCTS:
        moved: Floats = 2 * sizes.prod(axis=1) * itemsize / MIB
        return np.broadcast_to(moved[:, None], (len(tilings), len(moved), 1))
    batch, m, n, k = sizes.T
    rows, columns, waves = np.array(tilings, dtype=float).T[:, :, None]
    tiles = batch * np.ceil(m / rows) * np.ceil(n / columns)
    per_tile = 2.0 * rows * columns * k / 1e9
    at_once = np.where(waves, waves, 1.0)
    whole = np.ceil(tiles / at_once) * at_once
    factors = itemsize * batch * (m * k + n * k + m * n) / MIB
    each = tiles * per_tile, whole * per_tile, np.broadcast_to(factors, tiles.shape)
    return np.stack(each, axis=2)


def explain(
    kernels: Sequence[Kernel],
    energy_j: Floats,
    floor_limit_j: float,
    fixed: Floats,
    tilings: Sequence[Tiling],
    weight: Floats | None = None,
) -> list[Explanation]:
    """Fit every tiling and let it sit the exams; the best first.

    A part of every kernel's roofline is `fixed`: known already, J. No floor beyond the
    limit is believed.
    """
    weights = np.ones(len(energy_j)) if weight is None else weight
    same: dict[bytes, tuple[Floats, list[Tiling]]] = {}
    for tiling in tilings:
        work = roofline_work(kernels, tiling)
        same.setdefault(np.round(work, 9).tobytes(), (work, []))[1].append(tiling)
    held_out = _ends(kernels) if len(same) > 1 else []
    found = []
    for work, equal in same.values():
        rows = _Rows(work, energy_j, fixed, weights)
        fit = _fit(rows, floor_limit_j)
        errors = [_errors(fit, rows)]
        for end in held_out:
            other = _fit(rows.of(~end), floor_limit_j)
            errors.append(_errors(other, rows.of(end)))
        found.append(Explanation(tuple(equal), fit, np.concatenate(errors)))
    return sorted(found, key=lambda explanation: explanation.loss)


def best_together(found: Sequence[Explanation]) -> Sequence[Explanation]:
    """The first few whose average does best in the exams."""
    sums = np.cumsum([explanation.errors for explanation in found], axis=0)
    mean = sums / np.arange(1, len(found) + 1)[:, None]
    return found[: int(np.argmin((mean**2).sum(axis=1))) + 1]


class _Rows(NamedTuple):
    """Work of kernels, their energies, what of these is known, and weights."""

    work: Floats
    energy_j: Floats
    fixed: Floats
    weight: Floats

    def of(self, some: Bools) -> _Rows:
        return _Rows(*(column[some] for column in self))


def _fit(rows: _Rows, limit_j: float) -> FloorFit:
    work, energy_j, fixed, weight = rows
    if work.shape[1] != len(EMPTY_PLACES):
        return fit_with_floor(work, energy_j, limit_j, fixed, weight)
    fit = fit_with_floor(work @ EMPTY_PLACES, energy_j, limit_j, fixed, weight)
    return fit._replace(rates=EMPTY_PLACES @ fit.rates)


def _errors(fit: FloorFit, rows: _Rows) -> Floats:
    predicted = with_floor(rows.work @ fit.rates + rows.fixed, fit.floor_j)
    error = rows.weight * (predicted / rows.energy_j - 1.0)
    scaled: Floats = error / np.sqrt(len(error))
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


def bias_mib(kernels: Sequence[Kernel]) -> Floats:
    """MiB that adding the biases moves: the result is read and written once more."""
    return np.array(
        [
            2 * k.itemsize * k.sizes[1] * k.sizes[2] / MIB if k.bias else 0.0
            for k in kernels
        ]
    )


@dataclass(frozen=True, slots=True)
class KernelModel(Saved):
    """Energy of the kernels of one group.

    Attributes:
        tilings: Tilings that are averaged.
        rates: J per unit of work for each tiling.
        bias_j_per_mib: J per MiB of an added bias.
        floor_j: What the host costs per call, J.
        residual: Correction by shape.
    """

    tilings: tuple[Tiling, ...]
    rates: tuple[Floats, ...]
    bias_j_per_mib: float
    floor_j: float
    residual: Residual | None

    def roofline_j(self, kernels: Sequence[Kernel]) -> Floats:
        """Energy on the GPU before the correction, J."""
        # Of one kernel alone numpy would add up the tilings in another order.
        works = roofline_works([*kernels, kernels[0]], self.tilings)
        each = (works * np.array(self.rates)[:, None, :]).sum(axis=2)
        total: Floats = each.mean(axis=0)[:-1]
        if kernels[0].group == "gemm":
            total = total + self.bias_j_per_mib * bias_mib(kernels)
        return total

    def predict(self, kernels: Sequence[Kernel]) -> tuple[Floats, Floats]:
        """Energy of kernels run alone, and of their part inside a larger run, J."""
        roofline_j = self.roofline_j(kernels)
        factor: Floats | float = 1.0
        if self.residual is not None:
            factor = np.exp(self.residual.predict(coordinates(kernels)))
        return with_floor(roofline_j, self.floor_j) * factor, roofline_j * factor


@dataclass(frozen=True, slots=True)
class KernelData:
    """Distinct kernels of one group with their mean measured energy.

    Attributes:
        kernels: Distinct ones.
        energy_j: Mean energy of each, J.
        repeats: How often each was measured; what was disturbed counts less.
    """

    kernels: tuple[Kernel, ...]
    energy_j: Floats
    repeats: Floats

    @classmethod
    def of(
        cls, kernels: Sequence[Kernel], energy_j: Floats, noise: Floats | None = None
    ) -> KernelData:
        """Average the measurements of equal kernels."""
        counts = np.ones(len(energy_j)) if noise is None else noise**-2.0
        rows: dict[Kernel, list[int]] = {}
        for row, kernel in enumerate(kernels):
            rows.setdefault(kernel, []).append(row)
        mean_j = [np.average(energy_j[r], weights=counts[r]) for r in rows.values()]
        repeats = [float(counts[r].sum()) for r in rows.values()]
        return cls(tuple(rows), np.array(mean_j), np.array(repeats))


def fit_kernels(
    data: KernelData,
    floor_limit_j: float,
    bias_j_per_mib: float = 0.0,
    tilings: Sequence[Tiling] | None = None,
) -> tuple[KernelModel, float]:
    """Learn the kernels of one group.

    All tilings are tried where none are given.

    Returns:
        The model, and the loss of its best tiling.
    """
    group = data.kernels[0].group
    if tilings is None:
        tilings = all_tilings() if group in PRODUCTS else [NO_TILING]
    fixed = np.zeros(len(data.kernels))
    if group == "gemm":
        fixed = bias_j_per_mib * bias_mib(data.kernels)
    weight = least_weight(data.repeats)
    found = explain(data.kernels, data.energy_j, floor_limit_j, fixed, tilings, weight)
    kept = [(t, e.fit.rates) for e in best_together(found) for t in e.tilings]
    model = KernelModel(
        tuple(tiling for tiling, _ in kept),
        tuple(rates for _, rates in kept),
        bias_j_per_mib,
        found[0].fit.floor_j,
        None,
    )
    return with_residual(model, data), found[0].fit.loss


def with_residual(model: KernelModel, data: KernelData) -> KernelModel:
    """The same model with its correction learned anew."""
    base = with_floor(model.roofline_j(data.kernels), model.floor_j)
    logs = np.log(data.energy_j / np.maximum(base, 1e-12))
    residual = fit_residual(coordinates(data.kernels), logs, data.repeats)
    return replace(model, residual=residual)
