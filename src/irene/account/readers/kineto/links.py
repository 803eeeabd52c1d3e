"""Links: which op launched a kernel, and which forward op a backward op belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irene.account.align.nesting import nest
from irene.account.arrays import Bools, Ints
from irene.account.readers.kineto.columns import KERNEL, OP, RUNTIME, Columns

__all__ = ["KernelLinks", "forward_of", "link_kernels", "nearest"]


ROUNDING_NS = 1_000
"""Old traces are in whole microseconds: a launch may seem to begin as its op ends."""


@dataclass(frozen=True, slots=True)
class KernelLinks:
    """The host event behind every event of an accelerator.

    Attributes:
        rows: Rows of kernels, copies and fills.
        host: Row of the op (or of an annotation, if no op is around the launch) that
            launched each; -1 for none.
        by_external_id: How many were linked by `External id`.
        by_correlation: How many through the runtime call of the same `correlation`.
        to_annotation: How many of these have an annotation around them but no op.
    """

    rows: Ints
    host: Ints
    by_external_id: int
    by_correlation: int
    to_annotation: int


def nearest(flag: Bools, parent: Ints) -> Ints:
    """Every row itself or the nearest above it that is flagged, -1 for none."""
    found = np.arange(len(flag), dtype=np.int64)
    seeking = np.flatnonzero(~flag)
    while len(seeking):
        found[seeking] = parent[found[seeking]]
        seeking = seeking[found[seeking] >= 0]
        seeking = seeking[~flag[found[seeking]]]
    return found


def link_kernels(
    columns: Columns, start_ns: Ints, end_ns: Ints, host: Ints
) -> KernelLinks:
    """Link every kernel, copy and fill to what launched it.

    Since 2024 `External id` names the op. Before, it repeated `correlation`, which
    names a runtime call; the op is then the innermost one around that call on its
    thread.

    Args:
        columns: The trace.
        start_ns: Begins of all rows.
        end_ns: Ends of all rows.
        host: Rows of ops and annotations.
    """
    rows = np.flatnonzero(columns.kind >= KERNEL)
    found = np.full(len(rows), -1, dtype=np.int64)
    external, correlation = columns.external[rows], columns.correlation[rows]
    is_own = (external >= 0) & (external != correlation)
    found[is_own] = _rows_with(columns.external, host, external[is_own])
    by_id = int((found >= 0).sum())
    left = np.flatnonzero(found < 0)
    calls = np.flatnonzero(columns.kind == RUNTIME)
    call = _rows_with(columns.correlation, calls, correlation[left])
    around = _around(columns, start_ns, end_ns, host, calls)
    found[left] = np.where(call >= 0, around[call], -1)
    # A call that is not in the trace: an identifier of its own is better than nothing.
    lost = np.flatnonzero(
        (found < 0) & ~np.isin(correlation, columns.correlation[calls])
    )
    found[lost] = _rows_with(columns.external, host, external[lost])
    linked = found >= 0
    return KernelLinks(
        rows,
        found,
        by_id,
        int(linked.sum()) - by_id,
        int((columns.kind[found[linked]] != OP).sum()),
    )


def _rows_with(column: Ints, rows: Ints, wanted: Ints) -> Ints:
    """For each wanted value the last of some rows that has it, -1 for none."""
    if not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = rows[np.argsort(column[rows], kind="stable")]
    values = column[order]
    place = np.searchsorted(values, wanted, side="right") - 1
    row = order[np.maximum(place, 0)]
    return np.where((place >= 0) & (column[row] == wanted) & (wanted >= 0), row, -1)


def _around(
    columns: Columns, start_ns: Ints, end_ns: Ints, host: Ints, calls: Ints
) -> Ints:
    """Innermost op around each runtime call, else annotation; by row, -1 for none."""
    around = np.full(len(columns), -1, dtype=np.int64)
    for slip_ns in (0, ROUNDING_NS):
        open_calls = calls[(around[calls] < 0) | (columns.kind[around[calls]] != OP)]
        if not len(open_calls) or not len(host):
            break
        moment = start_ns[open_calls] - slip_ns
        rows = np.concatenate((host, open_calls))
        begin = np.concatenate((start_ns[host], moment))
        end = np.concatenate((end_ns[host], moment))
        parent = nest(columns.lane[rows], begin, end).parent
        is_op = columns.kind[rows] == OP
        inner = nearest(is_op, parent)[len(host) :]
        best = np.where(inner >= 0, inner, parent[len(host) :])
        row = np.where(best >= 0, rows[best], -1)
        better = (row >= 0) & (
            (around[open_calls] < 0) | (columns.kind[np.maximum(row, 0)] == OP)
        )
        around[open_calls[better]] = row[better]
    return around


def forward_of(
    sequence: Ints, start_ns: Ints, is_forward: Bools, is_backward: Bools
) -> Ints:
    """The forward op of every backward op, -1 for none.

    Ops that need no gradient repeat the number of the next one that does, so the last
    forward op with a number owns it.

    Args:
        sequence: `Sequence number` of every event, -1 for none.
        start_ns: When each began.
        is_forward: Which may own a number.
        is_backward: Which look for their owner.
    """
    found = np.full(len(sequence), -1, dtype=np.int64)
    owners = np.flatnonzero(is_forward & (sequence >= 0))
    seekers = np.flatnonzero(is_backward & (sequence >= 0))
    if not len(owners) or not len(seekers):
        return found
    # Sort both together by number and time: the owner is the last one before.
    rows = np.concatenate((owners, seekers))
    seeks = np.arange(len(rows)) >= len(owners)
    order = np.lexsort((seeks, start_ns[rows], sequence[rows]))
    place = np.where(seeks[order], -1, np.arange(len(order)))
    last = np.maximum.accumulate(place)
    owner = np.where(last >= 0, rows[order[np.maximum(last, 0)]], -1)
    same = (owner >= 0) & (sequence[owner] == sequence[rows[order]])
    pick = seeks[order] & same
    found[rows[order[pick]]] = owner[pick]
    return found
