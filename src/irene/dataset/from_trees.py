"""From measured trees to the table that predictors learn from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from irene.dataset.formats.nodes_parquet import (
    Provenance,
    read_parquet,
    read_provenance,
    write_parquet,
)
from irene.dataset.table import FEATURES, MeasuredNode, NodeTable, TreeKey
from irene.errors import UsageError
from irene.tree import ModelTree, Node

__all__ = ["MEGA", "MIB", "add_to_file", "table_of"]

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
    nodes: dict[TreeKey, list[MeasuredNode]] = {}
    for tree in trees:
        key = _key(tree)
        nodes.pop(key, None)
        nodes[key] = _nodes(tree.unfold().at_level("ml"))
    return NodeTable.from_trees(name, nodes.items())


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


def _nodes(tree: ModelTree) -> list[MeasuredNode]:
    return [
        MeasuredNode(
            node.path,
            node.kind,
            node.op,
            _energy_j(node),
            _features(node),
            int(tree.parents[node.row]),
        )
        for node in tree.nodes()
    ]


def _energy_j(node: Node) -> float:
    """Energy, J; unknown where nothing was measured or the meter did not move."""
    energy = node.energy
    return energy.joules if energy and energy.joules > 0 else math.nan


def _features(node: Node) -> dict[str, float]:
    counted = {
        "num_parameters": float(node.params),
        "flops": node.flops / MEGA,
        "mem_bytes": node.bytes / MIB,
    }
    measured = {name: v for name, v in node.features.items() if name in FEATURES}
    return {**counted, **{name: max(0.0, v) for name, v in measured.items()}}


def _provenance_of(tree: ModelTree) -> Provenance:
    """Where a measured tree is from: machine, how it was run, when."""
    spec, hardware = tree.spec, tree.hardware
    if spec is None or hardware is None:
        raise UsageError("this tree does not say which run it is of, or where")
    run = f"{spec.dtype}, {spec.attention} attention"
    return Provenance(
        hardware=f"{hardware.name}: {hardware.description}",
        source=f"irene measure, {run}, covers {hardware.covers}",
        date=tree.provenance.get("measured", "")[:10],
    )


def _check_file(path: Path, tree: ModelTree) -> None:
    """Refuse a file that a tree cannot be added to."""
    there, new = read_provenance(path), _provenance_of(tree)
    for what in ("hardware", "source"):
        old, now = getattr(there, what), getattr(new, what)
        if old != now:
            raise UsageError(
                f"{path} is of {old or 'something else'}, this run of {now}: trees "
                "that differ in that do not belong into one file; choose another"
            )


def add_to_file(tree: ModelTree, path: Path) -> int:
    """Put a measured tree into a Parquet file, beside those that are there.

    A tree of the same model and size is replaced. The file changes as a whole or not
    at all.

    Args:
        tree: The tree.
        path: The file; made if there is none.

    Returns:
        How many trees the file holds now.

    Raises:
        UsageError: The file is of another machine or kind of run, or cannot be written.
    """
    new, provenance = table_of([tree], path.stem), _provenance_of(tree)
    if path.exists():
        _check_file(path, tree)
        new = _joined(read_parquet(path), new)
    write_parquet(new, path, provenance)
    return len(new.keys)


def _joined(old: NodeTable, new: NodeTable) -> NodeTable:
    keep = [place for place, key in enumerate(old.keys) if key not in new.keys]
    kept = old.take(keep)
    before, after = kept.to_columns(), new.to_columns()
    columns = {name: [*before[name], *after[name]] for name in before}
    return NodeTable.from_columns(old.name, [*kept.keys, *new.keys], columns)
