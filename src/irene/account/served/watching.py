"""A server beside the meters of its machine, looked at again and again."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from irene.account.served.requests import Request, Requests, Sharing
from irene.account.served.server_counts import ServerCounts
from irene.account.served.token_energy import (
    Interval,
    TokenCosts,
    added_up,
    observed_costs,
)
from irene.energy import source_of_sum
from irene.errors import MeterError

if TYPE_CHECKING:
    from irene.account.served.server_counts import Server
    from irene.energy import Source
    from irene.measure.windows.exported import Sampling
    from irene.meters.channel import Channel

RECENT_S = 60.0
"""Time that is told as now, s: most servers count a request when it ends."""
KEPT = 600
"""Intervals that costs of tokens are learned from."""


class Watch:
    """What a server does and uses since it was first looked at.

    The sampler runs. A request may be told `wait_s` later than energy was used for it.

    Attributes:
        counts: What the server said last.
        total: Since the beginning; None before the second look.
        problems: What could not be read at the last look, in words.
        sharing: Whose energy it was, where single requests are told.
    """

    def __init__(
        self,
        server: Server,
        sampler: Sampling,
        requests: Requests | None = None,
        wait_s: float = 0.0,
    ) -> None:
        self._server, self._sampler, self._requests = server, sampler, requests
        self.sharing = Sharing(wait_s) if requests is not None else None
        self.problems: list[str] = []
        self.total: Interval | None = None
        self._intervals: deque[Interval] = deque(maxlen=KEPT)
        self.counts: ServerCounts = server.read()
        self._snapshot = sampler.sample_now()
        self._began_s = time.time()
        self._clock_s = self._began_s - 1e-9 * self._snapshot.time_ns

    def look(self) -> Interval | None:
        """What it did since it answered last; None if it does not answer now."""
        new = self._read_requests()
        try:
            counts = self._server.read()
        except MeterError as error:
            self.problems.append(str(error))
            return None
        begin, self._snapshot = self._snapshot, self._sampler.sample_now()
        begin_s, end_s = (1e-9 * each.time_ns for each in (begin, self._snapshot))
        seconds = end_s - begin_s
        windows = self._sampler.between(begin, self._snapshot)
        powers_w = [w.mean for w in windows if w.channel.in_total]
        energy_j = (math.fsum(powers_w) if powers_w else math.nan) * seconds
        if self.sharing is not None:
            counts = counts.filled(self.sharing.told)
        found = Interval.between(self.counts, counts, seconds, energy_j)
        self.counts = counts
        if self.sharing is not None and math.isnan(found.running):
            busy_s = math.fsum(each.seconds for each in new)
            found = replace(found, running=busy_s / seconds)
        if math.isfinite(energy_j):
            self._intervals.append(found)
            self.total = added_up([self.total, found]) if self.total else found
            if self.sharing is not None:
                clock_s = self._clock_s
                self.sharing.used(clock_s + begin_s, clock_s + end_s, energy_j)
        return found

    def _read_requests(self) -> list[Request]:
        """Those that ended since it was looked at last."""
        self.problems = []
        if self._requests is None or self.sharing is None:
            return []
        found = [r for r in self._requests.read() if r.end_s > self._began_s]
        self.problems += self._requests.problems()
        for each in found:
            self.sharing.tell(each)
        return found

    @property
    def covers(self) -> tuple[str, ...]:
        """What the energy covers, as `gpu-board` or `wall`."""
        return tuple(dict.fromkeys(c.covers for c in self._counted))

    @property
    def source(self) -> Source:
        """`estimated` where a part of the energy is."""
        return source_of_sum(each.source for each in self._counted)

    @property
    def _counted(self) -> list[Channel]:
        return [c for c in self._sampler.channels if c.in_total]

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
