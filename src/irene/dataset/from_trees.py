"""From measured trees to the table that predictors learn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats
from irene.dataset.formats.nodes_parquet import (
    Provenance,
    read_parquet,
    read_provenance,
    write_parquet,
)
from irene.dataset.table import NODE_FEATURES, NodeTable, TreeKey, joined_columns
from irene.errors import UsageError
from irene.tree import KINDS, ModelTree

COSTS = ("params", "flops", "bytes_read", "bytes_written")
MEGA = 1e6
"""Unit of `flops` in a table."""
MIB = 2**20
"""Unit of `mem_bytes` in a table, bytes."""


def table_of(trees: Iterable[ModelTree], name: str = "measured") -> NodeTable:
    """Measured trees as one table, in the units of the 2021 data.

    Args:
        trees: With energy, of forward passes; of two of the same model and size, the
            later one counts.
        name: What the data is called.

    Raises:
        UsageError: A tree carries no energy, or is not a run that the table can hold.
    """
    parts: dict[TreeKey, dict[str, Any]] = {}
    for tree in trees:
        key = _key(tree)
        parts.pop(key, None)
        parts[key] = _columns(tree.unfold().at_level("ml"))
    return NodeTable.from_columns(name, [*parts], joined_columns([*parts.values()]))


def _key(tree: ModelTree) -> TreeKey:
    spec = tree.spec
    if spec is None or tree.energy is None:
        raise UsageError("data is made of trees that name their run and carry energy")
    if spec.phase != "forward":
        raise UsageError(
            f"data holds forward passes, and this tree is of phase {spec.phase}: keep "
            "it with --out"
        )
    return TreeKey.of(spec)


def _columns(tree: ModelTree) -> dict[str, Any]:
    assert tree.energy is not None
    costs = {name: getattr(tree.columns, name) for name in COSTS}
    return {
        "parent": tree.parents,
        "path": tree.paths,
        "kind": [KINDS[kind] for kind in tree.columns.kind],
        "op": [tree.strings[op] for op in tree.columns.op],
        **in_table_units(costs, tree.features, tree.energy.joules),
        "disturbed": disturbed_nodes(tree),
    }


def disturbed_nodes(tree: ModelTree) -> npt.NDArray[np.bool_]:
    """Whether rounds of every node that count have a flag."""
    found = np.zeros(len(tree), dtype=np.bool_)
    for name, rounds in tree.features.items():
        if name.startswith("rounds_") and name != "rounds_repeated":
            found |= np.nan_to_num(rounds) > 0
    return found


def in_table_units(
    costs: Mapping[str, Any], features: Mapping[str, Floats], energy_j: Floats
) -> dict[str, Floats]:
    """Features and energy of nodes as a table has them.

    What was measured, by the names of a table, counts before costs; energy is unknown
    where the meter did not move.
    """
    counted = {
        "num_parameters": costs["params"],
        "flops": costs["flops"] / MEGA,
        "mem_bytes": (costs["bytes_read"] + costs["bytes_written"]) / MIB,
    }
    unknown = np.full(len(energy_j), np.nan)
    columns = {"energy_j": np.where(energy_j > 0, energy_j, np.nan)}
    for name in NODE_FEATURES:
        measured = np.maximum(features.get(name, unknown), 0.0)
        other = counted.get(name, unknown)
        columns[name] = np.where(np.isnan(measured), other, measured)
    return columns


def _provenance_of(tree: ModelTree) -> Provenance:
    """Where a measured tree is from: machine, how it was run, when."""
    spec, hardware = tree.spec, tree.hardware
    if spec is None or hardware is None:
        raise UsageError("this tree does not say which run it is of, or where")
    date = tree.provenance.get("measured", "")
    return Provenance.of_run("irene measure", spec, hardware, date)


def add_to_file(tree: ModelTree, path: Path) -> int:
    """Put a measured tree into a Parquet file; how many trees it holds now.

    A tree of the same model and size is replaced. The file changes as a whole or not
    at all.

    Raises:
        UsageError: The file is of another machine or kind of run, or cannot be written.
    """
    table, provenance = table_of([tree], path.stem), _provenance_of(tree)
    if path.exists():
        there = read_provenance(path)
        for what in ("hardware", "source"):
            old, now = getattr(there, what), getattr(provenance, what)
            if old != now:
                raise UsageError(
                    f"{path} is of {old or 'something else'}, this run of {now}: trees "
                    "that differ in that do not belong into one file; choose another"
                )
        table = _joined(read_parquet(path), table)
    write_parquet(table, path, provenance)
    return len(table.keys)


def _joined(old: NodeTable, new: NodeTable) -> NodeTable:
    keep = [place for place, key in enumerate(old.keys) if key not in new.keys]
    kept = old.take(keep)
    columns = joined_columns([kept.to_columns(), new.to_columns()])
    return NodeTable.from_columns(old.name, [*kept.keys, *new.keys], columns)
