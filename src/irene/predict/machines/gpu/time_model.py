"""Time of one kind of op in one dtype: a smooth roofline times a learned residual.

The residual is a sum of small boosted trees, kept as plain arrays and evaluated for
many rows at once. A row ends in the leftmost leaf of a tree that no test rules out, and
a test `feature > threshold` that holds rules out the leaves to the left of its node. So
a tree is a list of tests, each with the run of leaves it rules out, and a row's leaf is
the lowest bit left of an AND (Lucchese et al., QuickScorer, SIGIR 2015). Tests of one
feature are sorted by threshold, so that all that hold for a row are one table look-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats, Ints
from irene.errors import FormatError
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.kernel_ops import OpColumns
from irene.predict.machines.gpu.kernel_work import (
    features_of,
    kernel_seconds,
)
from irene.saved import Saved

MOST_LEAVES = 32
"""A tree's leaves are bits of one 32-bit number."""

Words = npt.NDArray[np.uint32]

ALL = np.uint32(0xFFFFFFFF)
ROWS = 256
"""Rows at a time: what they look up stays in the cache."""
# Bits 27-31 of a power of two times this number differ for all 32 powers.
DE_BRUIJN = np.uint32(0x077CB531)
_POWERS = np.uint32(1) << np.arange(32, dtype=np.uint32)
_PLACES = (_POWERS * DE_BRUIJN) >> np.uint32(27)


@dataclass(frozen=True)
class Boosted(Saved):
    """A sum of regression trees.

    Attributes:
        features: Names of the features.
        leaves: Values, trees × leaves; from left to right, 0 where a tree has fewer.
        tree: Tree of every test.
        feature: Place in `features` of every test.
        threshold: What the feature must be above.
        first: First leaf that the test rules out.
        count: How many it rules out.
    """

    features: tuple[str, ...]
    leaves: Floats
    tree: Ints
    feature: Ints
    threshold: Floats
    first: Ints
    count: Ints

    def predict(self, rows: Floats) -> Floats:
        """The sum of every row's leaves; rows × features."""
        parts = [
            self._sums(rows[start : start + ROWS])
            for start in range(0, len(rows), ROWS)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _sums(self, rows: Floats) -> Floats:
        left: Words = np.full((len(rows), len(self.leaves)), ALL)
        kept = np.empty_like(left)
        for feature, thresholds, table in self._tables:
            holding = thresholds.searchsorted(rows[:, feature], side="left")
            # `clip` skips a check: places are never outside.
            table.take(holding, axis=0, out=kept, mode="clip")
            left &= kept
        lowest = left & (~left + np.uint32(1))
        places = (lowest * DE_BRUIJN) >> np.uint32(27)
        sums: Floats = self._by_place.take(places + self._offsets).sum(axis=1)
        return sums

    @cached_property
    def _tables(self) -> list[tuple[int, Floats, Words]]:
        """For each feature: thresholds, and what is left after so many tests hold."""
        tables = []
        for feature in np.unique(self.feature):
            mine = np.flatnonzero(self.feature == feature)
            mine = mine[np.argsort(self.threshold[mine], kind="stable")]
            out = (np.uint64(1) << self.count[mine].astype(np.uint64)) - np.uint64(1)
            out <<= self.first[mine].astype(np.uint64)
            table = np.full((len(mine) + 1, len(self.leaves)), ALL)
            table[np.arange(len(mine)) + 1, self.tree[mine]] = ~out.astype(np.uint32)
            kept = np.bitwise_and.accumulate(table, axis=0)
            tables.append((int(feature), self.threshold[mine], kept))
        return tables

    @cached_property
    def _by_place(self) -> Floats:
        """Values of leaves where the product with the De Bruijn number puts them."""
        values = np.zeros((len(self.leaves), 32))
        values[:, _PLACES[: self.leaves.shape[1]]] = self.leaves
        return values.ravel()

    @cached_property
    def _offsets(self) -> Words:
        return 32 * np.arange(len(self.leaves), dtype=np.uint32)

    def __post_init__(self) -> None:
        """Refuse trees with a place outside its array."""
        trees, leaves = self.leaves.shape
        last = self.first + self.count
        is_sound = (
            leaves <= MOST_LEAVES
            and _all_within(self.tree, trees)
            and _all_within(self.feature, len(self.features))
            and _all_within(self.first, leaves)
            and bool((self.count > 0).all() and (last < leaves).all())
        )
        if not is_sound:
            raise FormatError("damaged trees: a place is outside its array")


def _all_within(places: Ints, size: int) -> bool:
    return bool(((places >= 0) & (places < size)).all())


SHARPNESS = 3.0
"""How sharp the corner of the roofline is: the norm that joins its two sides."""


@dataclass(frozen=True, slots=True)
class SmoothRoofline(Saved):
    """launch + ((compute factor × compute)³ + (memory factor × memory)³)^⅓, s.

    Attributes:
        launch_s: Time of an op that does nothing, s.
        compute_factor: How much slower than the peak arithmetic is at best.
        memory_factor: How much slower than the bandwidth memory is at best.
    """

    launch_s: float
    compute_factor: float
    memory_factor: float

    def seconds(self, compute_s: Floats, memory_s: Floats) -> Floats:
        """Time from the least times of both sides, s."""
        joined = (self.compute_factor * compute_s) ** SHARPNESS
        joined += (self.memory_factor * memory_s) ** SHARPNESS
        return self.launch_s + joined ** (1 / SHARPNESS)


@dataclass(frozen=True, slots=True)
class TimeModel(Saved):
    """Time of ops of one kind and dtype.

    Attributes:
        base: The smooth roofline.
        clamp: Least and greatest residual that was measured.
        width: 5 % and 95 % quantile of log(measured / predicted), groups held out.
        limits: Least and greatest measured value of every column.
        borrowed_from: The GPU whose table it is, "" for the device's own.
        block: Rows of blocks that the roofline counts as half empty, 0 for none.
        trees: log(measured / base) from the features of the kind.
        make: Of the kernels, as far as the roofline counts with it; files that say none
            were fitted to a roofline that counts so.
    """

    base: SmoothRoofline
    clamp: tuple[float, float]
    width: tuple[float, float]
    limits: Mapping[str, tuple[float, float]]
    borrowed_from: str
    block: float
    trees: Boosted
    make: str = "cutlass"

    def seconds(self, ops: OpColumns, sheet: Datasheet) -> Floats:
        """Time of every op on a GPU of this datasheet, s."""
        compute_s, memory_s = kernel_seconds(ops, sheet, self.make, self.block)
        base_s = self.base.seconds(compute_s, memory_s)
        rows = features_of(ops, (compute_s, memory_s, base_s), sheet.multiprocessors)
        return base_s * np.exp(np.clip(self.trees.predict(rows), *self.clamp))

    def octaves_beyond(self, ops: OpColumns) -> Floats:
        """How far the sizes of ops are outside the measured, 1 for twice or half."""
        beyond = np.zeros(len(ops))
        for name, (least, most) in self.limits.items():
            values = np.maximum(ops.columns[name], 1.0)
            far = np.maximum(max(least, 1.0) / values, values / max(most, 1.0))
            beyond = np.maximum(beyond, np.log2(np.maximum(far, 1.0)))
        return beyond
