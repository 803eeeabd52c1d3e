"""Trees with equal nodes once: nine rows of ten are copies of another row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from irene.arrays import Bools, Floats, Ints
from irene.dataset.table import NodeTable

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class FoldedTree:
    """One tree of distinct nodes.

    Attributes:
        nodes: Its distinct nodes, a slice of those of `FoldedTrees`.
        children: How often node j is a child of node i, (nodes, nodes).
        depth: Longest way down, in edges.
    """

    nodes: slice
    children: Floats
    depth: int


@dataclass(frozen=True, slots=True)
class FoldedTrees:
    """The distinct nodes of a table, tree after tree.

    Attributes:
        row: A row of the table for every distinct node.
        node: The distinct node of every row.
        count: How many rows every distinct node stands for.
        leaf: Whether a distinct node has no children.
        trees: The trees.
    """

    row: Ints
    node: Ints
    count: Floats
    leaf: Bools
    trees: tuple[FoldedTree, ...]

    @classmethod
    def of(cls, table: NodeTable) -> FoldedTrees:
        """Fold a table: nodes of a tree with equal values and children are one."""
        depth = _depth(table.parent)
        hashes = _subtree_hashes(table, depth)
        _, first, inverse, count = np.unique(
            hashes, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        row, node = first[order], rank[inverse]
        return cls(
            row,
            node,
            count[order].astype(np.float64),
            ~table.has_children[row],
            _trees(table, row, node, depth),
        )


def _depth(parent: Ints) -> Ints:
    """Edges between every row and its root."""
    depth = np.zeros_like(parent)
    above = parent
    while (below := above >= 0).any():
        depth += below
        above = np.where(below, parent[above], -1)
    return depth


def _mix(values: Hashes) -> Hashes:
    """Spread 64 bits over 64 bits (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _subtree_hashes(table: NodeTable, depth: Ints) -> Hashes:
    """Equal for rows of one tree with equal values above equal children."""
    names = {op: i for i, op in enumerate(dict.fromkeys(table.op))}
    hashes = _mix(table.tree.astype(np.uint64) + np.uint64(1))
    hashes = _mix(hashes + np.array([names[op] for op in table.op], dtype=np.uint64))
    for values in (table.kind.astype(np.float64), *table.features.values()):
        hashes = _mix(hashes ^ values.view(np.uint64))
    hashes = _mix(hashes ^ table.energy_j.view(np.uint64))
    for level in range(int(depth.max(initial=0)), 0, -1):
        rows = np.flatnonzero(depth == level)
        below = np.zeros_like(hashes)
        # A sum does not see the order of the children.
        np.add.at(below, table.parent[rows], _mix(hashes[rows]))
        hashes = np.where(below != 0, _mix(hashes + below), hashes)
    return hashes


def _trees(
    table: NodeTable, row: Ints, node: Ints, depth: Ints
) -> tuple[FoldedTree, ...]:
    starts = np.searchsorted(row, table.starts)
    sizes = np.diff(starts)
    offsets = np.concatenate(([0], np.cumsum(sizes**2)))
    child = np.flatnonzero(table.parent >= 0)
    parent = table.parent[child]
    own = row[node[parent]] == parent  # edges of one representative of every node
    child, parent = child[own], parent[own]
    tree = table.tree[child]
    i, j = node[parent] - starts[tree], node[child] - starts[tree]
    place = offsets[tree] + i * sizes[tree] + j
    children = np.bincount(place, minlength=offsets[-1]).astype(np.float64)
    deepest = np.maximum.reduceat(depth, table.starts[:-1])
    return tuple(
        FoldedTree(
            slice(int(starts[t]), int(starts[t + 1])),
            children[offsets[t] : offsets[t + 1]].reshape(sizes[t], sizes[t]),
            int(deepest[t]),
        )
        for t in range(len(sizes))
    )
