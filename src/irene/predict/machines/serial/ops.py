"""Energy of single ops of one kind: a few rates, and a correction by shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.predict.machines.serial.leaves import Leaf
from irene.predict.machines.specs.rates import relative_nnls
from irene.predict.machines.specs.residual import Residual, fit_residual

__all__ = ["OpModel", "fit_ops"]

Floats = npt.NDArray[np.float64]

LAYOUT_STEP = 0.15
"""Distance between the two layouts of a weight in the coordinates of the correction."""
NOISES = (0.01, 0.03, 0.08)
"""Relative noise of one measurement on a machine that other programs share."""
AMPLITUDES = (0.02, 0.04, 0.08, 0.16, 0.32)
SOFT = 0.05
ROUNDS = 8


@dataclass(frozen=True, slots=True)
class OpModel:
    """Energy of the ops of one kind.

    Attributes:
        rates: J per call, per GFLOP, per MiB moved, per MiB that a bias is added to.
        residual: Correction by shape.
    """

    rates: Floats
    residual: Residual | None

    def predict(self, leaves: Sequence[Leaf]) -> Floats:
        """Energy of ops run alone, J."""
        base: Floats = _work(leaves) @ self.rates
        if self.residual is None:
            return base
        corrected: Floats = base * np.exp(self.residual.predict(_coordinates(leaves)))
        return corrected

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        residual = self.residual and self.residual.to_dict()
        return {"rates": self.rates.tolist(), "residual": residual}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> OpModel:
        """Read what `to_dict` wrote."""
        residual = fields["residual"]
        return cls(
            np.array(fields["rates"], dtype=float),
            None if residual is None else Residual.from_dict(residual),
        )


def _work(leaves: Sequence[Leaf]) -> Floats:
    return np.array(
        [[1.0, leaf.gflop, leaf.mib, leaf.bias_mib] for leaf in leaves], dtype=float
    )


def _coordinates(leaves: Sequence[Leaf]) -> Floats:
    """Logarithms of the sizes, and the layout of the weight."""
    sizes = np.log(np.array([leaf.sizes for leaf in leaves], dtype=float))
    layout = np.array([[LAYOUT_STEP * leaf.transposed] for leaf in leaves])
    return np.hstack([sizes, layout])


def fit_ops(leaves: Sequence[Leaf], energy_j: Floats, repeats: Floats) -> OpModel:
    """Learn the ops of one kind.

    Args:
        leaves: Distinct ops.
        energy_j: Measured energy of each, J.
        repeats: How often each was measured.
    """
    work = _work(leaves)
    weight = np.ones(len(leaves))
    rates = np.zeros(work.shape[1])
    for _ in range(ROUNDS):
        rates = relative_nnls(work * (weight / energy_j)[:, None], weight)
        error = np.abs(work @ rates / energy_j - 1.0)
        weight = 1.0 / np.sqrt(np.maximum(error, SOFT))
    logs = np.log(energy_j / np.maximum(work @ rates, 1e-12))
    residual = fit_residual(_coordinates(leaves), logs, repeats, NOISES, AMPLITUDES)
    return OpModel(rates, residual)
