"""What is in a table, in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from irene.dataset.table import FEATURES, NodeTable, TreeKey
from irene.tree import KINDS

__all__ = [
    "LevelSummary",
    "ModelSummary",
    "Summary",
    "model_summaries",
    "summarise",
]


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """The trees of one model.

    Attributes:
        model: Its name.
        trees: How many there are.
        nodes: Rows of all of them.
        batch_sizes: Batch sizes that occur.
        seq_lens: Sequence lengths that occur.
    """

    model: str
    trees: int
    nodes: int
    batch_sizes: tuple[int, ...]
    seq_lens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """The nodes of one kind.

    Attributes:
        kind: `model`, `module`, `ml` or `math`.
        nodes: How many rows there are.
        distinct: Rows that are not exact copies of another measurement.
        lowest_j: Smallest energy, J; None if none is known.
        highest_j: Largest energy, J; None if none is known.
    """

    kind: str
    nodes: int
    distinct: int
    lowest_j: float | None
    highest_j: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What is in a table.

    Attributes:
        name: What the data is called.
        trees: Number of trees.
        nodes: Number of rows.
        models: One entry per model.
        levels: One entry per kind of node that occurs.
    """

    name: str
    trees: int
    nodes: int
    models: tuple[ModelSummary, ...]
    levels: tuple[LevelSummary, ...]


def summarise(table: NodeTable) -> Summary:
    """Count models, sizes, nodes and measurements of a table."""
    kinds = [kind for kind in KINDS if len(table.rows(kind))]
    return Summary(
        table.name,
        len(table.keys),
        len(table),
        model_summaries((key, r.stop - r.start) for key, r in table.trees()),
        tuple(_level(table, kind) for kind in kinds),
    )


def _distinct_rows(table: NodeTable, kind: str) -> int:
    """Rows of one kind that are not exact copies: class, features or energy differ."""
    rows = table.rows(kind)
    if not len(rows):
        return 0
    ops = np.unique([table.op[row] for row in rows], return_inverse=True)[1]
    columns = [table.features[name][rows] for name in FEATURES]
    values = np.column_stack([ops, *columns, table.energy_j[rows]])
    unknown = np.isnan(values)
    # A measurement is never negative: -1 stands for what is unknown.
    return len(np.unique(np.where(unknown, -1.0, values), axis=0))


def model_summaries(trees: Iterable[tuple[TreeKey, int]]) -> tuple[ModelSummary, ...]:
    """One summary per model, in the order they first appear.

    Args:
        trees: Which run every tree is of, and its number of nodes.
    """
    models: dict[str, list[tuple[TreeKey, int]]] = {}
    for key, nodes in trees:
        models.setdefault(key.model, []).append((key, nodes))
    return tuple(
        ModelSummary(
            model,
            len(found),
            sum(nodes for _, nodes in found),
            tuple(sorted({key.batch_size for key, _ in found})),
            tuple(sorted({key.seq_len for key, _ in found})),
        )
        for model, found in models.items()
    )


def _level(table: NodeTable, kind: str) -> LevelSummary:
    rows = table.rows(kind)
    known = table.energy_j[rows]
    known = known[~np.isnan(known)]
    return LevelSummary(
        kind,
        len(rows),
        _distinct_rows(table, kind),
        float(known.min()) if len(known) else None,
        float(known.max()) if len(known) else None,
    )
