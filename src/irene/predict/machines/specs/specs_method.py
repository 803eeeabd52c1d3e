"""`specs` as a method: nothing is run, energy comes from shapes alone.

Models without a config have the features in their file alone. Primitives: rates per
MFLOP and MiB as the file counts them, one pair per class. Parents: the sum of their
children times the typical ratio between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from irene.arrays import Bools, Floats
from irene.dataset.table import NodeTable
from irene.predict.learning.join import JoinedTree, Joiner
from irene.predict.machines.predictor import read_model
from irene.predict.machines.serial_machine import (
    MeasuredNode,
    SerialModel,
    fit_serial,
    serial_work,
)
from irene.predict.machines.specs.regression import FLAGGED, relative_nnls
from irene.predict.machines.specs.specs_model import (
    MODEL_WEIGHT,
    Measurements,
    SpecsModel,
    fit_specs,
)
from irene.predict.machines.specs.work import MIB, STREAM, Kernel, TreeWork
from irene.predict.methods import fitted
from irene.saved import Saved, numbers
from irene.tree import ML, MODEL


@dataclass(frozen=True, slots=True)
class FileModel(Saved):
    """Rates by class of primitive, and what parents have on top of their children.

    Attributes:
        rates: J per call, per MFLOP and per MiB of each class; `""` for any other.
        above_primitives: Typical ratio of a parent of primitives to their sum.
        above_modules: The same for parents of modules.
    """

    rates: Mapping[str, Floats]
    above_primitives: float
    above_modules: float

    def __post_init__(self) -> None:
        """Refuse rates of other kinds of work, or none for other classes."""
        for rates in (self.rates[""], *self.rates.values()):
            numbers(np.zeros_like(rates), 3)

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J."""
        result = np.zeros(len(table))
        features = _columns(table)
        leaf = ~table.has_children
        for row in np.flatnonzero(leaf).tolist():
            rates = self.rates.get(table.op[row], self.rates[""])
            result[row] = float(features[row] @ rates)
        above = self.above_primitives, self.above_modules
        ratios = np.where(_parents_of_primitives(table), *above)
        for node in range(len(table) - 1, 0, -1):
            if not leaf[node]:
                result[node] *= ratios[node]
            if table.parent[node] >= 0:
                result[table.parent[node]] += result[node]
        result[0] *= ratios[0]
        return result


def fit_file_model(table: NodeTable) -> FileModel:
    """Learn from every measured tree, with or without a config."""
    features = _columns(table)
    leaf = np.flatnonzero((table.kind == ML) & np.isfinite(table.energy_j))
    rates = {"": _rates(features[leaf], table.energy_j[leaf])}
    for op in sorted({table.op[row] for row in leaf}):
        rows = np.array([row for row in leaf if table.op[row] == op])
        rates[op] = _rates(features[rows], table.energy_j[rows])
    below = np.zeros(len(table))
    inner = table.parent >= 0
    np.add.at(below, table.parent[inner], table.energy_j[inner])
    primitives = _parents_of_primitives(table)
    parents = table.has_children & (below > 0)
    ratio = np.ones(len(table))
    ratio[parents] = table.energy_j[parents] / below[parents]
    return FileModel(
        rates,
        _median(ratio[parents & primitives]),
        _median(ratio[parents & ~primitives]),
    )


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else 1.0


def _rates(features: Floats, energy_j: Floats) -> Floats:
    rows = np.unique(np.column_stack([features, energy_j]), axis=0)
    target = rows[:, -1]
    return relative_nnls(rows[:, :-1] / target[:, None], np.ones(len(rows)))


def _columns(table: NodeTable) -> Floats:
    flops = np.nan_to_num(table.features["flops"])
    moved = np.nan_to_num(table.features["mem_bytes"])
    return np.column_stack([np.ones(len(table)), flops, moved])


