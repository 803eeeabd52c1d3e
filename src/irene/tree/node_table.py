"""A tree as a table: one row per node in pre-order, costs of one instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irene.tables import csv_of_columns, data_frame
from irene.tree.columns import KINDS, SOURCES, Floats, Shape
from irene.tree.model_tree import ModelTree

ENERGY_COLUMNS = ("energy_j", "low_j", "high_j", "source", "own_j", "share")


def tree_csv(tree: ModelTree) -> str:
    """The table as CSV, empty where nothing is known.

    Args:
        tree: Any tree; columns of energy are empty if it carries none.
    """
    columns = {n: v for n, v in _costs(tree).items() if n != "depth"}
    energies = {name: [None] * len(tree) for name in ENERGY_COLUMNS} | _energies(tree)
    if tree.energy is not None:
        energies["source"] = [
            source if joules == joules else None
            for source, joules in zip(
                energies["source"], tree.energy.joules.tolist(), strict=True
            )
        ]
    return csv_of_columns({
        name: _told(values)
        for name, values in (columns | energies | tree.features).items()
    })  # fmt: skip


def tree_frame(tree: ModelTree) -> Any:
    """The table as a pandas DataFrame, not-a-number where nothing is known.

    Args:
        tree: Any tree; columns of energy are there if it carries energy.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    return data_frame(_costs(tree) | _energies(tree) | tree.features)


def _costs(tree: ModelTree) -> dict[str, Any]:
    columns = tree.columns
    signatures = [tree.signatures[i] for i in columns.signature.tolist()]
    return {
        "path": tree.paths,
        "kind": [KINDS[kind] for kind in columns.kind.tolist()],
        "op": np.array(tree.strings, dtype=object)[columns.op],
        "depth": columns.depth,
        "call": tree.calls,
        "count": columns.count,
        "instances": tree.multiplicity,
        "dtype": [signature.dtype for signature in signatures],
        "inputs": [_shapes(signature.inputs) for signature in signatures],
        "outputs": [_shapes(signature.outputs) for signature in signatures],
        "params": columns.params,
        "flops": columns.flops,
        "bytes_read": columns.bytes_read,
        "bytes_written": columns.bytes_written,
    }


def _energies(tree: ModelTree) -> dict[str, Any]:
    energy = tree.energy
    if energy is None:
        return {}
    total_j = energy.joules[0]
    shares = energy.joules * tree.multiplicity / (total_j if total_j > 0 else np.nan)
    sources = [SOURCES[source] for source in energy.source.tolist()]
    values = (energy.joules, energy.low, energy.high, sources, tree.own_j, shares)
    return dict(zip(ENERGY_COLUMNS, values, strict=True))


def _shapes(shapes: Sequence[Shape]) -> str:
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def _told(values: Sequence[Any] | Floats) -> list[Any]:
    """Values of a column of a CSV; unknown ones are nothing."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [None if value != value else value for value in listed]
