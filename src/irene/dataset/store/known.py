"""Nodes that a store has measured already, so that a collector need not again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from irene.dataset.store.entry import Entry
from irene.dataset.store.reading import read_segments
from irene.dataset.store.segments import row_groups

if TYPE_CHECKING:
    from irene.dataset.store.store import Store

__all__ = ["KnownNode", "known_nodes"]

COLUMNS = ("entry", "parent", "node", "result", "energy_j", "low_j", "high_j")


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A distinct node that was measured.

    Attributes:
        key: Names the node, as `DistinctNode.key`.
        entry: Id of the entry it was measured in.
        energy_j: Its energy, J; None where unknown.
        low_j: Lower end of the 90 % interval, J.
        high_j: Upper end, J.
        result: `NodeResult.to_dict()` of it; None where it was not kept.
    """

    key: str
    entry: str
    energy_j: float | None
    low_j: float | None
    high_j: float | None
    result: Mapping[str, Any] | None


def known_nodes(store: Store, entries: Sequence[Entry]) -> dict[str, KnownNode]:
    """The distinct nodes of some entries, by key; one with a result counts first.

    Args:
        store: The store.
        entries: Where to look.
    """
    chosen = {entry.id: entry for entry in entries}
    found: dict[str, KnownNode] = {}
    for path, ids in read_segments(store, chosen):
        for group in row_groups(path, COLUMNS, ids):
            kept = group.filter(group.column("node").is_valid())
            for row in kept.to_pylist():
                if row["entry"] in ids:
                    _take(found, row)
    return found


def _take(found: dict[str, KnownNode], row: Mapping[str, Any]) -> None:
    key, text = row["node"], row["result"]
    there = found.get(key)
    # The choice is the same in whatever order segments are read.
    if there is not None and (there.result is None, there.entry) <= (
        text is None,
        row["entry"],
    ):
        return
    found[key] = KnownNode(
        key,
        row["entry"],
        row["energy_j"],
        row["low_j"],
        row["high_j"],
        json.loads(text) if text else None,
    )
