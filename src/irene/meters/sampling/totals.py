"""Running totals: what a window used is the difference of two snapshots.

Counters, powers and gauges all become integrals over time that only grow, with the
seconds for which something was known beside each. A window of any length is then two
snapshots, whatever happens in between, and needs no memory of its samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from irene.meters.channel import Channel

__all__ = ["FROZEN_S", "RunningTotals", "Snapshot", "Window", "frozen_s"]

FROZEN_S = 2.0
"""A counted energy counter that stands still this long has stopped, s: an idle package
takes watts. For a meter that is slower than that, `FROZEN_STEPS` of its steps."""
FROZEN_STEPS = 3
GAP_PERIODS = 5.0
"""Power is not bridged over a silence longer than this many periods."""
SHORTEST_GAP_S = 1.0
SLACK_S = 0.002
"""How far a counter may lag behind the clock at the end of a window, s."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Totals of every channel since the sampler began.

    Attributes:
        time_ns: When the sample was taken, on the monotonic clock.
        integral: J of energies; unit × s of gauges.
        known_s: Seconds for which the channel is known.
    """

    time_ns: int
    integral: tuple[float, ...]
    known_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """What one channel gave between two snapshots.

    Attributes:
        channel: Which.
        duration_s: Length of the window.
        known_s: Seconds of it for which the channel is known.
        integral: J of an energy; unit × s of a gauge, over the known seconds.
    """

    channel: Channel
    duration_s: float
    known_s: float
    integral: float

    @property
    def mean(self) -> float:
        """Mean power (W) or mean value over the known seconds; NaN where none are."""
        return self.integral / self.known_s if self.known_s > 0 else math.nan

    @property
    def complete(self) -> bool:
        """Whether the whole window is known, to the last step of the sensor."""
        slack_s = 2 * self.channel.resolution_s + SLACK_S
        return 0 < self.known_s >= 0.999 * self.duration_s - slack_s

    @property
    def energy_j(self) -> float:
        """Energy of the window, J; NaN where part of it is not known."""
        return self.integral if self.channel.is_energy and self.complete else math.nan

    @property
    def half_width_j(self) -> float:
        """Half the 90 % interval, J: the sensor's error, and its steps at both ends."""
        edges_j = abs(self.mean) * self.channel.resolution_s
        return abs(self.integral) * self.channel.relative_error + edges_j


def frozen_s(channel: Channel) -> float:
    """How long a counter may stand still before it has stopped, s."""
    return max(FROZEN_S, FROZEN_STEPS * channel.resolution_s)


class RunningTotals:
    """Adds samples up, channel by channel."""

    def __init__(self, channels: Sequence[Channel], period_s: float) -> None:
        self.channels = tuple(channels)
        self.longest_gap_s = max(SHORTEST_GAP_S, GAP_PERIODS * period_s)
        count = len(self.channels)
        self._integral = [0.0] * count
        self._known_s = [0.0] * count
        self._values = [math.nan] * count
        self._still_s = [0.0] * count
        self._time_ns = 0
        self._counters = [c.quantity == "energy_j" for c in self.channels]
        self._judged = [
            c.quantity == "energy_j" and c.counted and c.source == "measured"
            for c in self.channels
        ]

    def add(self, time_ns: int, values: Sequence[float]) -> None:
        """Take in one sample: a value for each channel, NaN where there is none."""
        since_s = (time_ns - self._time_ns) * 1e-9
        self._time_ns = time_ns
        before, self._values = self._values, list(values)
        bridged = since_s <= self.longest_gap_s
        for index, value in enumerate(values):
            old = before[index]
            if value != value or old != old:  # NaN on either side: not known
                self._settle(index)
            elif self._counters[index]:
                self._count(index, value - old, since_s)
            elif bridged:
                self._integral[index] += 0.5 * (value + old) * since_s
                self._known_s[index] += since_s

    def _count(self, index: int, step_j: float, since_s: float) -> None:
        if step_j == 0 and self._judged[index]:
            self._still_s[index] += since_s
            return
        moved = self._settle(index)
        if moved and step_j >= 0:  # less is a reset: what was used is not known
            self._integral[index] += step_j
            self._known_s[index] += since_s

    def _settle(self, index: int) -> bool:
        """Believe the seconds a counter stood still, unless they are too many."""
        still_s, self._still_s[index] = self._still_s[index], 0.0
        if still_s > frozen_s(self.channels[index]):
            return False
        self._known_s[index] += still_s
        return True

    def snapshot(self) -> Snapshot:
        """The totals now."""
        return Snapshot(self._time_ns, tuple(self._integral), tuple(self._known_s))

    def between(self, begin: Snapshot, end: Snapshot) -> tuple[Window, ...]:
        """What every channel gave from one snapshot to a later one."""
        duration_s = (end.time_ns - begin.time_ns) * 1e-9
        return tuple(
            Window(
                channel,
                duration_s,
                end.known_s[i] - begin.known_s[i],
                end.integral[i] - begin.integral[i],
            )
            for i, channel in enumerate(self.channels)
        )
