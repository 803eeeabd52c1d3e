"""`counters`: wall energy from what a run measured: time, NVML energy, CPU load.

    E = (P0 + k·cpu)·t + b·E_gpu

Three numbers per machine: P0 the power the machine draws whatever it does, k the power
per percent of CPU load, b what the power supply and fans add to the GPU's own energy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.predict.machines.specs.rates import relative_nnls
from irene.predict.method import fitted

__all__ = ["CountersMethod"]

Floats = npt.NDArray[np.float64]


@dataclass
class CountersMethod:
    """Three numbers by relative non-negative least squares.

    Attributes:
        rates_: W; W per percent of CPU load; J per J of the GPU.
    """

    rates_: Floats | None = None
    name: str = "counters"

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
        result: Floats = _work(table) @ fitted(self.rates_, self.name)
        return result


def _work(table: NodeTable) -> Floats:
    time_s = table.features["times_mean"]
    return np.column_stack(
        [time_s, time_s * table.features["cpu"], table.features["gpu_energy_mean"]]
    )
