"""Non-negative rates by relative least squares, with a floor that the host sets.

The measuring loop of 2021 never waited for the GPU, so a node takes the longer of the
GPU's and the host's time. While the host is the slower one, the GPU idles at part of
its power: E = max(r, h + r/2), r = Σ rates × work, h the host's share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

__all__ = ["BUSY_SHARE", "FloorFit", "fit_with_floor", "relative_nnls", "with_floor"]

Floats = npt.NDArray[np.float64]

BUSY_SHARE = 0.5
"""Part of a kernel's energy that remains its own while the host is the slower one."""

STARTS = (0.0, 0.15, 0.5, 1.0)
"""Shares of the smallest rows that are first taken for held up by the host."""
ROUNDS = 8


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
    solution: Floats = nnls(features / scale, target)[0] / scale
    return solution


def with_floor(roofline_j: Floats, floor_j: Floats | float) -> Floats:
    """E = max(r, h + r/2), J."""
    held_up: Floats = floor_j + BUSY_SHARE * roofline_j
    return np.maximum(roofline_j, held_up)


def fit_with_floor(
    work: Floats, energy_j: Floats, floor_limit_j: float, fixed: Floats | None = None
) -> FloorFit:
    """Rates and floor that fit measured energies best, relative to their size.

    Args:
        work: Rows × kinds of work.
        energy_j: Measured energy of every row, J.
        floor_limit_j: Largest floor that is believed, J.
        fixed: Part of every row's roofline that is known already, J.
    """
    known = np.zeros(len(energy_j)) if fixed is None else fixed
    best: FloorFit | None = None
    for start in STARTS:
        free = energy_j > (np.quantile(energy_j, start) if start else 0.0)
        for _ in range(ROUNDS):
            share = np.where(free, 1.0, BUSY_SHARE)
            columns = np.column_stack([work * share[:, None], (~free).astype(float)])
            target = 1.0 - share * known / energy_j
            solution = relative_nnls(columns / energy_j[:, None], target)
            rates, floor_j = solution[:-1], float(solution[-1])
            roofline_j = work @ rates + known
            predicted = with_floor(roofline_j, floor_j)
            loss = float(np.mean((predicted / energy_j - 1.0) ** 2))
            if best is None or (loss < best.loss - 1e-9 and floor_j <= floor_limit_j):
                best = FloorFit(loss, rates, floor_j)
            now_free = roofline_j >= floor_j + BUSY_SHARE * roofline_j
            if (now_free == free).all():
                break
            free = now_free
    assert best is not None
    return best
