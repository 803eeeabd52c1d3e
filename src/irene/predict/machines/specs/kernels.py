"""Energy of single kernels: a roofline, a floor that the host sets, a correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.predict.machines.specs.rates import with_floor
from irene.predict.machines.specs.residual import Residual, fit_residual
from irene.predict.machines.specs.tilings import (
    NO_TILING,
    PRODUCTS,
    Tiling,
    all_tilings,
    best_together,
    explain,
    roofline_work,
)
from irene.predict.machines.specs.work import MIB, Kernel

__all__ = [
    "KernelData",
    "KernelModel",
    "bias_mib",
    "coordinates",
    "fit_kernels",
    "with_residual",
]

Floats = npt.NDArray[np.float64]

LAYOUT_STEP = 0.15
"""Distance between the two layouts of a weight in the coordinates of the correction."""


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
        tilings = all_tilings() if group in PRODUCTS else [NO_TILING]
    fixed = np.zeros(len(data.kernels))
    if group == "gemm":
        fixed = bias_j_per_mib * bias_mib(data.kernels)
    found = explain(data.kernels, data.energy_j, floor_limit_j, fixed, tilings)
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
