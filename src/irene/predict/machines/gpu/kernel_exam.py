"""Errors of leaf models with whole groups of shapes held out.

Rows of one group (a weight matrix, a head layout, an expert layout) are never on both
sides: neighbours of a shape tell its time, new matrices do not come with neighbours.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.kernel_fitting import MORE_TREES, TREES, fit_time
from irene.predict.machines.gpu.kernel_tables import KernelTable
from irene.saved import Floats

FOLDS = 5
FEW_GROUPS = 24
"""Up to so many groups each is held out alone."""
QUANTILES = (0.05, 0.95)
ENOUGH = {"gemm": 4.0}
"""Median error of a kind, %, beyond which more trees are grown, if they tell more: each
of them costs time in every answer."""


@dataclass(frozen=True, slots=True)
class TimeExam:
    """Held-out times of one table.

    Attributes:
        time_s: Predicted while the row's group was held out, s.
        folds: What was held out together with each row.
        trees: How many were grown.
    """

    table: KernelTable
    time_s: Floats
    folds: npt.NDArray[np.str_]
    trees: int = TREES

    @property
    def errors(self) -> Floats:
        """log(measured / predicted)."""
        return np.log(self.table.time_s / self.time_s)

    def to_dict(self) -> dict[str, Any]:
        """Errors in percent, as JSON-ready values."""
        return {
            **error_percent(self.errors),
            "rows": len(self.table),
            "groups": len(self.table.group_names),
        }


def error_percent(errors: Floats) -> dict[str, float]:
    """Median and 90th percentile of |predicted / measured − 1|, %."""
    wrong = 100 * np.abs(np.expm1(-errors))
    return {
        "median_percent": round(float(np.median(wrong)), 2),
        "p90_percent": round(float(np.quantile(wrong, 0.9)), 2),
    }


def quantiles(errors: Floats) -> tuple[float, float]:
    """The 5 % and 95 % quantile of errors."""
    low, high = np.quantile(errors, QUANTILES)
    return round(float(low), 5), round(float(high), 5)


def examine_time(table: KernelTable, sheet: Datasheet) -> TimeExam | None:
    """Predict every group of a table from the others; None if there is but one."""
    if len(table.group_names) < 2:
        return None
    exam = _held_out(table, sheet, TREES)
    if _median(exam) <= ENOUGH.get(table.ops.kind, np.inf):
        return exam
    return min(exam, _held_out(table, sheet, MORE_TREES), key=_median)


def _median(exam: TimeExam) -> float:
    return error_percent(exam.errors)["median_percent"]


def _held_out(table: KernelTable, sheet: Datasheet, trees: int) -> TimeExam:
    folds = _folds(table)
    predicted = np.zeros(len(table))
    for fold in np.unique(folds):
        out = folds == fold
        model = fit_time(table.at(~out), sheet, trees)
        predicted[out] = model.seconds(table.ops.at(out), sheet)
    return TimeExam(table, predicted, folds, trees)


def _folds(table: KernelTable) -> npt.NDArray[np.str_]:
    """Groups of one name are in one fold whatever the table."""
    if len(table.group_names) <= FEW_GROUPS:
        names = list(table.group_names)
    else:
        names = [str(zlib.crc32(n.encode()) % FOLDS) for n in table.group_names]
    return np.array(names)[table.groups]
