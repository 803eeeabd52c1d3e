"""Energy of single kernels: a roofline on tiles and waves, a floor, a correction.

A GPU works on tiles of the result, as many at a time as it has room for. A product
whose result does not fill the last tile or the last wave costs as if it did. Which
tiles and how many at a time is not known: the combinations that explain the measured
kernels best, also when the smallest or largest are left out, are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from irene.predict.specs.rates import FloorFit, fit_with_floor, with_floor
from irene.predict.specs.residual import Residual, fit_residual
from irene.predict.specs.work import MIB, Kernel

__all__ = [
    "KernelData",
    "KernelModel",
    "Tiling",
    "bias_mib",
    "coordinates",
    "fit_kernels",
    "roofline_work",
    "with_residual",
]

Floats = npt.NDArray[np.float64]

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
FINALISTS = 40
AVERAGED = 12
WORST_AVERAGED = 2.0
FEW_ROWS = 64
"""Products of fewer rows (a pooler's) say nothing about tiles and waves."""
LAYOUT_STEP = 0.15
"""Distance between the two layouts of a weight in the coordinates of the correction."""


class Tiling(NamedTuple):
    """Size of a tile of the result, and how many run at a time."""

    rows: int
    columns: int
    waves: int


NO_TILING = Tiling(1, 1, 0)


def roofline_work(kernels: Sequence[Kernel], tiling: Tiling) -> Floats:
    """Work of kernels of one group, a column for each rate.

    Products: GFLOP of whole tiles, GFLOP of whole waves, MiB of both factors and the
    result. Other kernels: MiB read and written.
    """
    if kernels[0].group not in PRODUCTS:
        sizes = np.array([k.sizes for k in kernels], dtype=float)
        itemsize = np.array([k.itemsize for k in kernels], dtype=float)
        moved: Floats = 2 * sizes.prod(axis=1) * itemsize / MIB
        return moved[:, None]
    batch, m, n, k = np.array([kernel.sizes for kernel in kernels], dtype=float).T
    itemsize = np.array([kernel.itemsize for kernel in kernels], dtype=float)
    tiles = batch * np.ceil(m / tiling.rows) * np.ceil(n / tiling.columns)
    per_tile = 2.0 * tiling.rows * tiling.columns * k / 1e9
    whole = np.ceil(tiles / tiling.waves) * tiling.waves if tiling.waves else tiles
    factors = itemsize * batch * (m * k + n * k + m * n) / MIB
    return np.column_stack([tiles * per_tile, whole * per_tile, factors])


def bias_mib(kernels: Sequence[Kernel]) -> Floats:
    """MiB that adding the biases moves: the result is read and written once more."""
    return np.array(
        [
            2 * k.itemsize * k.sizes[1] * k.sizes[2] / MIB if k.bias else 0.0
            for k in kernels
        ]
    )


def coordinates(kernels: Sequence[Kernel]) -> Floats:
    """Logarithms of the sizes, and the layout of the weight."""
    sizes = np.log(np.array([kernel.sizes for kernel in kernels], dtype=float))
    layout = np.array([[LAYOUT_STEP * kernel.transposed] for kernel in kernels])
    return np.hstack([sizes, layout])


@dataclass(frozen=True, slots=True)
class KernelModel:
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
        each = [
            roofline_work(kernels, tiling) @ rates
            for tiling, rates in zip(self.tilings, self.rates, strict=True)
        ]
        total: Floats = np.mean(each, axis=0)
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

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "tilings": [list(tiling) for tiling in self.tilings],
            "rates": [rates.tolist() for rates in self.rates],
            "bias_j_per_mib": self.bias_j_per_mib,
            "floor_j": self.floor_j,
            "residual": self.residual and self.residual.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> KernelModel:
        """Read what `to_dict` wrote."""
        residual = fields["residual"]
        return cls(
            tuple(Tiling(*map(int, tiling)) for tiling in fields["tilings"]),
            tuple(np.array(rates, dtype=float) for rates in fields["rates"]),
            float(fields["bias_j_per_mib"]),
            float(fields["floor_j"]),
            None if residual is None else Residual.from_dict(residual),
        )


class _Candidate(NamedTuple):
    loss: float
    fit: FloorFit
    tiling: Tiling


@dataclass(frozen=True, slots=True)
class KernelData:
    """Distinct kernels of one group with their mean measured energy."""

    kernels: tuple[Kernel, ...]
    energy_j: Floats
    repeats: Floats

    @classmethod
    def of(cls, kernels: Sequence[Kernel], energy_j: Floats) -> KernelData:
        """Average the measurements of equal kernels."""
        rows: dict[Kernel, list[float]] = {}
        for kernel, joules in zip(kernels, energy_j.tolist(), strict=True):
            rows.setdefault(kernel, []).append(joules)
        return cls(
            tuple(rows),
            np.array([np.mean(values) for values in rows.values()]),
            np.array([float(len(values)) for values in rows.values()]),
        )


def fit_kernels(
    data: KernelData,
    floor_limit_j: float,
    bias_j_per_mib: float = 0.0,
    tilings: Sequence[Tiling] | None = None,
) -> tuple[KernelModel, float]:
    """Learn the kernels of one group.

    Args:
        data: What was measured.
        floor_limit_j: Largest floor that is believed, J.
        bias_j_per_mib: J per MiB of an added bias.
        tilings: Tilings to choose from; None for all.

    Returns:
        The model, and the loss of its best tiling.
    """
    group = data.kernels[0].group
    if tilings is None:
        grid = [Tiling(*tile, waves) for tile, waves in product(TILES, WAVES)]
        tilings = grid if group in PRODUCTS else [NO_TILING]
    fixed = bias_j_per_mib * bias_mib(data.kernels) if group == "gemm" else None
    found = [
        _Candidate(fit.loss, fit, tiling)
        for tiling in tilings
        for fit in [_fit(data, tiling, floor_limit_j, fixed)]
    ]
    found.sort(key=lambda candidate: candidate.loss)
    if len(found) > 1:
        found = _by_extrapolation(data, found[:FINALISTS], floor_limit_j, fixed)
    best = found[0]
    kept = [c for c in found[:AVERAGED] if c.loss <= WORST_AVERAGED * best.loss]
    model = KernelModel(
        tuple(c.tiling for c in kept),
        tuple(c.fit.rates for c in kept),
        bias_j_per_mib,
        best.fit.floor_j,
        None,
    )
    return with_residual(model, data), best.fit.loss


def with_residual(model: KernelModel, data: KernelData) -> KernelModel:
    """The same model with its correction learned anew."""
    base = with_floor(model.roofline_j(data.kernels), model.floor_j)
    logs = np.log(data.energy_j / np.maximum(base, 1e-12))
    residual = fit_residual(coordinates(data.kernels), logs, data.repeats)
    return replace(model, residual=residual)


def _fit(
    data: KernelData, tiling: Tiling, floor_limit_j: float, fixed: Floats | None
) -> FloorFit:
    work = roofline_work(data.kernels, tiling)
    return fit_with_floor(work, data.energy_j, floor_limit_j, fixed)


def _by_extrapolation(
    data: KernelData,
    candidates: list[_Candidate],
    floor_limit_j: float,
    fixed: Floats | None,
) -> list[_Candidate]:
    """Candidates in the order of how well they also predict the ends from the rest."""
    rows = np.array([k.sizes[0] * k.sizes[1] for k in data.kernels], dtype=float)
    columns = np.array([k.sizes[2] for k in data.kernels], dtype=float)
    size = rows if data.kernels[0].group == "gemm" else rows * columns
    usual = rows > FEW_ROWS
    if not usual.any():
        return candidates
    low, high = np.quantile(size[usual], (0.35, 0.65))
    scored = []
    for candidate in candidates:
        work = roofline_work(data.kernels, candidate.tiling)
        loss = candidate.loss
        for held_out in (usual & (size <= low), usual & (size >= high)):
            rest = ~held_out
            if not rest.any():
                continue
            known = None if fixed is None else fixed[rest]
            fit = fit_with_floor(work[rest], data.energy_j[rest], floor_limit_j, known)
            roofline_j = work[held_out] @ fit.rates
            if fixed is not None:
                roofline_j = roofline_j + fixed[held_out]
            predicted = with_floor(roofline_j, fit.floor_j)
            loss += float(np.mean((predicted / data.energy_j[held_out] - 1.0) ** 2))
        scored.append(candidate._replace(loss=loss))
    return sorted(scored, key=lambda candidate: candidate.loss)
