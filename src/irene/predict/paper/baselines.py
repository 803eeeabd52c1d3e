"""Methods without the paper's tree: no tree at all, a software estimate, counters.

`unstructured` and `utilisation` are what the paper compares with. `counters` is wall
energy from what a run measured, time, NVML energy and CPU load:

    E = (P0 + k·cpu)·t + b·E_gpu

Three numbers per machine: P0 the power the machine draws whatever it does, k the power
per percent of CPU load, b what the power supply and fans add to the GPU's own energy.
With `partial` the whole model was run once, and `specs` splits what it took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from irene.arrays import Floats
from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.predict.learning.join import Joiner
from irene.predict.machines.specs.regression import relative_nnls
from irene.predict.machines.specs.specs_method import SpecsMethod
from irene.predict.methods import fitted
from irene.predict.paper.folded_trees import FoldedTrees
from irene.predict.paper.regressors import FeatureSet, LinearRegressor, feature_set
from irene.saved import numbers


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

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON-ready values."""
        return fitted(self.regressor_, self.name).to_dict()

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Take over what another of these options has learned."""
        regressor = LinearRegressor.from_dict(fields)
        regressor.standardiser.check_width(len(self.features.columns))
        self.regressor_ = regressor

    def fit(self, table: NodeTable) -> Unstructured:
        """Least squares over all nodes.

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
class Utilisation:
    """The software estimate of Strubell et al. (ACL 2019): PUE × t × (CPU + RAM + GPU).

    GPU energy is what NVML says; the processor's power goes with its utilisation, from
    idle to full, and the memory's is constant. Nothing is learned. On PC1 it is about
    51 % above the wall meter (the paper: 57.8 %), nearly all of it because a desktop
    has no data centre around it: with `pue=1` it is about 4 % below.

    Attributes:
        cpu_w: Power of the busy processor: 140 W is the thermal design power of the
            Core i9-7900X of PC1.
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

    name: ClassVar = "utilisation"

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Nothing was learned."""

    def fit(self, table: NodeTable) -> Utilisation:
        """Nothing to learn."""
        del table
        return self

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J; NaN where time, load or NVML energy is unknown."""
        load = table.features["cpu"] / 100.0
        idle = self.idle_share
        cpu_w = self.cpu_w * (idle + (1.0 - idle) * load)
        host_j = (cpu_w + self.memory_w) * table.features["times_mean"]
        total_j = self.pue * (host_j + table.features["gpu_energy_mean"])
        return np.asarray(total_j, dtype=np.float64)


@dataclass
class CountersMethod:
    """Three numbers by relative non-negative least squares.

    Attributes:
        rates_: W; W per percent of CPU load; J per J of the GPU.
    """

    rates_: Floats | None = field(init=False, default=None)
    name: ClassVar = "counters"

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON-ready values."""
        return {"rates": fitted(self.rates_, self.name).tolist()}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Take over what another has learned."""
        self.rates_ = numbers(fields["rates"], 3)

    def fit(self, table: NodeTable) -> CountersMethod:
        """Learn from measured nodes; copies of one measurement count once.

        Raises:
            UsageError: The data has no time or GPU energy.
        """
        work = _work(table)
        known = np.isfinite(work).all(axis=1) & np.isfinite(table.energy_j)
        if not known.any():
            raise UsageError(f"{table.name} has no measured times and GPU energies")
        rows = np.unique(np.column_stack([work[known], table.energy_j[known]]), axis=0)
        energy_j = rows[:, -1]
        relative = rows[:, :-1] / energy_j[:, None]
        self.rates_ = relative_nnls(relative, np.ones(len(rows)))
        return self

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J; NaN where a counter is missing."""
        return _work(table) @ fitted(self.rates_, self.name)


def _work(table: NodeTable) -> Floats:
    time_s = table.features["times_mean"]
    return np.column_stack(
        [time_s, time_s * table.features["cpu"], table.features["gpu_energy_mean"]]
    )


@dataclass
class PartialMethod:
    """The root from its counters, every other node from shapes, reconciled.

    Of the counters only the root's are looked at. All nodes of a tree are scaled by
    what the root's counters say against what the shapes say.
    """

    specs: SpecsMethod = field(default_factory=SpecsMethod)
    counters: CountersMethod = field(init=False, default_factory=CountersMethod)
    name: ClassVar = "partial"

    @property
    def joiner(self) -> Joiner:
        """Matches measured trees with traces."""
        return self.specs.joiner

    @joiner.setter
    def joiner(self, joiner: Joiner) -> None:
        self.specs.joiner = joiner

    def state(self) -> dict[str, Any]:
        """What both have learned, as JSON-ready values."""
        return {"counters": self.counters.state(), "specs": self.specs.state()}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Take over what another has learned."""
        self.counters.restore(fields["counters"])
        self.specs.restore(fields["specs"])

    def fit(self, table: NodeTable) -> PartialMethod:
        """Learn both from measured trees."""
        self.counters.fit(table)
        self.specs.fit(table)
        return self

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J."""
        result = self.specs.predict(table)
        roots = table.starts[:-1]
        measured = self.counters.predict(table)[roots]
        ratio = measured / result[roots]
        known = np.isfinite(ratio)
        result *= np.where(known, ratio, 1.0)[table.tree]
        return result


def partial() -> PartialMethod:
    """The method of that name, not fitted."""
    return PartialMethod()
