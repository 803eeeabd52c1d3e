"""Several measurements of one run as one: the median of every node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from irene.dataset.store.entry import Entry
from irene.dataset.store.reading import table_of_entries
from irene.dataset.table import NodeTable

if TYPE_CHECKING:
    from irene.dataset.store.store import Store

__all__ = ["median_table"]

Floats = npt.NDArray[np.float64]


def median_table(
    store: Store, groups: Sequence[Sequence[Entry]], name: str
) -> NodeTable:
    """Trees of entries as one table; of several measurements, the median of each node.

    Args:
        store: The store.
        groups: Measurements of one run each, every one of another model or size.
        name: What the table is called.
    """
    first = table_of_entries(store, [group[0] for group in groups], name)
    turns = [first.energy_j]
    features = {feature: [values] for feature, values in first.features.items()}
    for turn in range(1, max(map(len, groups))):
        others = [group[turn] for group in groups if len(group) > turn]
        other = table_of_entries(store, others, name)
        rows, places = _same_rows(first, other)
        turns.append(_laid_out(other.energy_j, rows, places, len(first)))
        for feature, values in features.items():
            values.append(_laid_out(other.features[feature], rows, places, len(first)))
    if len(turns) == 1:
        return first
    return replace(
        first,
        energy_j=_median(turns),
        features={feature: _median(values) for feature, values in features.items()},
    )


def _same_rows(
    first: NodeTable, other: NodeTable
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows of another table, and where the same nodes are in the first."""
    starts = dict(first.trees())
    rows, places = [], []
    for key, there in other.trees():
        here = starts[key]
        if first.path[here] != other.path[there]:
            continue  # built otherwise by another software, which was allowed
        rows.append(np.arange(there.start, there.stop))
        places.append(np.arange(here.start, here.stop))
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(rows), np.concatenate(places)


def _laid_out(
    values: Floats,
    rows: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    length: int,
) -> Floats:
    result = np.full(length, np.nan)
    result[places] = values[rows]
    return result


def _median(several: Sequence[Floats]) -> Floats:
    """Median of what is known; NaN where nothing is."""
    stacked = np.sort(np.stack(several), axis=0)  # what is not known comes last
    known = np.isfinite(stacked).sum(axis=0)
    columns = np.arange(stacked.shape[1])
    low = stacked[np.maximum(known - 1, 0) // 2, columns]
    high = stacked[np.minimum(known // 2, len(several) - 1), columns]
    median: Floats = np.where(known > 0, (low + high) / 2, np.nan)
    return median
