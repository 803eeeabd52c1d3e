"""A server beside the meters of its machine, looked at again and again."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from irene.account.served.engines import ServerCounts
from irene.account.served.intervals import (
    Interval,
    TokenCosts,
    added_up,
    observed_costs,
)
from irene.errors import MeterError

if TYPE_CHECKING:
    from irene.account.served.engines import Server
    from irene.measure.windows.exported import Sampling
    from irene.meters.sampling.totals import Snapshot

__all__ = ["Watch"]

RECENT_S = 60.0
"""Time that is told as now, s: most servers count a request when it ends."""
KEPT = 600
"""Intervals that costs of tokens are learned from."""


class Watch:
    """What a server does and uses, since it was first looked at.

    Args:
        server: Is asked for its counts.
        sampler: Samples the meters, and runs.

    Attributes:
        counts: What the server said last.
        total: Since the beginning; None before the second look.
        problem: Why the server did not answer last, "" if it did.
    """

    def __init__(self, server: Server, sampler: Sampling) -> None:
        self._server, self._sampler = server, sampler
        self.problem = ""
        self.total: Interval | None = None
        self._intervals: deque[Interval] = deque(maxlen=KEPT)
        self.counts: ServerCounts = server.read()
        self._snapshot = sampler.sample_now()

    def look(self) -> Interval | None:
        """What it did since it answered last; None if it does not answer now."""
        try:
            counts = self._server.read()
        except MeterError as error:
            self.problem = str(error)
            return None
        self.problem = ""
        begin, self._snapshot = self._snapshot, self._sampler.sample_now()
        seconds = (self._snapshot.time_ns - begin.time_ns) * 1e-9
        energy_j = self._power_w(begin, self._snapshot) * seconds
        found = Interval.between(self.counts, counts, seconds, energy_j)
        self.counts = counts
        if math.isfinite(energy_j):
            self._intervals.append(found)
            self.total = added_up([self.total, found]) if self.total else found
        return found

    def _power_w(self, begin: Snapshot, end: Snapshot) -> float:
        """Mean power of all that counts, W; NaN where one of them is not known."""
        windows = self._sampler.between(begin, end)
        powers = [w.mean for w in windows if w.channel.in_total]
        return math.fsum(powers) if powers else math.nan

    @property
    def covers(self) -> tuple[str, ...]:
        """What the energy covers, as `gpu-board` or `wall`."""
        channels = self._sampler.channels
        return tuple(dict.fromkeys(c.covers for c in channels if c.in_total))

    def recent(self) -> Interval | None:
        """The last minute, or as much of it as there is."""
        rows: list[Interval] = []
        for row in reversed(self._intervals):
            rows.append(row)
            if sum(each.seconds for each in rows) >= RECENT_S:
                break
        return added_up(rows) if rows else None

    def costs(self) -> TokenCosts | None:
        """What one more token costs, as far as the intervals tell."""
        return observed_costs(self._intervals)
