"""What is held out: trees of a model, of a family, or of a size.

Which models are a family, the measured trees say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from irene.arrays import Floats, Ints
from irene.dataset.table import NodeTable
from irene.errors import UsageError


def families(table: NodeTable) -> list[tuple[str, ...]]:
    """Models grouped by the primitives in which their energy goes.

    Models are joined from the most alike downwards (single linkage). Where likeness
    drops most between one join and the next, a family ends. No name and no number is
    looked at.

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


class Fold(NamedTuple):
    """One round of a cross-validation.

    Attributes:
        held_out: What is predicted, in words.
        train: Trees to learn from.
        test: Trees to predict.
    """

    held_out: str
    train: Ints
    test: Ints


Split = Callable[[NodeTable], Sequence[Fold]]
"""All rounds for a table; in each, every tree is in `train` or in `test`."""


def _fold(held_out: str, is_test: Sequence[bool]) -> Fold:
    test = np.array(is_test, dtype=np.bool_)
    if test.all() or not test.any():
        where = "left to learn from" if test.all() else "to predict"
        raise UsageError(f"holding out {held_out}: no tree is {where}")
    return Fold(held_out, np.flatnonzero(~test), np.flatnonzero(test))


def by_model(table: NodeTable) -> list[Fold]:
    """Each model from the others."""
    return [
        _fold(model, [key.model == model for key in table.keys])
        for model in table.models
    ]


def by_family(table: NodeTable) -> list[Fold]:
    """Each family of models from the other families (see `families`)."""
    return [
        _fold("+".join(family), [key.model in family for key in table.keys])
        for family in families(table)
    ]


def smaller_than(table: NodeTable, tokens: int = 1024) -> list[Fold]:
    """Runs of at most some tokens (batch × length) from larger ones."""
    small = [key.batch_size * key.seq_len <= tokens for key in table.keys]
    return [_fold(f"tokens ≤ {tokens}", small)]


def larger_than(table: NodeTable, tokens: int = 2048) -> list[Fold]:
    """Runs of more than some tokens (batch × length) from smaller ones."""
    large = [key.batch_size * key.seq_len > tokens for key in table.keys]
    return [_fold(f"tokens > {tokens}", large)]


def by_seq_len(table: NodeTable) -> list[Fold]:
    """Each sequence length from the others."""
    return _by_value("length", [key.seq_len for key in table.keys])


def by_batch_size(table: NodeTable) -> list[Fold]:
    """Each batch size from the others."""
    return _by_value("batch", [key.batch_size for key in table.keys])


def _by_value(name: str, values: Sequence[int]) -> list[Fold]:
    return [
        _fold(f"{name} {value}", [each == value for each in values])
        for value in sorted(set(values))
    ]


def by_size(table: NodeTable, small: int = 1024, large: int = 2048) -> list[Fold]:
    """Small runs, large runs, each length and each batch size, in turn.

    Args:
        table: The trees.
        small: Most tokens of a small run.
        large: Most tokens of a run that is not large.
    """
    return [
        *smaller_than(table, small),
        *larger_than(table, large),
        *by_seq_len(table),
        *by_batch_size(table),
    ]


SPLITS: Mapping[str, Split] = MappingProxyType(
    {
        "model": by_model,
        "family": by_family,
        "size": by_size,
        "small": smaller_than,
        "large": larger_than,
        "length": by_seq_len,
        "batch": by_batch_size,
    }
)
"""Every split by name."""


def make_split(name: str, **options: object) -> Split:
    """A split by name.

    Args:
        name: A key of `SPLITS`.
        **options: Thresholds of the split, such as `tokens`.

    Raises:
        UsageError: No such split.
    """
    if name not in SPLITS:
        raise UsageError(f"no split {name!r}; there are {', '.join(SPLITS)}")
    return partial(SPLITS[name], **options) if options else SPLITS[name]
