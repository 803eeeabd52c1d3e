"""From measured kernels to devices: fit, examine, borrow, and say where all is from.

Models are examined with whole groups of shapes held out. Rows of one group (a weight
matrix, a head layout, an expert layout) are never on both sides: neighbours of a shape
tell its time, new matrices do not come with neighbours.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats
from irene.errors import UsageError
from irene.predict.machines.gpu.datasheet import Datasheet, distance
from irene.predict.machines.gpu.gpu_device import GpuDevice
from irene.predict.machines.gpu.kernel_fitting import (
    MORE_TREES,
    TREES,
    fit_time,
    lightgbm_version,
)
from irene.predict.machines.gpu.kernel_models import CONTRADICTS, KernelModels
from irene.predict.machines.gpu.kernel_tables import (
    KernelTable,
    gpu_folders,
    read_tables,
)
from irene.predict.machines.gpu.time_model import TimeModel

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


UNKNOWN_WIDTH = (-0.5, 0.5)
"""Of a table with a single group of shapes, where nothing can be held out."""
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trained:
    """A GPU's own models before it borrows.

    Attributes:
        sheet: Its datasheet.
        tables: What was measured.
        models: By key.
        exams: Held-out times by key.
    """

    sheet: Datasheet
    tables: Mapping[str, KernelTable]
    models: Mapping[str, TimeModel]
    exams: Mapping[str, TimeExam]


def train_devices(
    data: str | Path,
    sheets: Mapping[str, Datasheet],
    progress: Progress = lambda _: None,
) -> list[GpuDevice]:
    """Devices of all GPUs that a folder has tables of.

    Raises:
        UsageError: There are no tables, or no datasheet of one of the GPUs.
    """
    folders = gpu_folders(data)
    missing = [name for name in folders if name not in sheets]
    if missing:
        raise UsageError(
            f"no datasheet of {', '.join(missing)}: add it with "
            "`irene hardware add --datasheet FILE`"
        )
    trained = {
        name: _train(read_tables(folder), sheets[name], progress)
        for name, folder in folders.items()
    }
    return [_device(name, trained, progress) for name in trained]


def train_table(
    table: KernelTable, sheet: Datasheet
) -> tuple[TimeModel, TimeExam | None]:
    """The time model of one table, with the width that held-out groups have shown."""
    exam = examine_time(table, sheet)
    width = UNKNOWN_WIDTH if exam is None else quantiles(exam.errors)
    trees = TREES if exam is None else exam.trees
    model = fit_time(table, sheet, trees)
    return replace(model, width=width), exam


def _train(
    tables: Sequence[KernelTable], sheet: Datasheet, progress: Progress
) -> Trained:
    models: dict[str, TimeModel] = {}
    exams: dict[str, TimeExam] = {}
    for table in tables:
        progress(f"{sheet.name} {table.ops.key}")
        models[table.ops.key], exam = train_table(table, sheet)
        if exam is not None:
            exams[table.ops.key] = exam
    return Trained(sheet, {table.ops.key: table for table in tables}, models, exams)


def _device(name: str, trained: Mapping[str, Trained], progress: Progress) -> GpuDevice:
    mine = trained[name]
    progress(f"{name} on other GPUs")
    others = {other: trained[other] for other in _lenders(name, trained)}
    transfer = _transfer_errors(name, trained)
    kernels = KernelModels(
        _with_borrowed(mine, others),
        {kind: quantiles(errors) for kind, errors in transfer.items()},
        _rivals(mine, others),
    )
    told = _provenance(mine)
    told["transfer_percent"] = {
        kind: error_percent(errors) for kind, errors in transfer.items()
    }
    return GpuDevice(name, mine.sheet, kernels, told)


def _lenders(name: str, trained: Mapping[str, Trained]) -> list[str]:
    """Other GPUs: of the same make and memory first, then by how alike kernels are.

    Of tables that several GPUs have, each left out in turn, the one of which bf16
    kernels tell most of this GPU's is wrong by less than the one whose datasheet is
    most alike (`benchmarks/modern.py`).
    """
    shared = set.intersection(*({*each.tables} for each in trained.values()))
    keys = sorted(key for key in shared if key.endswith("/bf16"))

    def unlike(other: str) -> tuple[bool, float, float]:
        mine, theirs = trained[name], trained[other]
        apart = [
            float(np.median(np.abs(_errors(mine, theirs.models[key], key))))
            for key in keys
        ]
        is_other = not _are_alike(mine.sheet, theirs.sheet)
        return is_other, sum(apart), distance(mine.sheet, theirs.sheet)

    return sorted((other for other in trained if other != name), key=unlike)


def _are_alike(one: Datasheet, other: Datasheet) -> bool:
    """Whether GPUs are of one make, with one kind of memory."""
    return (one.architecture, one.memory) == (other.architecture, other.memory)


def _errors(mine: Trained, model: TimeModel, key: str) -> Floats:
    """log(measured / predicted) of a GPU's table by the model of another."""
    table = mine.tables[key]
    return np.log(table.time_s / model.seconds(table.ops, mine.sheet))


def _with_borrowed(
    mine: Trained, lenders: Mapping[str, Trained]
) -> dict[str, TimeModel]:
    """A GPU's models, and those of others for what it has no table of.

    A table is borrowed where both GPUs multiply its dtype in the same way.

    The lenders are in order, the most alike first.
    """
    models = dict(mine.models)
    for name, theirs in lenders.items():
        for key, model in theirs.models.items():
            dtype = key.split("/")[1]
            as_here = mine.sheet.multiplies_in(dtype)
            if key not in models and theirs.sheet.multiplies_in(dtype) == as_here:
                models[key] = replace(model, borrowed_from=name)
    return models


def _rivals(mine: Trained, others: Mapping[str, Trained]) -> dict[str, TimeModel]:
    """Models of GPUs of the same make and memory whose tables contradict this one's.

    The others are in order, the most alike first.
    """
    found: dict[str, TimeModel] = {}
    for name, theirs in others.items():
        if not _are_alike(mine.sheet, theirs.sheet):
            continue
        for key in mine.tables:
            if key in theirs.models and key not in found:
                model = theirs.models[key]
                if abs(np.median(_errors(mine, model, key))) > CONTRADICTS:
                    found[key] = replace(model, borrowed_from=name)
    return found


def _transfer_errors(name: str, trained: Mapping[str, Trained]) -> dict[str, Floats]:
    """log(measured / predicted) of other GPUs' bf16 kernels, from these models.

    Other dtypes run kernels of another make on every GPU.
    """
    found: dict[str, list[Floats]] = {}
    for other, theirs in trained.items():
        for key, table in theirs.tables.items():
            if other != name and key.endswith("/bf16") and key in trained[name].models:
                errors = _errors(theirs, trained[name].models[key], key)
                found.setdefault(table.ops.kind, []).append(errors)
    return {kind: np.concatenate(parts) for kind, parts in sorted(found.items())}


def _data(mine: Trained) -> str:
    sources = [table.source for table in mine.tables.values()]
    made = sorted(
        {f"{source['framework']} on {source['device']}" for source in sources}
    )
    return f"kernel tables of {', '.join(made)}"


def _provenance(mine: Trained) -> dict[str, Any]:
    rows = {key: dict(table.source) for key, table in mine.tables.items()}
    return {
        "data": _data(mine),
        "tables": rows,
        "trees": f"LightGBM {lightgbm_version()}",
        "held_out": "whole groups of shapes",
        "time_percent": {key: exam.to_dict() for key, exam in mine.exams.items()},
    }
