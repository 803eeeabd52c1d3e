"""From measured kernels to devices: fit, examine, borrow, and say where all is from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from irene.errors import UsageError
from irene.predict.learned_file import Floats
from irene.predict.machines.gpu.datasheet import Datasheet, distance
from irene.predict.machines.gpu.gpu_device import GpuDevice
from irene.predict.machines.gpu.kernel_exam import (
    EnergyExam,
    TimeExam,
    error_percent,
    examine_energy,
    examine_multiples_of_four,
    examine_time,
    quantiles,
    usable_shares,
)
from irene.predict.machines.gpu.kernel_fitting import (
    fit_power,
    fit_time,
    lightgbm_version,
)
from irene.predict.machines.gpu.kernel_models import (
    CONTRADICTS,
    KernelModels,
    PowerCurve,
)
from irene.predict.machines.gpu.kernel_tables import (
    KernelTable,
    gpu_folders,
    read_tables,
)
from irene.predict.machines.gpu.time_model import TimeModel

OTHER_CHIP = 1.5
"""How much wider borrowed powers are on a chip of another make or memory, assumed."""
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
        curves: Power by kind.
        energies: Held-out energies by kind.
        fours: Energies of products with m % 4 == 0 from the others.
    """

    sheet: Datasheet
    tables: Mapping[str, KernelTable]
    models: Mapping[str, TimeModel]
    exams: Mapping[str, TimeExam]
    curves: Mapping[str, PowerCurve]
    energies: Mapping[str, EnergyExam]
    fours: EnergyExam | None


def train_devices(
    data: str | Path,
    sheets: Mapping[str, Datasheet],
    progress: Progress = lambda _: None,
) -> list[GpuDevice]:
    """Devices of all GPUs that a folder has tables of.

    Args:
        data: Folder of folders of tables.
        sheets: Datasheets by name of the GPU.
        progress: Told what is being done.

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
    return replace(fit_time(table.ops, table.time_s, sheet), width=width), exam


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
    curves: dict[str, PowerCurve] = {}
    energies: dict[str, EnergyExam] = {}
    for kind in sorted({table.ops.kind for table in tables}):
        mine = [e for e in exams.values() if e.table.ops.kind == kind]
        if any(exam.table.is_trusted.any() for exam in mine):
            progress(f"{sheet.name} power of {kind}")
            curves[kind], energies[kind] = _train_power(mine, sheet)
    gemm = [table for table in tables if table.ops.kind == "gemm"]
    return Trained(
        sheet,
        {table.ops.key: table for table in tables},
        models,
        exams,
        curves,
        energies,
        examine_multiples_of_four(gemm, sheet),
    )


def _train_power(
    exams: Sequence[TimeExam], sheet: Datasheet
) -> tuple[PowerCurve, EnergyExam]:
    energy, (low, high) = examine_energy(exams, sheet)
    curve = fit_power(*usable_shares([exam.table for exam in exams], sheet), sheet)
    return replace(curve, low=low, high=high), energy


def _device(name: str, trained: Mapping[str, Trained], progress: Progress) -> GpuDevice:
    mine = trained[name]
    others = sorted(
        trained, key=lambda other: distance(mine.sheet, trained[other].sheet)
    )
    lenders = [other for other in others if other != name]
    power_of = next((other for other in [name, *lenders] if trained[other].curves), "")
    if not power_of:
        raise UsageError(f"no power was measured, neither of {name} nor of another GPU")
    progress(f"{name} on other GPUs")
    transfer = _transfer_errors(name, trained)
    kernels = KernelModels(
        _with_borrowed(mine, {other: trained[other] for other in lenders}),
        borrowed_curves(trained[power_of].curves, trained[power_of].sheet, mine.sheet),
        {kind: quantiles(errors) for kind, errors in transfer.items()},
        _rivals(mine, {other: trained[other] for other in lenders}),
    )
    told = _provenance(mine, trained[power_of])
    told["power_of"] = power_of
    told["transfer_percent"] = {
        kind: error_percent(errors) for kind, errors in transfer.items()
    }
    return GpuDevice(name, mine.sheet, kernels, told)


def borrowed_curves(
    curves: Mapping[str, PowerCurve], lender: Datasheet, sheet: Datasheet
) -> dict[str, PowerCurve]:
    """Power curves on a GPU that has none of its own: wider where chips differ.

    Args:
        curves: Of the lender, by kind.
        lender: Its datasheet.
        sheet: That of the GPU.
    """
    chips = {(each.architecture, each.memory) for each in (lender, sheet)}
    factor = 1.0 if len(chips) == 1 else OTHER_CHIP
    return {
        kind: replace(curve, low=curve.low * factor, high=curve.high * factor)
        for kind, curve in curves.items()
    }


def _with_borrowed(
    mine: Trained, lenders: Mapping[str, Trained]
) -> dict[str, TimeModel]:
    """A GPU's models, and those of others for what it has no table of.

    A table is borrowed where both GPUs multiply its dtype in the same way.

    Args:
        mine: The GPU.
        lenders: The others, the most alike first.
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

    Args:
        mine: The GPU.
        others: The others, the most alike first.
    """
    found: dict[str, TimeModel] = {}
    for name, theirs in others.items():
        chips = {(s.architecture, s.memory) for s in (mine.sheet, theirs.sheet)}
        if len(chips) > 1:
            continue
        for key, table in mine.tables.items():
            if key in theirs.models and key not in found:
                model = theirs.models[key]
                said_s = model.seconds(table.ops, mine.sheet)
                if abs(np.median(np.log(table.time_s / said_s))) > CONTRADICTS:
                    found[key] = replace(model, borrowed_from=name)
    return found


def _transfer_errors(name: str, trained: Mapping[str, Trained]) -> dict[str, Floats]:
    """log(measured / predicted) of other GPUs' bf16 kernels, from these models.

    Other dtypes run kernels of another make on every GPU.
    """
    found: dict[str, list[Floats]] = {}
    for other, theirs in trained.items():
        for key, table in theirs.tables.items():
            is_shared = key.endswith("/bf16") and key in trained[name].models
            if other == name or not is_shared:
                continue
            model = trained[name].models[key]
            predicted = model.seconds(table.ops, theirs.sheet)
            errors = np.log(table.time_s / predicted)
            found.setdefault(table.ops.kind, []).append(errors)
    return {kind: np.concatenate(parts) for kind, parts in sorted(found.items())}


def _data(mine: Trained) -> str:
    sources = [table.source for table in mine.tables.values()]
    made = sorted(
        {f"{source['framework']} on {source['device']}" for source in sources}
    )
    return f"kernel tables of {', '.join(made)}"


def _provenance(mine: Trained, power: Trained) -> dict[str, Any]:
    rows = {key: dict(table.source) for key, table in mine.tables.items()}
    told: dict[str, Any] = {
        "data": _data(mine),
        "tables": rows,
        "trees": f"LightGBM {lightgbm_version()}",
        "held_out": "whole groups of shapes",
        "time_percent": {key: exam.to_dict() for key, exam in mine.exams.items()},
        "energy_percent": {
            kind: exam.to_dict() for kind, exam in power.energies.items()
        },
    }
    if power.fours is not None:
        told["energy_m_multiple_of_4_percent"] = power.fours.to_dict()
    return told
