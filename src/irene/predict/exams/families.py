"""Which models belong together, as the measured trees say."""

from __future__ import annotations

import numpy as np

from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.predict.method import Floats

__all__ = ["families", "likeness"]


def families(table: NodeTable) -> list[tuple[str, ...]]:
    """Models grouped by the primitives in which their energy goes.

    Models are joined from the most alike downwards (single linkage). Where likeness
    drops most between one join and the next, a family ends. No name and no number is
    looked at.

    Args:
        table: Trees of several models.

    Returns:
        Two families or more, each in the order of `table.models`.

    Raises:
        UsageError: All models are of one family.
    """
    alike = likeness(table)
    joins = _joins(alike)
    heights = [1.0, *(alike[join] for join in joins)]
    drops = -np.diff(heights)
    if not len(drops) or drops.max() < 1e-9:
        names = ", ".join(table.models)
        raise UsageError(f"{table.name} has only one family of models: {names}")
    family = np.arange(len(alike))
    for a, b in joins[: int(drops.argmax())]:
        family[family == family[b]] = family[a]
    groups = dict.fromkeys(family.tolist())
    models = np.array(table.models)
    return [tuple(models[family == group].tolist()) for group in groups]


def likeness(table: NodeTable) -> Floats:
    """Part of two models' energy that goes into the same primitives, 0 to 1.

    Args:
        table: Trees of several models.

    Returns:
        Models × models, in the order of `table.models`.
    """
    rows = table.rows("ml")
    models = {model: i for i, model in enumerate(table.models)}
    ops = {op: i for i, op in enumerate(dict.fromkeys(table.op[row] for row in rows))}
    of_tree = np.array([models[key.model] for key in table.keys])
    shares = np.zeros((len(models), len(ops)))
    op = np.array([ops[table.op[row]] for row in rows], dtype=np.int64)
    np.add.at(shares, (of_tree[table.tree[rows]], op), table.energy_j[rows])
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    both = np.minimum(shares[:, None, :], shares[None, :, :])
    return np.asarray(both.sum(axis=2), dtype=np.float64)


def _joins(alike: Floats) -> list[tuple[int, int]]:
    """Pairs that join all models, the most alike first (Kruskal's spanning tree)."""
    pairs = np.argwhere(np.triu(np.ones_like(alike, dtype=np.bool_), 1))
    order = np.argsort(-alike[pairs[:, 0], pairs[:, 1]], kind="stable")
    group = np.arange(len(alike))
    joins = []
    for a, b in pairs[order]:
        if group[a] != group[b]:
            group[group == group[b]] = group[a]
            joins.append((int(a), int(b)))
    return joins
