"""Errors of leaf models with whole groups of shapes held out.

Rows of one group (a weight matrix, a head layout, an expert layout) are never on both
sides: neighbours of a shape tell its time, new matrices do not come with neighbours.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.predict.learned_file import Floats
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.kernel_fitting import fit_power, fit_time
from irene.predict.machines.gpu.kernel_models import WAITED, PowerCurve
from irene.predict.machines.gpu.kernel_ops import OpColumns
from irene.predict.machines.gpu.kernel_tables import KernelTable
from irene.predict.machines.gpu.kernel_work import shares_of, work_of

FOLDS = 5
FEW_GROUPS = 24
"""Up to so many groups each is held out alone."""
QUANTILES = (0.05, 0.95)
WAITING_SHARE = 0.25
"""Kernels of `WAITED` tables that are less busy than this were waiting."""

Rows = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TimeExam:
    """Held-out times of one table.

    Attributes:
        time_s: Predicted while the row's group was held out, s.
        folds: What was held out together with each row.
    """

    table: KernelTable
    time_s: Floats
    folds: npt.NDArray[np.str_]

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


@dataclass(frozen=True, slots=True)
class EnergyExam:
    """Held-out energies of all tables of a kind, rows with usable power only.

    Attributes:
        power: log(measured / predicted power).
        energy: log(measured / predicted energy).
        covered: Part of the rows whose energy is inside the 90 % interval.
    """

    power: Floats
    energy: Floats
    covered: float = float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Errors in percent, as JSON-ready values."""
        errors = {"rows": len(self.energy), **error_percent(self.energy)}
        if not np.isnan(self.covered):
            errors["covered_percent"] = round(100 * self.covered, 1)
        return errors


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
    folds = _folds(table)
    predicted = np.zeros(len(table))
    for fold in np.unique(folds):
        out = folds == fold
        model = fit_time(table.ops.at(~out), table.time_s[~out], sheet)
        predicted[out] = model.seconds(table.ops.at(out), sheet)
    return TimeExam(table, predicted, folds)


def _folds(table: KernelTable) -> npt.NDArray[np.str_]:
    """Groups of one name are in one fold whatever the table."""
    if len(table.group_names) <= FEW_GROUPS:
        names = list(table.group_names)
    else:
        names = [str(zlib.crc32(n.encode()) % FOLDS) for n in table.group_names]
    return np.array(names)[table.groups]


def usable_rows(table: KernelTable, sheet: Datasheet) -> Rows:
    """Rows whose power is that of their kernel.

    It is of enough readings, and the kernel did not mostly wait for the host: then the
    power is that of a GPU between kernels.
    """
    if table.ops.key not in WAITED:
        return table.is_trusted
    compute, memory = _shares(table.ops, table.time_s, sheet)
    return table.is_trusted & (np.maximum(compute, memory) > WAITING_SHARE)


def _shares(ops: OpColumns, time_s: Floats, sheet: Datasheet) -> tuple[Floats, Floats]:
    return shares_of(ops, work_of(ops), time_s, sheet)


def usable_shares(
    tables: Sequence[KernelTable], sheet: Datasheet, keep: Sequence[Rows] | None = None
) -> tuple[Floats, Floats, Floats]:
    """Shares and power of all usable rows of several tables of a kind.

    Args:
        tables: The tables.
        sheet: Of their GPU.
        keep: Rows to use of each; all if None.
    """
    parts = []
    for i, table in enumerate(tables):
        rows = usable_rows(table, sheet)
        rows = rows if keep is None else rows & keep[i]
        shares = _shares(table.ops.at(rows), table.time_s[rows], sheet)
        parts.append((*shares, table.power_w[rows]))
    compute, memory, power_w = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    return compute, memory, power_w


def examine_energy(
    exams: Sequence[TimeExam], sheet: Datasheet
) -> tuple[EnergyExam, tuple[float, float]]:
    """Energies of held-out groups, and the width of the power.

    Both time and power come from models that never saw the group.

    Args:
        exams: Of all tables of a kind.
        sheet: Of their GPU.
    """
    tables = [exam.table for exam in exams]
    power: list[Floats] = []
    energy: list[Floats] = []
    for fold in sorted(set().union(*(set(exam.folds.tolist()) for exam in exams))):
        others = usable_shares(tables, sheet, [exam.folds != fold for exam in exams])
        if not len(others[2]):
            continue
        curve = fit_power(*others, sheet)
        for exam in exams:
            rows = usable_rows(exam.table, sheet) & (exam.folds == fold)
            found = _energy_errors(exam, rows, curve, sheet)
            power.append(found[0])
            energy.append(found[1])
    powers, energies = np.concatenate(power), np.concatenate(energy)
    width = quantiles(powers)
    covered = _covered(exams, energies, width)
    return EnergyExam(powers, energies, covered), width


def _energy_errors(
    exam: TimeExam, rows: Rows, curve: PowerCurve, sheet: Datasheet
) -> tuple[Floats, Floats]:
    predicted_s = exam.time_s[rows]
    shares = _shares(exam.table.ops.at(rows), predicted_s, sheet)
    power = np.log(exam.table.power_w[rows] / curve.watts(*shares, sheet))
    return power, power + exam.errors[rows]


def _covered(
    exams: Sequence[TimeExam], energies: Floats, power: tuple[float, float]
) -> float:
    """Part of held-out energies within the interval that carries time and power."""
    times = quantiles(np.concatenate([exam.errors for exam in exams]))
    low, high = (-np.hypot(times[0], power[0]), np.hypot(times[1], power[1]))
    return float(((energies >= low) & (energies <= high)).mean())


def examine_multiples_of_four(
    tables: Sequence[KernelTable], sheet: Datasheet
) -> EnergyExam | None:
    """Energies of products with m % 4 == 0 from those with other m.

    On B200 many such rows read far lower than their neighbours at the same latency. A
    model that learns which rows read low fails this exam.
    """
    mine = [table for table in tables if (table.ops.columns["m"] % 4 != 0).any()]
    keep = [table.ops.columns["m"] % 4 != 0 for table in mine]
    if not mine or not any(
        (t.is_trusted & k).any() for t, k in zip(mine, keep, strict=True)
    ):
        return None
    curve = fit_power(*usable_shares(mine, sheet, keep), sheet)
    found = []
    for table, rest in zip(mine, keep, strict=True):
        model = fit_time(table.ops.at(rest), table.time_s[rest], sheet)
        exam = TimeExam(table, model.seconds(table.ops, sheet), np.array([""]))
        rows = ~rest & usable_rows(table, sheet)
        found.append(_energy_errors(exam, rows, curve, sheet))
    power, energy = (np.concatenate(part) for part in zip(*found, strict=True))
    return EnergyExam(power, energy)
