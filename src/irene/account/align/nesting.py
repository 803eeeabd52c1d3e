"""Nesting: which event is inside which, and the time that is an event's own.

In one lane, a thread or a stream, calls nest: `aten::linear` contains `aten::addmm`.
Time belongs to the innermost. Nested durations are never added up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irene.arrays import Bools, Ints

ROUNDING_NS = 2_000
"""Overlaps of neighbours up to this come from times in whole microseconds."""


@dataclass(frozen=True, slots=True)
class Nesting:
    """Who is inside whom.

    Attributes:
        parent: Row of the event around each event in its lane, -1 for none.
        end_ns: Ends; cut where an event reached beyond its parent or into the next.
        cut: Events that were cut.
        longest_cut_ns: The longest piece that was cut off.
    """

    parent: Ints
    end_ns: Ints
    cut: int = 0
    longest_cut_ns: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know, if more than rounding was cut."""
        if self.longest_cut_ns <= ROUNDING_NS:
            return ()
        return (
            f"{self.cut:,} events overlap the next one of their lane without "
            f"containing it (up to {self.longest_cut_ns / 1e3:,.0f} µs); the later one "
            "is charged for the overlap",
        )


@dataclass(frozen=True, slots=True)
class Segments:
    """Stretches of time, each of the event in a row; disjoint within a lane."""

    start_ns: Ints
    end_ns: Ints
    owner: Ints

    def __len__(self) -> int:
        return len(self.start_ns)

    def of(self, rows: Bools) -> Segments:
        """Segments of the events that are true in `rows`."""
        keep = rows[self.owner]
        return Segments(self.start_ns[keep], self.end_ns[keep], self.owner[keep])


def nest(lane: Ints, start_ns: Ints, end_ns: Ints) -> Nesting:
    """Find every event's parent."""
    count = len(start_ns)
    if not count:
        return Nesting(np.zeros(0, np.int64), end_ns)
    order = np.lexsort((-end_ns, start_ns, lane))
    lanes, starts, ends = lane[order], start_ns[order], end_ns[order].copy()
    above = _parents(lanes, starts, ends)
    beyond = (above >= 0) & (ends > ends[above])
    cut = longest = 0
    if beyond.any():
        # Some lanes overlap without nesting: walk through those one event at a time.
        walked = np.isin(lanes, np.unique(lanes[beyond]))
        rows = np.flatnonzero(walked)
        before = ends.copy()
        above[rows], ends[rows] = _walk(rows, lanes, starts, ends)
        cut = int((ends != before).sum())
        longest = int((before - ends).max())
    parent = np.full(count, -1, dtype=np.int64)
    parent[order] = np.where(above >= 0, order[above], -1)
    clean = np.empty_like(end_ns)
    clean[order] = ends
    return Nesting(parent, clean, cut, longest)


def _parents(lanes: Ints, starts: Ints, ends: Ints) -> Ints:
    """Parents of events sorted by lane, begin and falling end, if they nest.

    An event's depth is the number of events before it in its lane that have not ended.
    Its parent is then the last event before it that is one level higher.
    """
    long = ends > starts
    begun: Ints = np.cumsum(long) - long
    depth = np.zeros(len(lanes), dtype=np.int64)
    edges = np.flatnonzero(np.diff(lanes, prepend=lanes[0] - 1, append=lanes[-1] + 1))
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        here = slice(first, last)
        over = np.sort(ends[here][long[here]])
        ended = np.searchsorted(over, starts[here], side="right")
        depth[here] = begun[here] - begun[first] - ended
    parent = np.full(len(lanes), -1, dtype=np.int64)
    # Only an event with a length can be a parent; the others come after those.
    above = np.flatnonzero((depth == 0) & long)
    for level in range(1, int(depth.max()) + 1):
        rows = np.flatnonzero(depth == level)
        parent[rows] = above[np.searchsorted(above, rows) - 1]
        above = rows[long[rows]]
    return parent


def _walk(rows: Ints, lanes: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Parents and ends of events that do not nest properly.

    An event that begins inside another and ends after it follows it: the first one is
    cut where the second one begins.
    """
    lane, begin, end = (column[rows].tolist() for column in (lanes, starts, ends))
    parent = [-1] * len(rows)
    stack: list[int] = []
    for i in range(len(rows)):
        while stack and (
            lane[stack[-1]] != lane[i]
            or end[stack[-1]] <= begin[i]
            or end[stack[-1]] < end[i]
        ):
            last = stack.pop()
            if lane[last] == lane[i]:
                end[last] = min(end[last], begin[i])
        if stack:
            parent[i] = int(rows[stack[-1]])
        if end[i] > begin[i]:
            stack.append(i)
    return np.array(parent, np.int64), np.array(end, np.int64)


def own_segments(start_ns: Ints, end_ns: Ints, parent: Ints) -> Segments:
    """The time of every event that none of its children takes.

    Before each child there is a stretch of its parent, from the end of the child before
    or the parent's begin; after the last child the rest.
    """
    rows = np.arange(len(start_ns), dtype=np.int64)
    rest_from = start_ns.copy()
    inner = np.flatnonzero(parent >= 0)
    if not len(inner):
        keep = end_ns > start_ns
        return Segments(start_ns[keep], end_ns[keep], rows[keep])
    children = inner[np.lexsort((end_ns[inner], start_ns[inner], parent[inner]))]
    above = parent[children]
    first = np.diff(above, prepend=-1) != 0
    before_end = np.concatenate(([0], end_ns[children][:-1]))
    gap_from = np.where(first, start_ns[above], before_end)
    last = np.append(first[1:], True)
    rest_from[above[last]] = end_ns[children][last]
    start = np.concatenate((gap_from, rest_from))
    end = np.concatenate((start_ns[children], end_ns))
    owner = np.concatenate((above, rows))
    keep = end > start
    return Segments(start[keep], end[keep], owner[keep])
