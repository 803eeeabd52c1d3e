"""The arrays inside a tree: one row per node, in pre-order.

Depth alone carries the structure: a row's parent is the last row before it that is one
level higher. Folding, unfolding and pruning are then plain selections of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats, Ints
from irene.energy import SharedError, Source
from irene.errors import UsageError

KINDS = ("model", "module", "ml", "math")
MODEL, MODULE, ML, MATH = range(len(KINDS))
SOURCES: tuple[Source, ...] = get_args(Source)

Shape = tuple[int, ...]


class Signature(NamedTuple):
    """What goes into a node and what comes out.

    Attributes:
        inputs: Shapes of the input tensors, in the order of the call.
        outputs: Shapes of the output tensors.
        dtype: Type of the first output (`fp32`, `bf16`, `int64`, …), "" if none.
    """

    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    dtype: str


class Level(NamedTuple):
    """Rows of one depth, their parents and where the children of each begin."""

    rows: Ints
    parents: Ints
    starts: Ints
    counts: Ints | None


@dataclass(frozen=True, slots=True)
class EnergyColumns:
    """Energy of every row, for one instance of the node, children included.

    Attributes:
        joules: Best values, J.
        low: Lower ends, J.
        high: Upper ends, J.
        source: Index into `SOURCES` of the energy words.
        produced_by: What produced these numbers.
        errors: What of the root's interval other trees may share.
    """

    joules: Floats
    low: Floats
    high: Floats
    source: npt.NDArray[np.uint8]
    produced_by: str
    errors: tuple[SharedError, ...] = ()

    @classmethod
    def predicted(
        cls,
        joules: Floats,
        widths: Floats,
        produced_by: str,
        errors: tuple[SharedError, ...] = (),
    ) -> EnergyColumns:
        """Predicted energies; widths are half their intervals, on the log of energy."""
        low, high = joules * np.exp(-widths), joules * np.exp(widths)
        source = np.full(len(joules), SOURCES.index("predicted"), dtype=np.uint8)
        return cls(joules, low, high, source, produced_by, errors)

    def select(self, rows: Any) -> EnergyColumns:
        """The energies of some rows, in the order given."""
        return EnergyColumns(
            self.joules[rows],
            self.low[rows],
            self.high[rows],
            self.source[rows],
            self.produced_by,
            self.errors,
        )


@dataclass(frozen=True, slots=True)
class Columns:
    """One array per property; costs are of one instance, children included.

    Attributes:
        depth: Distance from the root, which has 0.
        kind: Index into `KINDS`.
        name: Index into the tree's strings: path relative to the parent; a leading
            "/" marks a path that is not below the parent's.
        op: Index into the tree's strings.
        signature: Index into the tree's signatures.
        count: Instances that this row stands for under its parent; 1 unless folded.
        params: Parameters of the module, shared ones once.
        flops: Floating-point operations; a multiply-add is two.
        bytes_read: Bytes read from memory, each input of an op once.
        bytes_written: Bytes written to memory.
    """

    depth: Ints
    kind: Ints
    name: Ints
    op: Ints
    signature: Ints
    count: Ints
    params: Ints
    flops: Ints
    bytes_read: Ints
    bytes_written: Ints

    @classmethod
    def from_lists(cls, lists: Mapping[str, Iterable[int]]) -> Columns:
        """Turn one list per property into arrays."""
        return cls(
            **{f.name: np.asarray(lists[f.name], dtype=np.int64) for f in fields(cls)}
        )

    def __len__(self) -> int:
        return len(self.depth)

    def select(self, rows: Any, **changed: Ints) -> Columns:
        """Some rows in the order given, with whole columns replaced."""
        picked = Columns(*(getattr(self, f.name)[rows] for f in fields(Columns)))
        return replace(picked, **changed) if changed else picked

    def parents(self) -> Ints:
        """Row of every row's parent; -1 for the root."""
        parent = np.full(len(self), -1, dtype=np.int64)
        above = np.flatnonzero(self.depth == 0)
        for level in range(1, int(self.depth.max()) + 1):
            here = np.flatnonzero(self.depth == level)
            parent[here] = above[np.searchsorted(above, here) - 1]
            above = here
        return parent

    def ends(self) -> Ints:
        """Row after the last descendant of every row."""
        end = np.full(len(self), len(self), dtype=np.int64)
        for level in range(int(self.depth.max()) + 1):
            here = np.flatnonzero(self.depth == level)
            stops = np.append(np.flatnonzero(self.depth <= level), len(self))
            end[here] = stops[np.searchsorted(stops, here, side="right")]
        return end

    def own(
        self, values: npt.NDArray[Any], parent: Ints | None = None
    ) -> npt.NDArray[Any]:
        """What of `values` is of each row alone: without its children, times counts."""
        below = np.zeros_like(values)
        parent = self.parents() if parent is None else parent
        np.add.at(below, parent[1:], (values * self.count)[1:])
        alone: npt.NDArray[Any] = values - below
        return alone

    def inclusive(
        self, own: npt.NDArray[Any], levels: Sequence[Level] | None = None
    ) -> npt.NDArray[Any]:
        """Own value plus, level by level from below, all children's."""
        total = own.copy()
        for level in self.levels() if levels is None else levels:
            each = total[level.rows]
            if level.counts is not None:
                each = each * (level.counts if own.ndim == 1 else level.counts[:, None])
            total[level.parents] += np.add.reduceat(each, level.starts)
        return total

    def levels(self, parent: Ints | None = None) -> list[Level]:
        """Rows of one depth, the deepest first, without the root."""
        parent = self.parents() if parent is None else parent
        found = []
        for depth in range(int(self.depth.max()), 0, -1):
            rows = np.flatnonzero(self.depth == depth)
            parents, starts = np.unique(parent[rows], return_index=True)
            counts = self.count[rows]
            several = counts if (counts != 1).any() else None
            found.append(Level(rows, parents, starts, several))
        return found

    def multiplicity(self) -> Ints:
        """How many times each row occurs in the whole, unfolded tree."""
        total = self.count.copy()
        parent = self.parents()
        for level in range(1, int(self.depth.max()) + 1):
            here = np.flatnonzero(self.depth == level)
            total[here] *= total[parent[here]]
        return total


