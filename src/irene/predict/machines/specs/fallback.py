"""Models without a config: what the features in their file alone can give.

Primitives: rates per MFLOP and MiB as the file counts them, one pair per class.
Parents: the sum of their children times the typical ratio between the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from irene.dataset.table import NodeTable
from irene.predict.machines.specs.rates import relative_nnls
from irene.tree import KINDS

__all__ = ["FileModel", "fit_file_model"]

Floats = npt.NDArray[np.float64]
ML = KINDS.index("ml")


@dataclass(frozen=True, slots=True)
class FileModel:
    """Rates by class of primitive, and what parents have on top of their children.

    Attributes:
        rates: J per call, per MFLOP and per MiB of each class; `""` for any other.
        above_primitives: Typical ratio of a parent of primitives to their sum.
        above_modules: The same for parents of modules.
    """

    rates: dict[str, Floats]
    above_primitives: float
    above_modules: float

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J."""
        result = np.zeros(len(table))
        features = _columns(table)
        leaf = ~table.has_children
        for row in np.flatnonzero(leaf).tolist():
            rates = self.rates.get(table.op[row], self.rates[""])
            result[row] = float(features[row] @ rates)
        ratios = self._ratios(table)
        for node in range(len(table) - 1, 0, -1):
            if not leaf[node]:
                result[node] *= ratios[node]
            if table.parent[node] >= 0:
                result[table.parent[node]] += result[node]
        result[0] *= ratios[0]
        return result

    def _ratios(self, table: NodeTable) -> Floats:
        primitives = _parents_of_primitives(table)
        return np.where(primitives, self.above_primitives, self.above_modules)


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


def _parents_of_primitives(table: NodeTable) -> npt.NDArray[np.bool_]:
    """Rows with at least one child that is a primitive."""
    found = np.zeros(len(table), dtype=np.bool_)
    children = np.flatnonzero((table.kind == ML) & (table.parent >= 0))
    found[table.parent[children]] = True
    return found
