"""Work that an op hands to a pool of threads.

The profiler writes three kinds of marks without a length: `Record` where a thread hands
work out, `StartRegion` and `StopRegion` where another does it; a number links them. So
the work of every pool thread belongs to the op that was running where it was recorded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Handed", "Region", "Running", "owners"]

MOST_NESTED = 64
"""How far back an op that still runs is looked for."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A moment at which a thread hands work out.

    Attributes:
        lane: The thread.
        time_ns: When.
    """

    lane: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class Region:
    """Work that a thread of a pool did.

    Attributes:
        lane: The thread.
        start_ns: Begin.
        end_ns: End.
        number: Links it to where it was handed out.
    """

    lane: str
    start_ns: int
    end_ns: int
    number: int


class Running:
    """What runs on a thread at a moment; made in the order of the begins."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._rows: list[tuple[int, int]] = []

    def add(self, start_ns: int, end_ns: int, row: int) -> None:
        """Append something that begins no earlier than those before."""
        self._starts.append(start_ns)
        self._rows.append((end_ns, row))

    def at(self, time_ns: int) -> tuple[int, int] | None:
        """Begin and row of the innermost at a moment, None if nothing runs."""
        last = bisect_right(self._starts, time_ns) - 1
        for index in range(last, max(-1, last - MOST_NESTED), -1):
            end_ns, row = self._rows[index]
            if end_ns >= time_ns:
                return self._starts[index], row
        return None


def owners(
    ops: Iterable[tuple[str, int, int, int]],
    handed: dict[int, Handed],
    regions: Iterable[Region],
) -> Iterator[tuple[Region, int]]:
    """The regions that belong to an op, each with the op's row.

    Args:
        ops: Lane, begin, end and row of all ops.
        handed: Where work was handed out, by number.
        regions: Where it was done; the work of a region may be handed on.
    """
    lanes: dict[str, Running] = {}
    for lane, start_ns, end_ns, row in sorted(ops, key=lambda op: op[1:3]):
        lanes.setdefault(lane, Running()).add(start_ns, end_ns, row)
    pools: dict[str, Running] = {}
    for region in sorted(regions, key=lambda region: region.start_ns):
        source = handed.get(region.number)
        if source is None or region.number < 0:
            continue  # a damaged trace: it is not said whose work this is
        found = [
            running.at(source.time_ns)
            for running in (lanes.get(source.lane), pools.get(source.lane))
            if running is not None
        ]
        innermost = max((place for place in found if place), default=None)
        if innermost is not None:
            row = innermost[1]
            pool = pools.setdefault(region.lane, Running())
            pool.add(region.start_ns, region.end_ns, row)
            yield region, row
