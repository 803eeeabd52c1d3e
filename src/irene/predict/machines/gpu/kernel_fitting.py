"""Models of time from measured kernels; what grows trees needs LightGBM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from irene.arrays import Floats
from irene.errors import library
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.kernel_ops import OpColumns
from irene.predict.machines.gpu.kernel_tables import KernelTable
from irene.predict.machines.gpu.kernel_work import (
    BLOCK,
    FEATURES,
    features_of,
    kernel_seconds,
)
from irene.predict.machines.gpu.time_model import (
    MOST_LEAVES,
    Boosted,
    SmoothRoofline,
    TimeModel,
)

TREES = 100
MORE_TREES = 400
"""Of a table that the usual number does not tell well enough."""
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
FEW_LAYOUTS = 3
SIZES = (
    "base",
    "tokens",
    "sent",
    "touched",
    "experts",
    "experts_here",
    "hidden",
    "topk",
)
"""What trees do not see of experts where a table has few layouts: how large things are
does not carry over to another, how full and how balanced they are does (a layout left
out: 11 to 13 % instead of 12 to 16 %). There the roofline counts that blocks are half
empty, too (8 to 11 %); with many layouts trees know, and GPUs with other rates are told
less well by such a roofline."""
ROOFLINE_ROWS = 3000
LEAST = (0.5e-6, 1.0, 1.0)
MOST = (200e-6, 12.0, 6.0)
"""Bounds of the launch time, s, and of the two factors."""


def fit_time(table: KernelTable, sheet: Datasheet, trees: int = TREES) -> TimeModel:
    """A time model of measured ops of one kind and dtype, its width not known yet."""
    ops, time_s, make = table.ops, table.time_s, table.make
    has_few = ops.kind == "moe" and _layouts(ops) <= FEW_LAYOUTS
    block = BLOCK if has_few else 0.0
    compute_s, memory_s = kernel_seconds(ops, sheet, make, block)
    base = fit_roofline(compute_s, memory_s, time_s)
    base_s = base.seconds(compute_s, memory_s)
    rows = features_of(ops, (compute_s, memory_s, base_s), sheet.multiprocessors)
    if has_few:
        rows[:, [FEATURES["moe"].index(name) for name in SIZES]] = 0.0
    residual = np.log(time_s / base_s)
    lightgbm = _lightgbm()
    # Few rows have few in a leaf, or the trees could not grow.
    fewest = min(20, max(3, len(time_s) // 100))
    grown = lightgbm.train(
        {**SETTINGS, "min_data_in_leaf": fewest},
        lightgbm.Dataset(rows, residual),
        trees,
    )
    low, high = np.quantile(residual, (0.001, 0.999))
    return TimeModel(
        base,
        (round(float(low), 5), round(float(high), 5)),
        (-0.5, 0.5),
        {
            name: (float(column.min()), float(column.max()))
            for name, column in ops.columns.items()
        },
        "",
        block,
        from_lightgbm(grown.dump_model(), FEATURES[ops.kind]),
        make,
    )


def _layouts(ops: OpColumns) -> int:
    """Distinct layouts of experts."""
    sizes = [ops.columns[name] for name in ("hidden", "inter", "topk", "experts")]
    return len(np.unique(np.column_stack(sizes), axis=0))


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
    missing = "growing trees needs LightGBM: pip install 'irene-energy[ops]'"
    return library("lightgbm", missing)


def from_lightgbm(dump: Mapping[str, Any], features: tuple[str, ...]) -> Boosted:
    """Trees that LightGBM has grown, as `Booster.dump_model()` gives them."""
    tests: list[tuple[int, int, float, int, int]] = []
    leaves = np.zeros((len(dump["tree_info"]), MOST_LEAVES))
    for tree, info in enumerate(dump["tree_info"]):
        values: list[float] = []
        _walk(info["tree_structure"], tree, values, tests)
        leaves[tree, : len(values)] = values
    tree_, feature, threshold, first, count = zip(*tests, strict=True)
    return Boosted(
        features,
        leaves,
        np.array(tree_),
        np.array(feature),
        np.array([float(f"{value:.6g}") for value in threshold]),
        np.array(first),
        np.array(count),
    )


def _walk(
    node: Mapping[str, Any],
    tree: int,
    values: list[float],
    tests: list[tuple[int, int, float, int, int]],
) -> None:
    """Leaves from left to right, and the test of every node between."""
    if "leaf_value" in node:
        values.append(round(float(node["leaf_value"]), 5))
        return
    first = len(values)
    _walk(node["left_child"], tree, values, tests)
    count = len(values) - first
    test = (tree, int(node["split_feature"]), float(node["threshold"]), first, count)
    tests.append(test)
    _walk(node["right_child"], tree, values, tests)
