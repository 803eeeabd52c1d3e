"""What a machine does at best: joules per FLOP and per byte, and where they meet.

A node cannot use less than its FLOPs at the best joules per FLOP, nor less than its
bytes at the best joules per byte. Where both are equal is the ridge: above so many FLOP
per byte a node is bound by arithmetic, below by memory (the energy roofline of Choi et
al., "A Roofline Model of Energy", IPDPS 2013). What a node uses beyond that is what a
better kernel, larger sizes or fewer calls could save at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from irene.analyse.parts import Part

if TYPE_CHECKING:
    from irene.hardware import Hardware

__all__ = ["BOUNDS", "BestRates", "best_rates", "machine_rates"]

BOUNDS = ("compute", "memory", "overhead")
"""Overhead: neither FLOPs nor bytes explain a third of the energy; calls and waiting,
or sizes that do not fill the machine, do."""
EXPLAINED = 1 / 3
NEGLIGIBLE = 1e-3
"""Share of a tree below which a part's rate is not trusted to be the best."""


@dataclass(frozen=True, slots=True)
class BestRates:
    """The best rates of a machine.

    Attributes:
        joules_per_flop: J per floating-point operation.
        joules_per_byte: J per byte read or written.
        source: Where they come from, in words.
    """

    joules_per_flop: float
    joules_per_byte: float
    source: str

    @property
    def ridge(self) -> float:
        """FLOP per byte above which arithmetic decides."""
        if not self.joules_per_flop:
            return float("inf")
        return self.joules_per_byte / self.joules_per_flop

    def at_best_j(self, flops: float, moved: float) -> float:
        """Least energy that FLOPs and bytes allow, J."""
        return max(flops * self.joules_per_flop, moved * self.joules_per_byte)

    def work_j(self, flops: float, moved: float) -> float:
        """FLOPs and bytes priced at the best rates and added up, J."""
        return flops * self.joules_per_flop + moved * self.joules_per_byte

    def bound(self, energy_j: float, flops: float, moved: float) -> str:
        """What decides the energy: one of `BOUNDS`."""
        if self.at_best_j(flops, moved) < EXPLAINED * energy_j:
            return "overhead"
        arithmetic = flops * self.joules_per_flop >= moved * self.joules_per_byte
        return "compute" if arithmetic else "memory"

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        ridge = self.ridge
        finite = ridge if np.isfinite(ridge) else None
        return {**asdict(self), "ridge_flop_per_byte": finite}


def best_rates(
    parts: Sequence[Part], known: BestRates | None = None, name: str = "this tree"
) -> BestRates:
    """The best rates seen among parts, or known of the machine if those are better.

    Args:
        parts: Of one tree or of several on one machine.
        known: Rates of the machine.
        name: What to call the parts.
    """
    least_j = NEGLIGIBLE * sum(part.energy_j for part in parts)
    large = [part for part in parts if part.energy_j > max(least_j, 0.0)]
    per_flop = [part.energy_j / part.flops for part in large if part.flops > 0]
    per_byte = [part.energy_j / part.bytes for part in large if part.bytes > 0]
    sources = [f"the best primitive of {name}"]
    if known is not None:
        per_flop.append(known.joules_per_flop)
        per_byte.append(known.joules_per_byte)
        sources.insert(0, known.source)
    return BestRates(
        min(per_flop, default=0.0), min(per_byte, default=0.0), " and ".join(sources)
    )


def machine_rates(hardware: Hardware | None) -> BestRates | None:
    """Rates of the predictor that ships for a machine; None for any other machine."""
    from irene.predict.machines.finding import find_trained, known_predictors
    from irene.predict.machines.specs.model import SpecsModel
    from irene.predict.machines.specs.work import MIB

    if hardware is None or hardware.name not in known_predictors():
        return None
    predictor = find_trained(hardware.name)
    if hardware.predictor != predictor.hardware.predictor:
        return None
    if not isinstance(predictor.model, SpecsModel):
        return None
    product = predictor.model.groups.get("gemm")
    streams = predictor.model.composition.stream_j
    moving = [float(rate) for rate in streams if rate > 0]
    if product is None or not moving:
        return None
    # Whole tiles and whole waves: what a product that fills the machine costs.
    per_gflop = float(np.mean([rates[0] + rates[1] for rates in product.rates]))
    source = f"the rates of {hardware.predictor}"
    return BestRates(per_gflop / 1e9, min(moving) / MIB, source)
