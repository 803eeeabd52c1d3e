"""Folding equal siblings into one node with a count, and back again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from irene.errors import UsageError
from irene.tree.columns import KINDS
from irene.tree.features import of_row

if TYPE_CHECKING:
    from irene.tree.model_tree import ModelTree

NUMBERED = re.compile(r"(?:(?<=^)|(?<=[./]))\d+(?=\.|$)")


def fold(tree: ModelTree) -> ModelTree:
    """Equal siblings that differ only by a number in their name, or by call, as one.

    Two siblings are equal when their whole subtrees are: names below, ops, shapes,
    dtypes, costs, energies and measured values. Which sibling stood where is kept for
    `unfold`.

    Args:
        tree: Any tree; an already folded one is unfolded first.
    """
    if tree.members:
        tree = unfold(tree)
    classes = _subtree_classes(tree)
    patterns = [NUMBERED.sub("#", text) for text in tree.strings]
    keep: list[int] = []
    count: list[int] = []
    members: dict[int, tuple[tuple[str, int], ...]] = {}
    stack = [0]
    groups: dict[int, list[tuple[int, int]]] = {}
    while stack:
        row = stack.pop()
        group = groups.pop(row, None)
        if group is not None:
            members[len(keep)] = tuple(
                (tree.strings[tree.columns.name[r]], place) for r, place in group
            )
        keep.append(row)
        count.append(len(group) if group else 1)
        heads = _group_children(tree, row, classes, patterns)
        groups |= {head: equal for head, equal in heads.items() if len(equal) > 1}
        stack.extend(reversed(heads))
    counts = np.array(count, dtype=np.int64)
    return tree.select(
        np.array(keep, dtype=np.int64), {"count": counts}, members=members
    )


def _subtree_classes(tree: ModelTree) -> list[int]:
    """A number for every row; equal numbers mean equal subtrees (own name apart)."""
    columns = tree.columns
    properties = [columns.kind, columns.op, columns.signature, columns.params]
    properties += [columns.flops, columns.bytes_read, columns.bytes_written]
    keys = list(zip(*(column.tolist() for column in properties), strict=True))
    energies: list[object] = [None] * len(tree)
    if tree.energy is not None:
        e = tree.energy
        columns_of_energy = (e.joules, e.low, e.high, e.source)
        rows = zip(*(column.tolist() for column in columns_of_energy), strict=True)
        # Unknown equals unknown, which not-a-number does not.
        energies = [None if np.isnan(row[0]) else row for row in rows]
    if tree.features:
        measured = (
            tuple(of_row(tree.features, row).items()) for row in range(len(tree))
        )
        energies = list(zip(energies, measured, strict=True))
    names, parents = columns.name.tolist(), tree.parents.tolist()
    below: list[list[int]] = [[] for _ in keys]
    numbers: dict[object, int] = {}
    classes = [0] * len(keys)
    for row in range(len(keys) - 1, -1, -1):
        key = (keys[row], energies[row], tuple(below[row]))
        classes[row] = numbers.setdefault(key, len(numbers))
        if row:
            below[parents[row]] += (classes[row], names[row])
    return classes


def _group_children(
    tree: ModelTree, row: int, classes: list[int], patterns: list[str]
) -> dict[int, list[tuple[int, int]]]:
    """First row of each group of equal children -> (row, place) of all its members."""
    heads: dict[tuple[int, str], int] = {}
    groups: dict[int, list[tuple[int, int]]] = {}
    for place, child in enumerate(tree.children_of(row)):
        key = (classes[child], patterns[tree.columns.name[child]])
        head = heads.setdefault(key, child)
        groups.setdefault(head, []).append((child, place))
    return groups


def unfold(tree: ModelTree) -> ModelTree:
    """Every instance as a node of its own again, in its old place.

    Args:
        tree: Any tree; one without folded nodes is returned as it is.
    """
    if not tree.members:
        return tree
    strings = {text: i for i, text in enumerate(tree.strings)}
    source: list[int] = []
    names: list[int] = []
    own_name = tree.columns.name.tolist()
    stack: list[tuple[int, int]] = [(0, own_name[0])]
    while stack:
        row, name = stack.pop()
        source.append(row)
        names.append(name)
        stack.extend(reversed(_instances(tree, row, strings)))
    columns = {
        "name": np.array(names, dtype=np.int64),
        "count": np.ones(len(names), dtype=np.int64),
    }
    rows = np.array(source, dtype=np.int64)
    return tree.select(rows, columns, strings=tuple(strings), members={})


def _instances(
    tree: ModelTree, row: int, strings: dict[str, int]
) -> list[tuple[int, int]]:
    """Row and name of every child instance, in the order of the unfolded tree."""
    children = tree.children_of(row)
    if not any(child in tree.members for child in children):
        names = tree.columns.name
        return [(child, int(names[child])) for child in children]
    placed: dict[int, tuple[int, int]] = {}
    free: list[tuple[int, int]] = []
    for child in children:
        if child not in tree.members:
            free.append((child, int(tree.columns.name[child])))
            continue
        for name, place in tree.members[child]:
            placed[place] = (child, strings.setdefault(name, len(strings)))
    rest = iter(free)
    return [
        placed[place] if place in placed else next(rest)
        for place in range(len(placed) + len(free))
    ]


def cut(tree: ModelTree, level: str) -> ModelTree:
    """The tree without the kinds of nodes below `level`."""
    if level not in KINDS:
        raise UsageError(f"level must be one of {', '.join(KINDS)}; got {level!r}")
    if tree.members:
        return cut(unfold(tree), level).fold()
    return tree.select(np.flatnonzero(tree.columns.kind <= KINDS.index(level)))
