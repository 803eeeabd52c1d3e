"""The paper's methods by name, with the options of its published configuration."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from irene.predict.method import Factory
from irene.predict.paper.baselines import DesktopPower, Unstructured, Utilisation
from irene.predict.paper.composition import Composition, Weighting
from irene.predict.paper.irene import TreeMethod, TreeOptions
from irene.predict.paper.node_features import FeatureSet
from irene.predict.paper.paper_training import Training

__all__ = ["PAPER_METHODS"]

DEFAULT_POWER = DesktopPower()


def _tree(
    name: str,
    features: str | FeatureSet = "all",
    seed: int = 0,
    *,
    weighting: Weighting = "near-one",
    stepwise: bool = False,
    tau: float = 10.0,
    epochs: int = 8,
    learning_rate: float = 1e-3,
    degree: int = 3,
    standardise: bool = True,
    scaled_loss: bool = True,
) -> TreeMethod:
    options = TreeOptions(
        Composition(weighting, tau, stepwise),
        Training(epochs, learning_rate, seed),
        degree,
        standardise,
        scaled_loss,
    )
    return TreeMethod(name, features, options)


def _unstructured(
    features: str | FeatureSet = "all",
    seed: int = 0,
    *,
    degree: int = 3,
    standardise: bool = True,
    scaled_loss: bool = True,
) -> Unstructured:
    del seed  # nothing is random
    return Unstructured(features, degree, standardise, scaled_loss)


def _utilisation(
    features: str | FeatureSet = "all",
    seed: int = 0,
    *,
    cpu_w: float = DEFAULT_POWER.cpu_w,
    idle_share: float = DEFAULT_POWER.idle_share,
    memory_w: float = DEFAULT_POWER.memory_w,
    pue: float = DEFAULT_POWER.pue,
) -> Utilisation:
    del features, seed  # nothing is learned
    return Utilisation(DesktopPower(cpu_w, idle_share, memory_w, pue))


PAPER_METHODS: Mapping[str, Factory] = MappingProxyType(
    {
        "irene": partial(_tree, "irene"),
        "stepwise": partial(_tree, "stepwise", stepwise=True),
        "sum": partial(_tree, "sum", weighting="one"),
        "unstructured": _unstructured,
        "utilisation": _utilisation,
    }
)
"""Factories, as `irene.predict.method.METHODS` wants them."""
