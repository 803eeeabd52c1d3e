"""Our own methods by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from irene.predict.machines.specs.method import SpecsMethod
from irene.predict.method import Factory
from irene.predict.paper.counters import CountersMethod
from irene.predict.paper.partial import PartialMethod

__all__ = ["OWN_METHODS"]


def _counters(features: str = "all", seed: int = 0) -> CountersMethod:
    del features, seed  # three numbers, nothing random
    return CountersMethod()


def _specs(features: str = "all", seed: int = 0) -> SpecsMethod:
    del features, seed  # shapes alone, nothing random
    return SpecsMethod()


def _partial(features: str = "all", seed: int = 0) -> PartialMethod:
    del features, seed
    return PartialMethod()


OWN_METHODS: Mapping[str, Factory] = MappingProxyType(
    {"counters": _counters, "specs": _specs, "partial": _partial}
)
"""Factories, as `irene.predict.method.METHODS` wants them."""
