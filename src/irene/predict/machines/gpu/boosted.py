"""Small boosted trees as plain arrays, evaluated for many rows at once.

A row ends in the leftmost leaf of a tree that no test rules out, and a test
`feature > threshold` that holds rules out the leaves to the left of its node. So a tree
is a list of tests, each with the run of leaves it rules out, and a row's leaf is the
lowest bit left of an AND (Lucchese et al., QuickScorer, SIGIR 2015). Tests of one
feature are sorted by threshold, so that all that hold for a row are one table look-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.errors import FormatError
from irene.predict.machines.gpu.shapes import Floats

__all__ = ["MOST_LEAVES", "Boosted", "from_lightgbm"]

MOST_LEAVES = 32
"""A tree's leaves are bits of one 32-bit number."""

Words = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

ALL = np.uint32(0xFFFFFFFF)
ROWS = 256
"""Rows at a time: what they look up stays in the cache."""
# Bits 27-31 of a power of two times this number differ for all 32 powers.
DE_BRUIJN = np.uint32(0x077CB531)
_POWERS = np.uint32(1) << np.arange(32, dtype=np.uint32)
_PLACES = (_POWERS * DE_BRUIJN) >> np.uint32(27)


@dataclass(frozen=True)
class Boosted:
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
    tree: Places
    feature: Places
    threshold: Floats
    first: Places
    count: Places

    def predict(self, rows: Floats) -> Floats:
        """The sum of every row's leaves.

        Args:
            rows: Rows × features.
        """
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

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "features": list(self.features),
            "leaves": [row.tolist() for row in self.leaves],
            "tree": self.tree.tolist(),
            "feature": self.feature.tolist(),
            "threshold": self.threshold.tolist(),
            "first": self.first.tolist(),
            "count": self.count.tolist(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Boosted:
        """Read what `to_dict` wrote.

        Raises:
            FormatError: A place is outside its array.
        """
        found = cls(
            tuple(fields["features"]),
            np.array(fields["leaves"], dtype=np.float64),
            np.array(fields["tree"], dtype=np.int64),
            np.array(fields["feature"], dtype=np.int64),
            np.array(fields["threshold"], dtype=np.float64),
            np.array(fields["first"], dtype=np.int64),
            np.array(fields["count"], dtype=np.int64),
        )
        found._check()
        return found

    def _check(self) -> None:
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


def _all_within(places: Places, size: int) -> bool:
    return bool(((places >= 0) & (places < size)).all())


def from_lightgbm(dump: Mapping[str, Any], features: tuple[str, ...]) -> Boosted:
    """Trees that LightGBM has grown.

    Args:
        dump: What `Booster.dump_model()` gives.
        features: Names of the features.
    """
    tests: list[tuple[int, int, float, int, int]] = []
    leaves = np.zeros((len(dump["tree_info"]), MOST_LEAVES))
    for tree, info in enumerate(dump["tree_info"]):
        values: list[float] = []
        _walk(info["tree_structure"], tree, values, tests)
        leaves[tree, : len(values)] = values
    tree_, feature, threshold, first, count = zip(*tests, strict=True)
    return Boosted(
        features,
        leaves,
        np.array(tree_),
        np.array(feature),
        np.array([float(f"{value:.6g}") for value in threshold]),
        np.array(first),
        np.array(count),
    )


def _walk(
    node: Mapping[str, Any],
    tree: int,
    values: list[float],
    tests: list[tuple[int, int, float, int, int]],
) -> None:
    """Leaves from left to right, and the test of every node between."""
    if "leaf_value" in node:
        values.append(round(float(node["leaf_value"]), 5))
        return
    first = len(values)
    _walk(node["left_child"], tree, values, tests)
    count = len(values) - first
    test = (tree, int(node["split_feature"]), float(node["threshold"]), first, count)
    tests.append(test)
    _walk(node["right_child"], tree, values, tests)
