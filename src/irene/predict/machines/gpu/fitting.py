"""Time models from measured kernels; the only place that needs LightGBM."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from irene.errors import MissingExtraError
from irene.predict.machines.gpu.boosted import MOST_LEAVES, from_lightgbm
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.op_features import FEATURES, features_of
from irene.predict.machines.gpu.roofline import seconds_of, work_of
from irene.predict.machines.gpu.shapes import Floats, OpColumns
from irene.predict.machines.gpu.time_model import SmoothRoofline, TimeModel

__all__ = ["fit_roofline", "fit_time", "lightgbm_version"]

TREES = 100
SETTINGS = {
    "objective": "l1",
    "num_leaves": MOST_LEAVES,
    "learning_rate": 0.12,
    "min_data_in_leaf": 20,
    # One thread and fixed seeds: the same data gives the same bytes.
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "seed": 0,
    "verbose": -1,
}
ROOFLINE_ROWS = 3000
LEAST = (0.5e-6, 1.0, 1.0)
MOST = (200e-6, 12.0, 6.0)
"""Bounds of the launch time, s, and of the two factors."""


def fit_time(ops: OpColumns, time_s: Floats, sheet: Datasheet) -> TimeModel:
    """A time model of measured ops of one kind and dtype, its width not known yet."""
    compute_s, memory_s = seconds_of(ops, work_of(ops), sheet)
    base = fit_roofline(compute_s, memory_s, time_s)
    base_s = base.seconds(compute_s, memory_s)
    rows = features_of(ops, (compute_s, memory_s, base_s), sheet.multiprocessors)
    residual = np.log(time_s / base_s)
    lightgbm = _lightgbm()
    # Few rows have few in a leaf, or the trees could not grow.
    fewest = min(20, max(3, len(time_s) // 100))
    grown = lightgbm.train(
        {**SETTINGS, "min_data_in_leaf": fewest},
        lightgbm.Dataset(rows, residual),
        TREES,
    )
    low, high = np.quantile(residual, (0.001, 0.999))
    return TimeModel(
        base,
        from_lightgbm(grown.dump_model(), FEATURES[ops.kind]),
        (round(float(low), 5), round(float(high), 5)),
        (-0.5, 0.5),
        {
            name: (float(column.min()), float(column.max()))
            for name, column in ops.columns.items()
        },
    )


def fit_roofline(compute_s: Floats, memory_s: Floats, time_s: Floats) -> SmoothRoofline:
    """The smooth roofline with the least mean absolute error of log time."""
    from scipy.optimize import minimize

    step = max(1, len(time_s) // ROOFLINE_ROWS)
    compute_s, memory_s = compute_s[::step], memory_s[::step]
    measured = np.log(time_s[::step])

    def loss(logs: Floats) -> float:
        predicted = SmoothRoofline(*np.exp(logs)).seconds(compute_s, memory_s)
        return float(np.abs(np.log(predicted) - measured).mean())

    bounds = list(zip(np.log(LEAST), np.log(MOST), strict=True))
    start = np.log((min(float(time_s.min()), 100e-6), 1.4, 1.3))
    fit = minimize(
        loss, start, method="Nelder-Mead", bounds=bounds,
        options={"maxiter": 300, "xatol": 1e-3, "fatol": 1e-6},
    )  # fmt: skip
    return SmoothRoofline(*(float(f"{value:.5g}") for value in np.exp(fit.x)))


def lightgbm_version() -> str:
    """The version that trees are grown with."""
    return str(_lightgbm().__version__)


def _lightgbm() -> Any:
    try:
        return import_module("lightgbm")
    except ImportError as error:
        raise MissingExtraError(
            "growing trees needs LightGBM: pip install 'irene-energy[ops]'"
        ) from error
