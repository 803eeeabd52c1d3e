"""Tables 4 to 9 and 11 of the paper beside our reproduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scripts.paper import published
from scripts.paper.held_out import HeldOut, of_kind, of_model, of_op
from scripts.paper.markdown import markdown_table, number, span

from irene.dataset import NodeTable

Predictions = Mapping[str, HeldOut]
OVER_SEEDS = "over seeds"
FEATURES = {
    "all": ("all features", "irene"),
    "model": ("without resource features", "irene, model features"),
    "resource": ("without model features", "irene, resource features"),
}


def table_4(table: NodeTable) -> str:
    """Trees and nodes."""
    rows = []
    for model in published.MODELS:
        ours = tree_counts(table, model)
        theirs = published.TABLE_4.get(model)
        cells = [model]
        for name in published.TreeCounts._fields:
            cells.append("–" if theirs is None else f"{getattr(theirs, name):,}")
            cells.append(f"{getattr(ours, name):,}")
        rows.append(cells)
    titles = ("trees", "ml nodes", "module nodes", "depth")
    return markdown_table(_paired(("model",), titles), rows)


def tree_counts(table: NodeTable, model: str) -> published.TreeCounts:
    """What the data holds of a model; depth in nodes, from the root to a leaf."""
    rows = of_model(table, model)
    depth = np.ones(len(table), dtype=int)
    for row, parent in enumerate(table.parent):
        if parent >= 0:
            depth[row] = depth[parent] + 1
    return published.TreeCounts(
        int((rows & of_kind(table, "model")).sum()),
        int((rows & of_kind(table, "ml")).sum()),
        int((rows & of_kind(table, "module")).sum()),
        int(depth[rows].max()),
    )


def table_5(predictions: Predictions) -> str:
    """Errors of whole models."""
    columns = {
        "utilisation": (published.TABLE_5_UTILISATION, predictions["utilisation"]),
        "irene": (published.TABLE_5_IRENE, predictions["irene"]),
    }
    return _by_model(columns, "model", 1)


def table_6(predictions: Predictions) -> str:
    """Errors of modules."""
    return _by_model({"irene": (published.TABLE_6, predictions["irene"])}, "module", 2)


def table_11(predictions: Predictions) -> str:
    """Errors of modules, by the software estimate."""
    columns = {"utilisation": (published.TABLE_11, predictions["utilisation"])}
    return _by_model(columns, "module", 2)


def _by_model(
    columns: Mapping[str, tuple[Sequence[float], HeldOut]], kind: str, digits: int
) -> str:
    """Errors per model; for the last method also over seeds."""
    last = list(columns.values())[-1][1]
    table = last.table
    level = of_kind(table, kind)
    rows = []
    for i, model in enumerate((*published.MODELS, None)):
        chosen = level if model is None else level & of_model(table, model)
        cells = [model or "all nodes"]
        for theirs, ours in columns.values():
            cells += [number(theirs[i], digits), number(ours.mean(chosen), digits)]
        rows.append([*cells, span(last.range(chosen), digits)])
    header = [*_paired(("model",), columns), OVER_SEEDS]
    if len(last.energy_j) == 1:
        header, rows = header[:-1], [row[:-1] for row in rows]
    return markdown_table(header, rows)


def table_7(predictions: Predictions) -> str:
    """Errors of primitives by class."""
    irene = predictions["irene"]
    level = of_kind(irene.table, "ml")
    rows = [
        [op, number(theirs), number(irene.mean(level & of_op(irene.table, op)))]
        for op, theirs in published.TABLE_7.items()
    ]
    rows.append(
        ["all nodes", number(published.TABLE_7_AVERAGE), number(irene.mean(level))]
    )
    return markdown_table(("primitive", "paper", "ours"), rows)


def table_8(predictions: Predictions) -> str:
    """Errors by what is known of a node."""
    levels = ("ml", "module", "model")
    rows = [
        [words, *_pairs(published.TABLE_8[name], predictions[label], levels)]
        for name, (words, label) in FEATURES.items()
    ]
    return markdown_table([*_paired(("features",), levels), OVER_SEEDS], rows)


def table_9(predictions: Predictions) -> str:
    """Errors by how children make a parent."""
    words = {"irene": "end-to-end (`irene`)", "sum": "PredictedSum (`sum`)"}
    levels = ("module", "model")
    rows = [
        [words.get(name, f"`{name}`"), *_pairs(theirs, predictions[name], levels)]
        for name, theirs in published.TABLE_9.items()
    ]
    return markdown_table([*_paired(("aggregation",), levels), OVER_SEEDS], rows)


def _pairs(theirs: Sequence[float], ours: HeldOut, levels: Sequence[str]) -> list[str]:
    """The paper's and our error at every level, then over seeds at the last."""
    cells = []
    for level, value in zip(levels, theirs, strict=True):
        cells += [number(value), number(ours.mean(of_kind(ours.table, level)))]
    return [*cells, span(ours.range(of_kind(ours.table, levels[-1])))]


def _paired(first: Sequence[str], titles: Sequence[str] | Mapping[str, object]) -> list:
    """Titles, twice each: the paper's column and ours next to it."""
    return [
        *first,
        *(f"{title}, {who}" for title in titles for who in ("paper", "ours")),
    ]
