"""Power of a GPU from how busy arithmetic and memory are: a curve of five numbers.

P = idle + (limit − idle) · (1 − exp(−x)),
x = active + compute · uc^a + memory · um^b,

with uc and um the least times of arithmetic and memory over the time of the op. It
starts at the idle power, which is fixed, saturates at the power limit, and can never
leave the two. Nothing more flexible is fitted: most power readings of the tables are
stale, and a flexible regressor learns which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.shapes import Floats

__all__ = ["PowerCurve", "fit_power"]

STARTS = ((0.3, 2.0, 1.5, 0.7, 1.0), (0.1, 4.0, 3.0, 0.5, 2.0))
LEAST = (1e-3, 1e-3, 1e-3, 0.3, 0.3)
MOST = (2.0, 20.0, 20.0, 3.0, 3.0)
MOST_ROWS = 3000
"""More rows than this do not move five numbers."""
CELLS = 10
"""Into how many parts each share is cut to see which rows are alike."""


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """The five numbers of one kind of op, and how far off they are.

    Attributes:
        active: What an op adds by running at all.
        compute: Weight of arithmetic.
        memory: Weight of memory.
        compute_exponent: a.
        memory_exponent: b.
        low: 5 % quantile of log(measured / predicted power), groups held out.
        high: 95 % quantile.
    """

    active: float
    compute: float
    memory: float
    compute_exponent: float
    memory_exponent: float
    low: float = -0.5
    high: float = 0.5

    def watts(
        self, compute_share: Floats, memory_share: Floats, sheet: Datasheet
    ) -> Floats:
        """Power while ops run, W.

        Args:
            compute_share: uc, 0 to 1.
            memory_share: um, 0 to 1.
            sheet: Whose idle power and limit hold.
        """
        numbers = (
            self.active,
            self.compute,
            self.memory,
            self.compute_exponent,
            self.memory_exponent,
        )
        shares = _within(compute_share), _within(memory_share)
        return sheet.idle_w + (sheet.tdp_w - sheet.idle_w) * _rise(numbers, *shares)

    def to_dict(self) -> dict[str, float]:
        """As JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> PowerCurve:
        """Read what `to_dict` wrote."""
        return cls(**{name: float(value) for name, value in fields.items()})


def _within(share: Floats) -> Floats:
    return np.clip(share, 0.0, 1.0)


def _rise(
    numbers: tuple[float, ...] | Floats, compute_share: Floats, memory_share: Floats
) -> Floats:
    active, compute, memory, a, b = numbers
    x = active + compute * compute_share**a + memory * memory_share**b
    rise: Floats = -np.expm1(-x)
    return rise


def _rarity(compute_share: Floats, memory_share: Floats) -> Floats:
    """Weights that add up to 1, by how few rows have about the same shares."""
    cells = np.floor(compute_share * CELLS) * 2 * CELLS + np.floor(memory_share * CELLS)
    _, which, counts = np.unique(cells, return_inverse=True, return_counts=True)
    rarity = 1.0 / np.sqrt(counts[which.ravel()])
    weights: Floats = rarity / rarity.sum()
    return weights


def fit_power(
    compute_share: Floats, memory_share: Floats, power_w: Floats, sheet: Datasheet
) -> PowerCurve:
    """The curve with the least mean absolute error of log power.

    Readings that are far lower than those of like rows are a minority with large
    errors: the absolute error leaves them aside where a squared one would not.
    Most rows are alike: each counts by the root of how rare its shares are.

    Args:
        compute_share: uc of every row.
        memory_share: um of every row.
        power_w: Its measured power, W.
        sheet: Idle power and limit.
    """
    from scipy.optimize import minimize

    step = max(1, len(power_w) // MOST_ROWS)
    shares = _within(compute_share[::step]), _within(memory_share[::step])
    measured = np.log(power_w[::step])
    weights = _rarity(*shares)
    span = sheet.tdp_w - sheet.idle_w

    def loss(logs: Floats) -> float:
        predicted = np.log(sheet.idle_w + span * _rise(np.exp(logs), *shares))
        return float((weights * np.abs(predicted - measured)).sum())

    bounds = list(zip(np.log(LEAST), np.log(MOST), strict=True))
    fits = [
        minimize(
            loss, np.log(start), method="Nelder-Mead", bounds=bounds,
            options={"maxiter": 500, "xatol": 1e-3, "fatol": 1e-5},
        )
        for start in STARTS
    ]  # fmt: skip
    best = min(fits, key=lambda fit: float(fit.fun))
    return PowerCurve(*(round(float(value), 4) for value in np.exp(best.x)))
