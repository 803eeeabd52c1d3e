"""What is held out: trees of a model, of a family, or of a size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.predict.exams.families import families

__all__ = [
    "SPLITS",
    "Fold",
    "Split",
    "by_batch_size",
    "by_family",
    "by_model",
    "by_seq_len",
    "by_size",
    "larger_than",
    "make_split",
    "smaller_than",
]

Ints = npt.NDArray[np.int64]


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
    return [
        _fold(f"length {length}", [key.seq_len == length for key in table.keys])
        for length in sorted({key.seq_len for key in table.keys})
    ]


def by_batch_size(table: NodeTable) -> list[Fold]:
    """Each batch size from the others."""
    return [
        _fold(f"batch {size}", [key.batch_size == size for key in table.keys])
        for size in sorted({key.batch_size for key in table.keys})
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
