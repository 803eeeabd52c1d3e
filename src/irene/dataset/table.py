"""NodeTable: the measured nodes of many trees as arrays, one row per node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats, Ints
from irene.errors import FormatError
from irene.spec import RunSpec
from irene.tree import KINDS

FEATURES = (
    "batch_size",
    "seq_len",
    "num_parameters",
    "flops",
    "mem_bytes",
    "cpu",
    "mem",
    "gpu",
    "gpu_mem",
    "gpu_clk",
    "gpu_mem_clk",
    "times_mean",
    "gpu_energy_mean",
)
"""Measured and counted features of a node, in the units of the 2021 data: flops 1e6,
mem_bytes MiB, cpu, mem, gpu, gpu_mem %, clocks MHz, times_mean s, gpu_energy_mean J.
A feature that a file does not have is NaN."""


class TreeKey(NamedTuple):
    """Which run a tree is of."""

    model: str
    batch_size: int
    seq_len: int

    @classmethod
    def of(cls, spec: RunSpec) -> TreeKey:
        """The key of a run."""
        return cls(spec.model, spec.batch_size, spec.seq_len)

    @property
    def words(self) -> str:
        """As people say it."""
        return f"{self.model} batch {self.batch_size} length {self.seq_len}"


NODE_FEATURES = tuple(name for name in FEATURES if name not in TreeKey._fields)
"""Features that nodes of one tree may differ in."""


@dataclass(frozen=True, slots=True)
class MeasuredNode:
    """One node before it is in a table, with the place of its parent; -1 for the root.

    The path of the model is ""; an energy that is not known is NaN.
    """

    path: str
    kind: str
    op: str
    energy_j: float
    features: Mapping[str, float]
    parent: int


@dataclass(frozen=True)
class NodeTable:
    """Measured nodes of many trees, tree after tree, each in pre-order.

    Attributes:
        keys: Model and size of every tree.
        starts: First row of every tree, and the number of rows at the end.
        parent: Row of every row's parent; -1 for a root.
        kind: Index into `KINDS` of every row.
        features: One array per name of `FEATURES`.
        disturbed: Whether something disturbed the measurement of every row.
    """

    name: str
    keys: tuple[TreeKey, ...]
    starts: Ints
    parent: Ints
    kind: Ints
    path: tuple[str, ...]
    op: tuple[str, ...]
    features: Mapping[str, Floats]
    energy_j: Floats
    disturbed: npt.NDArray[np.bool_]

    @classmethod
    def from_trees(
        cls, name: str, trees: Iterable[tuple[TreeKey, Sequence[MeasuredNode]]]
    ) -> NodeTable:
        """Lay trees out one after the other; parents stand before their children.

        Raises:
            FormatError: A tree does not have one root with all nodes below it.
        """
        keys: list[TreeKey] = []
        rows: list[MeasuredNode] = []
        parents: list[int] = []
        for key, nodes in trees:
            order = _preorder(nodes, key)
            place = {old: new for new, old in enumerate(order)}
            rows += [nodes[old] for old in order]
            parents += [place.get(nodes[old].parent, -1) for old in order]
            keys.append(key)
        told = ("path", "kind", "op", "energy_j")
        features = [row.features for row in rows]
        columns = {
            "parent": parents,
            **{column: [getattr(row, column) for row in rows] for column in told},
            **{n: [f.get(n, np.nan) for f in features] for n in NODE_FEATURES},
        }
        return cls.from_columns(name, keys, columns)

    @classmethod
    def from_columns(
        cls, name: str, keys: Sequence[TreeKey], columns: Mapping[str, Any]
    ) -> NodeTable:
        """A table of what `to_columns` tells; without `disturbed`, nothing was."""
        parent = np.asarray(columns["parent"], dtype=np.int64)
        starts = np.append(np.flatnonzero(parent == -1), len(parent))
        sizes = np.diff(starts)
        kinds = map(KINDS.index, columns["kind"])
        features = {}
        for size in TreeKey._fields[1:]:
            of_tree = np.array([getattr(key, size) for key in keys], dtype=np.float64)
            features[size] = np.repeat(of_tree, sizes)
        features |= {n: _owned(columns[n]) for n in NODE_FEATURES}
        return cls(
            name,
            tuple(keys),
            starts.astype(np.int64),
            np.where(parent == -1, -1, parent + np.repeat(starts[:-1], sizes)),
            np.fromiter(kinds, np.int64, len(parent)),
            tuple(columns["path"]),
            tuple(columns["op"]),
            features,
            _owned(columns["energy_j"]),
            np.array(columns.get("disturbed", np.zeros(len(parent))), np.bool_),
        )

    def to_columns(self) -> dict[str, Any]:
        """Everything but the keys, row by row; a parent is counted in its tree."""
        first = self.starts[:-1][self.tree]
        return {
            "parent": np.where(self.parent < 0, -1, self.parent - first),
            "path": list(self.path),
            "kind": [KINDS[kind] for kind in self.kind.tolist()],
            "op": list(self.op),
            **{name: self.features[name] for name in NODE_FEATURES},
            "energy_j": self.energy_j,
            "disturbed": self.disturbed,
        }

    def nodes(self, rows: slice) -> list[MeasuredNode]:
        """The nodes of one tree; rows as `trees` gives them."""
        return [
            MeasuredNode(
                self.path[row],
                KINDS[self.kind[row]],
                self.op[row],
                float(self.energy_j[row]),
                {name: float(self.features[name][row]) for name in FEATURES},
                int(self.parent[row]) - rows.start if self.parent[row] >= 0 else -1,
            )
            for row in range(rows.start, rows.stop)
        ]

    def __len__(self) -> int:
        return len(self.parent)

    def equals(self, other: NodeTable) -> bool:
        """Whether both hold the same trees with the same values; NaN equals NaN."""
        names = ("keys", "path", "op")
        arrays = ("starts", "parent", "kind", "energy_j", "disturbed")
        return (
            all(getattr(self, name) == getattr(other, name) for name in names)
            and all(_equal(getattr(self, a), getattr(other, a)) for a in arrays)
            and all(_equal(self.features[f], other.features[f]) for f in FEATURES)
        )

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, in the order they first appear."""
        return tuple(dict.fromkeys(key.model for key in self.keys))

    @cached_property
    def tree(self) -> Ints:
        """Which tree every row is of."""
        sizes = np.diff(self.starts)
        return np.repeat(np.arange(len(self.keys), dtype=np.int64), sizes)

    def rows(self, kind: str) -> Ints:
        """Rows of one kind."""
        return np.flatnonzero(self.kind == KINDS.index(kind))

    @cached_property
    def has_children(self) -> npt.NDArray[np.bool_]:
        """Whether a row has measured children."""
        below = np.zeros(len(self), dtype=np.bool_)
        below[self.parent[self.parent >= 0]] = True
        return below

    def trees(self) -> Iterator[tuple[TreeKey, slice]]:
        """Every tree's key and the slice of its rows."""
        for i, key in enumerate(self.keys):
            yield key, slice(int(self.starts[i]), int(self.starts[i + 1]))

    def take(self, trees: Sequence[int] | Ints) -> NodeTable:
        """A table of some of the trees, in the order given."""
        picked = [int(t) for t in trees]
        slices = [slice(int(self.starts[t]), int(self.starts[t + 1])) for t in picked]
        sizes = [s.stop - s.start for s in slices]
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        none = np.zeros(0, dtype=np.int64)
        ranges = [np.arange(s.start, s.stop, dtype=np.int64) for s in slices]
        rows = np.concatenate([none, *ranges])
        shift = np.repeat(starts[:-1] - [s.start for s in slices], sizes)
        parent = self.parent[rows]
        return NodeTable(
            self.name,
            tuple(self.keys[t] for t in picked),
            starts,
            np.where(parent < 0, -1, parent + shift).astype(np.int64),
            self.kind[rows],
            tuple(self.path[r] for r in rows),
            tuple(self.op[r] for r in rows),
            {name: values[rows] for name, values in self.features.items()},
            self.energy_j[rows],
            self.disturbed[rows],
        )


def joined_columns(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Columns of several tables, as `NodeTable.to_columns`, one after the other."""
    names = parts[0] if parts else ()
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _owned(values: Any) -> Floats:
    """Values that may be written to; a view of a file may not."""
    return np.require(values, np.float64, ["W"])


def _equal(a: Ints | Floats, b: Ints | Floats) -> bool:
    floating = a.dtype.kind == "f"
    return bool(np.array_equal(a, b, equal_nan=floating))


def _preorder(nodes: Sequence[MeasuredNode], key: TreeKey) -> list[int]:
    children: dict[int, list[int]] = {}
    for position, node in enumerate(nodes):
        children.setdefault(node.parent, []).append(position)
    order: list[int] = []
    stack = list(reversed(children.get(-1, [])))
    roots = len(stack)
    while stack:
        position = stack.pop()
        order.append(position)
        stack.extend(reversed(children.get(position, [])))
    if roots != 1 or len(order) != len(nodes):
        raise FormatError(
            f"{key.words}: {roots} roots, "
            f"{len(nodes) - len(order)} nodes whose parent is missing or below them"
        )
    return order
