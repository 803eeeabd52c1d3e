"""`specs` as a method: nothing is run, energy comes from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.predict.learning.join import JoinedTree, Joiner
from irene.predict.machines.serial.leaves import serial_work
from irene.predict.machines.serial.model import MeasuredNode, SerialModel, fit_serial
from irene.predict.machines.specs.fallback import FileModel, fit_file_model
from irene.predict.machines.specs.model import (
    MODEL_WEIGHT,
    Measurements,
    SpecsModel,
    fit_specs,
)
from irene.predict.machines.specs.work import MIB, STREAM, Kernel, TreeWork
from irene.predict.method import fitted
from irene.tree import KINDS

__all__ = [
    "SHARED_JOINER",
    "SpecsMethod",
    "measured_nodes",
    "measurements",
    "rows_alone_j",
]

Floats = npt.NDArray[np.float64]
ML, MODEL = KINDS.index("ml"), KINDS.index("model")

SHARED_JOINER = Joiner()
"""Traces are the same for every fold of a cross-validation."""


@dataclass
class SpecsMethod:
    """Learns rates of a machine; predicts from traces.

    Attributes:
        joiner: Matches measured trees with traces.
        model_: What was learned.
        file_model_: For models without a config: what their file's features give.
    """

    joiner: Joiner = field(default_factory=lambda: SHARED_JOINER)
    model_: SpecsModel | SerialModel | None = None
    file_model_: FileModel | None = None
    name: str = "specs"

    def fit(self, table: NodeTable) -> SpecsMethod:
        """Learn from measured trees."""
        if self.joiner.is_serial:
            self.model_ = fit_serial(measured_nodes(table, self.joiner))
        else:
            self.model_ = fit_specs(measurements(table, self.joiner))
        self.file_model_ = fit_file_model(table)
        return self

    def machine(self) -> SpecsModel | SerialModel:
        """What was learned.

        Raises:
            UsageError: Nothing was.
        """
        if isinstance(self.model_, SerialModel):
            return self.model_
        return fitted(self.model_, self.name)

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row run alone, J."""
        model = self.machine()
        result = np.full(len(table), np.nan)
        for index, (_, rows) in enumerate(table.trees()):
            joined = self.joiner.join(table, index)
            if joined is None:
                one = table.take([index])
                result[rows] = fitted(self.file_model_, self.name).predict(one)
                continue
            result[rows] = rows_alone_j(model, joined)
        return result


def rows_alone_j(model: SpecsModel | SerialModel, joined: JoinedTree) -> Floats:
    """Energies of measured rows run alone, primitives at the shape really run, J.

    Args:
        model: A machine of the form that the tree was joined for.
        joined: A measured tree and its trace.

    Returns:
        Energy of every row; NaN where the trace does not have the node.
    """
    if isinstance(model, SerialModel):
        alone_j = model.alone_j(joined.serial or serial_work(joined.tree))
    else:
        alone_j = model.energies(joined.work).alone
    places = joined.measured_as
    return np.where(places >= 0, alone_j[np.maximum(places, 0)], np.nan)


def measured_nodes(table: NodeTable, joiner: Joiner) -> list[MeasuredNode]:
    """Nodes that were run one op after the other, matched with traces.

    Raises:
        UsageError: No model of the table has a config.
    """
    found: dict[tuple[str, float], MeasuredNode] = {}
    for index, (_, rows) in enumerate(table.trees()):
        joined = joiner.join(table, index)
        if joined is None or joined.serial is None:
            continue
        for node, row in zip(joined.nodes, range(rows.start, rows.stop), strict=True):
            joules, kind = float(table.energy_j[row]), int(table.kind[row])
            if node >= 0 and joules > 0:
                one = MeasuredNode(joined.serial, int(node), kind, joules)
                found.setdefault((table.op[row], joules), one)
    if not found:
        raise UsageError(_without_configs(table, joiner))
    return list(found.values())


def _without_configs(table: NodeTable, joiner: Joiner) -> str:
    known = ", ".join(f"{m} ({why})" for m, why in joiner.unknown.items())
    return f"no model of {table.name} has a config: {known}"


def measurements(table: NodeTable, joiner: Joiner) -> Measurements:
    """Distinct measurements of a table, matched with traces.

    Raises:
        UsageError: No model of the table has a config.
    """
    kernels: dict[tuple[Kernel, float], None] = {}
    parents: dict[float, tuple[TreeWork, int]] = {}
    weights: dict[float, float] = {}
    for index, (_, rows) in enumerate(table.trees()):
        joined = joiner.join(table, index)
        if joined is None:
            continue
        for i, row in enumerate(range(rows.start, rows.stop)):
            node, joules = int(joined.measured_as[i]), float(table.energy_j[row])
            if node < 0:
                continue
            if table.kind[row] == ML:
                kernel = _only_kernel(joined.work, node)
                if kernel is not None:
                    kernels[(kernel, joules)] = None
                continue
            parents.setdefault(joules, (joined.work, node))
            weight = MODEL_WEIGHT if table.kind[row] == MODEL else 1.0
            weights[joules] = weights.get(joules, 0.0) + weight
    if not parents:
        raise UsageError(_without_configs(table, joiner))
    return Measurements(
        [kernel for kernel, _ in kernels],
        np.array([joules for _, joules in kernels]),
        list(parents.values()),
        np.array(list(parents)),
        np.array([weights[joules] for joules in parents]),
    )


def _only_kernel(work: TreeWork, node: int) -> Kernel | None:
    """The kernel of a primitive that is nothing else; a stream if it has none."""
    places = np.flatnonzero(work.counts[node])
    if len(places) == 0 and work.calls[node, 0] == 1:
        elements = round(float(work.stream_mib[node].sum()) * MIB / 8)
        return Kernel(STREAM, (max(1, elements), 1))
    if len(places) != 1 or work.counts[node, places[0]] != 1:
        return None
    return work.kernels[int(places[0])]