def _parents_of_primitives(table: NodeTable) -> Bools:
    """Rows with at least one child that is a primitive."""
    found = np.zeros(len(table), dtype=np.bool_)
    children = np.flatnonzero((table.kind == ML) & (table.parent >= 0))
    found[table.parent[children]] = True
    return found


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
    name: ClassVar = "specs"

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON-ready values."""
        file_model = fitted(self.file_model_, self.name)
        return {"model": self.machine().to_dict(), "file_model": file_model.to_dict()}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Take over what another has learned."""
        self.model_ = read_model(fields["model"])
        self.file_model_ = FileModel.from_dict(fields["file_model"])

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
        result = measured_rows_j(self.machine(), table, self.joiner)
        for index, (key, rows) in enumerate(table.trees()):
            if key.model in self.joiner.unknown:
                file_model = fitted(self.file_model_, self.name)
                result[rows] = file_model.predict(table.take([index]))
        return result


def rows_alone_j(model: SpecsModel | SerialModel, joined: JoinedTree) -> Floats:
    """Energies of measured rows run alone, primitives at the shape really run, J.

    Returns:
        Energy of every row; NaN where the trace does not have the node.
    """
    if isinstance(model, SerialModel):
        alone_j = model.alone_j(joined.serial or serial_work(joined.tree))
    else:
        alone_j = model.energies(joined.work).alone
    places = joined.measured_as
    return np.where(places >= 0, alone_j[np.maximum(places, 0)], np.nan)


def measured_rows_j(
    model: SpecsModel | SerialModel, table: NodeTable, joiner: Joiner
) -> Floats:
    """What a machine takes for every measured row run alone, J.

    Returns:
        Energy of every row; NaN where no trace has the node.
    """
    result = np.full(len(table), np.nan)
    for _, rows, joined in joiner.trees(table):
        result[rows] = rows_alone_j(model, joined)
    return result


def measured_nodes(table: NodeTable, joiner: Joiner) -> list[MeasuredNode]:
    """Nodes that were run one op after the other, matched with traces.

    Raises:
        UsageError: No model of the table has a config.
    """
    found: dict[tuple[str, float], MeasuredNode] = {}
    for _, rows, joined in joiner.trees(table):
        if joined.serial is None:
            continue
        for node, row in zip(joined.nodes, range(rows.start, rows.stop), strict=True):
            joules, kind = float(table.energy_j[row]), int(table.kind[row])
            if node >= 0 and joules > 0:
                noise = FLAGGED if table.disturbed[row] else 1.0
                one = MeasuredNode(joined.serial, int(node), kind, joules, noise)
                found.setdefault((table.op[row], joules), one)
    if not found:
        raise joiner.without_configs(table)
    return list(found.values())


def measurements(table: NodeTable, joiner: Joiner) -> Measurements:
    """Distinct measurements of a table, matched with traces.

    Raises:
        UsageError: No model of the table has a config.
    """
    kernels: dict[tuple[Kernel, float], float] = {}
    parents: dict[float, tuple[TreeWork, int]] = {}
    weights: dict[float, float] = {}
    for _, rows, joined in joiner.trees(table):
        for i, row in enumerate(range(rows.start, rows.stop)):
            node, joules = int(joined.measured_as[i]), float(table.energy_j[row])
            if node < 0:
                continue
            noise = FLAGGED if table.disturbed[row] else 1.0
            if table.kind[row] == ML:
                kernel = _only_kernel(joined.work, node)
                if kernel is not None:
                    kernels[(kernel, joules)] = noise
                continue
            parents.setdefault(joules, (joined.work, node))
            weight = MODEL_WEIGHT if table.kind[row] == MODEL else 1.0
            weights[joules] = weights.get(joules, 0.0) + weight / noise**2
    if not parents:
        raise joiner.without_configs(table)
    return Measurements(
        [kernel for kernel, _ in kernels],
        np.array([joules for _, joules in kernels]),
        np.array(list(kernels.values())),
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


def specs() -> SpecsMethod:
    """The method of that name, not fitted."""
    return SpecsMethod()
