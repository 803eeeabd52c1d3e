"""A tree as CSV: one row per node."""

from __future__ import annotations

import csv
import io
import math

from irene.tree.model_tree import ModelTree
from irene.tree.node import Node

__all__ = ["csv_text"]

CSV_COLUMNS = (
    "path", "kind", "op", "call", "count", "instances", "dtype", "inputs", "outputs",
    "params", "flops", "bytes_read", "bytes_written", "energy_j", "low_j",
    "high_j", "source", "own_j", "share",
)  # fmt: skip


def csv_text(tree: ModelTree) -> str:
    """One row per node; costs are of one instance."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*CSV_COLUMNS, *tree.features))
    for node in tree.nodes():
        known = node.features
        measured = [known.get(name, "") for name in tree.features]
        writer.writerow([*_csv_row(tree, node), *measured])
    return text.getvalue()


def _csv_row(tree: ModelTree, node: Node) -> list[object]:
    energy = node.energy
    return [
        node.path, node.kind, node.op, node.call, node.count,
        int(tree.multiplicity[node.row]), node.dtype,
        _shapes(node.inputs), _shapes(node.outputs),
        node.params, node.flops, node.bytes_read, node.bytes_written,
        *(_energy_cells(tree, node) if energy else [""] * 6),
    ]  # fmt: skip


def _energy_cells(tree: ModelTree, node: Node) -> list[object]:
    energy, total = node.energy, tree.energy_of(0)
    assert energy is not None
    times = int(tree.multiplicity[node.row])
    own = node.own_j
    return [
        energy.joules, energy.low, energy.high, energy.source,
        "" if own is None or math.isnan(own) else own,
        energy.joules * times / total.joules if total and total.joules else "",
    ]  # fmt: skip


def _shapes(shapes: tuple[tuple[int, ...], ...]) -> str:
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)
