"""`partial`: the whole model was run once; `specs` splits what it took."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from irene.dataset.table import NodeTable
from irene.predict.machines.specs.method import SpecsMethod
from irene.predict.paper.counters import CountersMethod

__all__ = ["PartialMethod"]

Floats = npt.NDArray[np.float64]


@dataclass
class PartialMethod:
    """The root from its counters, every other node from shapes, reconciled.

    Of the counters only the root's are looked at. All nodes of a tree are scaled by
    what the root's counters say against what the shapes say.
    """

    counters: CountersMethod = field(default_factory=CountersMethod)
    specs: SpecsMethod = field(default_factory=SpecsMethod)
    name: str = "partial"

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
