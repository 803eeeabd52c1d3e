"""Folding equal siblings into one node with a count, and back again."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from irene.arrays import Ints
from irene.errors import UsageError
from irene.tree.columns import KINDS
from irene.tree.structure import Structure

if TYPE_CHECKING:
    from irene.tree.model_tree import ModelTree

Members = tuple[tuple[str, int], ...]
NUMBERED = re.compile(r"(?:(?<=^)|(?<=[./]))\d+(?=\.|$)")


def fold(tree: ModelTree, level: str = "math", known: str | None = None) -> ModelTree:
    """Equal siblings that differ only by a number in their name, or by call, as one.

    Two siblings are equal when their whole subtrees are: names below, ops, shapes,
    dtypes, costs, energies and measured values. Which sibling stood where is kept for
    `unfold`.

    Args:
        tree: Any tree; of one that is folded, what is equal by now becomes one as well.
        level: Deepest kind of nodes that stays.
        known: What trees of this structure whose equal nodes are the same have in
            common, if there is a word for it.
    """
    staying = np.flatnonzero(tree.columns.kind <= KINDS.index(level))
    keys = _keys(tree, staying) if known is None else None

    def find() -> tuple[Ints, Ints, dict[int, Members], Structure] | None:
        own = dict(zip(staying.tolist(), keys or _keys(tree, staying), strict=True))
        rows, counts, members = _grouped(tree, own)
        if len(rows) == len(tree) and members == tree.members:
            return None
        columns = tree.columns.select(rows, count=counts)
        return rows, counts, members, Structure(columns, tree.strings)

    found = tree.structure.once((level, *(keys or (known,))), find)
    if found is None:  # it is folded
        return tree
    rows, counts, members, structure = found
    folded = tree.select(rows, {"count": counts}, members=members)
    folded.structure = structure
    return folded


def _grouped(
    tree: ModelTree, keys: dict[int, int]
) -> tuple[Ints, Ints, dict[int, Members]]:
    """Which rows stay, how many each stands for, and which; of those with keys."""
    strings = {text: i for i, text in enumerate(tree.strings)}
    below = _instances(tree, strings)
    if len(keys) < len(tree):
        below = [[each for each in some if each[0] in keys] for some in below]
    classes = _subtree_classes(keys, below)
    patterns = [_pattern(text) for text in strings]
    names = list(strings)
    keep: list[int] = []
    count: list[int] = []
    members: dict[int, Members] = {}
    stack = [[(0, 0, 0)]]
    while stack:
        group = stack.pop()
        row = group[0][0]
        if len(group) > 1:
            members[len(keep)] = tuple((names[name], at) for _, name, at in group)
        keep.append(row)
        count.append(len(group))
        equal: dict[tuple[int, str], list[tuple[int, int, int]]] = {}
        for place, (child, name) in enumerate(below[row]):
            key = classes[child], patterns[name]
            equal.setdefault(key, []).append((child, name, place))
        stack.extend(reversed(equal.values()))
    counts = np.array(count, dtype=np.int64)
    return np.array(keep, dtype=np.int64), counts, members


@lru_cache(maxsize=10_000)
def _pattern(name: str) -> str:
    return NUMBERED.sub("#", name)


def _keys(tree: ModelTree, rows: Ints) -> list[int]:
    """A number for each of some rows; equal ones mean equal values, children apart."""
    columns = tree.columns
    e = tree.energy
    known = [
        columns.kind, columns.op, columns.signature, columns.params, columns.flops,
        columns.bytes_read, columns.bytes_written,
    ]  # fmt: skip
    measured = [*tree.features.values(), *((e.joules, e.low, e.high) if e else ())]
    if measured:
        values = np.stack(measured) + 0.0  # zero equals zero whatever its sign
        values[values != values] = np.nan  # unknown equals unknown
        known += list(values.view(np.int64))
    if e is not None:
        known.append(np.where(np.isnan(e.joules), 0, e.source).astype(np.int64))
    table = np.stack(known, axis=1)[rows]
    texts = table.view(f"V{table.itemsize * table.shape[1]}").ravel().tolist()
    numbers: dict[bytes, int] = {}
    return [numbers.setdefault(text, len(numbers)) for text in texts]


def _subtree_classes(
    keys: dict[int, int], below: list[list[tuple[int, int]]]
) -> list[int]:
    """A number for every row; equal numbers mean equal subtrees (own name apart)."""
    numbers: dict[object, int] = {}
    classes = [0] * len(below)
    for row in reversed(keys):
        key = (keys[row], *((classes[child], name) for child, name in below[row]))
        classes[row] = numbers.setdefault(key, len(numbers))
    return classes


def unfold(tree: ModelTree) -> ModelTree:
    """Every instance as a node of its own again, in its old place."""
    if not tree.members:
        return tree
    strings = {text: i for i, text in enumerate(tree.strings)}
    below = _instances(tree, strings)
    found = []
    stack = [(0, int(tree.columns.name[0]))]
    while stack:
        found.append(stack.pop())
        stack.extend(reversed(below[found[-1][0]]))
    rows, names = np.array(found, dtype=np.int64).T
    columns = {"name": names, "count": np.ones(len(names), dtype=np.int64)}
    return tree.select(rows, columns, strings=tuple(strings), members={})


def _instances(tree: ModelTree, strings: dict[str, int]) -> list[list[tuple[int, int]]]:
    """Below every row: row and name of all instances, in the unfolded tree's order."""
    names, parents = tree.columns.name.tolist(), tree.parents.tolist()
    below: list[list[tuple[int, int]]] = [[] for _ in names]
    for row in range(1, len(names)):
        below[parents[row]].append((row, names[row]))
    for row in {parents[row] for row in tree.members}:
        free = (each for each in below[row] if each[0] not in tree.members)
        placed = {
            place: (child, strings.setdefault(name, len(strings)))
            for child, _ in below[row]
            for name, place in tree.members.get(child, ())
        }
        total = sum(len(tree.members.get(child, "1")) for child, _ in below[row])
        below[row] = [placed.get(i) or next(free) for i in range(total)]
    return below


def cut(tree: ModelTree, level: str) -> ModelTree:
    """The tree without the kinds of nodes below `level`."""
    if level not in KINDS:
        raise UsageError(f"level must be one of {', '.join(KINDS)}; got {level!r}")
    if tree.members:
        return fold(tree, level)
    return tree.select(np.flatnonzero(tree.columns.kind <= KINDS.index(level)))
