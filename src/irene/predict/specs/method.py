"""`specs` as a method: nothing is run, energy comes from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.predict.join import JoinedTree, Joiner
from irene.predict.method import fitted
from irene.predict.specs.fallback import FileModel, fit_file_model
from irene.predict.specs.model import MODEL_WEIGHT, Measurements, SpecsModel, fit_specs
from irene.predict.specs.work import MIB, STREAM, Kernel, TreeWork
from irene.tree import KINDS

__all__ = ["SHARED_JOINER", "SpecsMethod", "measurements"]

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
    model_: SpecsModel | None = None
    file_model_: FileModel | None = None
    name: str = "specs"

    def fit(self, table: NodeTable) -> SpecsMethod:
        """Learn from measured trees."""
        self.model_ = fit_specs(measurements(table, self.joiner))
        self.file_model_ = fit_file_model(table)
        return self

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row run alone, J."""
        model = fitted(self.model_, self.name)
        result = np.full(len(table), np.nan)
        for index, (_, rows) in enumerate(table.trees()):
            joined = self.joiner.join(table, index)
            if joined is None:
                one = table.take([index])
                result[rows] = fitted(self.file_model_, self.name).predict(one)
                continue
            result[rows] = _rows_of(joined, model.energies(joined.work).alone)
        return result


def _rows_of(joined: JoinedTree, alone_j: Floats) -> Floats:
    """Energies of measured rows: primitives at the shape that was really run."""
    places = joined.measured_as
    return np.where(places >= 0, alone_j[np.maximum(places, 0)], np.nan)


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
        known = ", ".join(f"{m} ({why})" for m, why in joiner.unknown.items())
        raise UsageError(f"no model of {table.name} has a config: {known}")
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
        return Kernel(STREAM, (elements, 1))
    if len(places) != 1 or work.counts[node, places[0]] != 1:
        return None
    return work.kernels[int(places[0])]