@dataclass(frozen=True, slots=True)
class Cost:
    """What a node or a group of nodes costs in all.

    Attributes:
        calls: How many nodes of the unfolded tree it sums.
        flops: Floating-point operations; a multiply-add is two.
        bytes_read: Bytes read from memory.
        bytes_written: Bytes written to memory.
        energy_j: Energy, J; None where the tree carries none.
    """

    calls: int
    flops: int
    bytes_read: int
    bytes_written: int
    energy_j: float | None = None

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def rank(self) -> tuple[float, int, int]:
        """Sorts costs, the largest first: by energy, FLOPs, bytes."""
        return -(self.energy_j or 0.0), -self.flops, -self.bytes


def checked_features(features: Mapping[str, Floats], rows: int) -> dict[str, Floats]:
    """The columns as arrays of numbers."""
    columns = {name: np.asarray(v, dtype=np.float64) for name, v in features.items()}
    for name, values in columns.items():
        if values.shape != (rows,):
            raise UsageError(f"{len(values)} values of {name} for {rows} nodes")
        if np.isinf(values).any():
            raise UsageError(f"a value of {name} is not finite")
    return columns


def features_of_row(features: Mapping[str, Floats], row: int) -> dict[str, float]:
    """What is known of one row."""
    known = ((name, float(values[row])) for name, values in features.items())
    return {name: value for name, value in known if not np.isnan(value)}


def features_of_rows(rows: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    """Columns of what is known of each row; NaN where a row does not have a name."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        name: np.array([row.get(name, np.nan) for row in rows], dtype=np.float64)
        for name in names
    }
