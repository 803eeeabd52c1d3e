"""What the paper compares with: no tree at all, and a software estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.predict.method import Floats, fitted
from irene.predict.paper.folding import FoldedTrees
from irene.predict.paper.leaf import LinearRegressor
from irene.predict.paper.node_features import FeatureSet, feature_set

__all__ = ["DesktopPower", "Unstructured", "Utilisation"]


class Unstructured:
    """One regressor for nodes of all types, from a node's own features alone.

    The paper reports 78 and 39.8 % for modules and models, after eight epochs of Adam
    on 680 products of features. Least squares on the same products does far better
    where the features were measured on the very node that is predicted.

    Args:
        features: What it sees of a node.
        degree: Highest number of factors in a product of features.
        standardise: Whether features are brought to one scale first.
        scaled_loss: Whether errors count relative to the measured energy.
    """

    name = "unstructured"

    def __init__(
        self,
        features: str | FeatureSet = "all",
        degree: int = 3,
        standardise: bool = True,
        scaled_loss: bool = True,
    ) -> None:
        self.features = feature_set(features)
        self.degree = degree
        self.standardise = standardise
        self.scaled_loss = scaled_loss
        self.regressor_: LinearRegressor | None = None

    def fit(self, table: NodeTable) -> Unstructured:
        """Least squares over all nodes.

        Args:
            table: Trees with the energy of every node.

        Raises:
            UsageError: There is no tree, or a node without energy.
        """
        if not len(table) or not (table.energy_j > 0).all():
            raise UsageError(f"{self.name}: {table.name} has nodes without energy")
        folded = FoldedTrees.of(table)
        energy_j = table.energy_j[folded.row]
        size = energy_j if self.scaled_loss else np.ones_like(energy_j)
        self.regressor_ = LinearRegressor.fit(
            self.features.matrix(table)[folded.row],
            energy_j,
            folded.count,
            importance=folded.count / size**2,
            degree=self.degree,
            standardise=self.standardise,
        )
        return self

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J."""
        regressor = fitted(self.regressor_, self.name)
        folded = FoldedTrees.of(table)
        values = self.features.matrix(table)[folded.row]
        return regressor.predict(values)[folded.node]


@dataclass(frozen=True, slots=True)
class DesktopPower:
    """Constants of the software estimate, for the machine PC1 of the paper.

    Attributes:
        cpu_w: Power of the busy processor: 140 W is the thermal design power of a
            Core i9-7900X.
        idle_share: Part of it that is drawn without load: about half (Barroso and
            Hölzle, "The case for energy-proportional computing", 2007).
        memory_w: Power of the memory: 5 W for each of four modules of 8 GiB.
        pue: What a data centre draws for every joule of its computers: the average of
            2018 that Strubell et al. use.
    """

    cpu_w: float = 140.0
    idle_share: float = 0.5
    memory_w: float = 20.0
    pue: float = 1.58


class Utilisation:
    """The software estimate of Strubell et al. (ACL 2019): PUE × t × (CPU + RAM + GPU).

    GPU energy is what NVML says; the processor's power goes with its utilisation, from
    idle to full, and the memory's is constant. Nothing is learned. On PC1 it is about
    51 % above the wall meter (the paper: 57.8 %), nearly all of it because a desktop
    has no data centre around it: with `pue=1` it is about 4 % below.

    Args:
        power: Constants of the machine.
    """

    name = "utilisation"

    def __init__(self, power: DesktopPower | None = None) -> None:
        self.power = power or DesktopPower()

    def fit(self, table: NodeTable) -> Utilisation:
        """Nothing to learn."""
        del table
        return self

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J; NaN where time, load or NVML energy is unknown."""
        load = table.features["cpu"] / 100.0
        idle = self.power.idle_share
        cpu_w = self.power.cpu_w * (idle + (1.0 - idle) * load)
        host_j = (cpu_w + self.power.memory_w) * table.features["times_mean"]
        total_j = self.power.pue * (host_j + table.features["gpu_energy_mean"])
        return np.asarray(total_j, dtype=np.float64)
