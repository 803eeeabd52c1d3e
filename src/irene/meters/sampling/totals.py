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
    """Totals of every channel since the sampler began, by the monotonic clock.

    Integrals are J of energies, unit × s of gauges, over the seconds that are known.
    """

    time_ns: int
    integral: tuple[float, ...]
    known_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """What one channel gave between two snapshots, over the seconds that are known.

    The integral is J of an energy, unit × s of a gauge.
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
    def unknown_s(self) -> float:
        """Seconds for which it is not known: a counter that was set back, say."""
        return max(0.0, self.duration_s - self.known_s)

    @property
    def gapless(self) -> bool:
        """Whether no more of it is unknown than what a sensor has not yet told."""
        slack_s = 2 * self.channel.resolution_s + SLACK_S
        return self.known_s >= 0.999 * self.duration_s - slack_s

    @property
    def complete(self) -> bool:
        """Whether the whole window is known, to the last step of the sensor."""
        return self.known_s > 0 and self.gapless

    @property
    def energy_j(self) -> float:
        """Energy of the window, J; NaN where part of it is not known."""
        return self.integral if self.channel.is_energy and self.complete else math.nan

    @property
    def half_width_j(self) -> float:
        """Half the 90 % interval, J: the sensor's error, and what is not known.

        That is a step of the sensor at both ends, or all the time it gave nothing.
        """
        unknown_j = abs(self.mean) * max(self.channel.resolution_s, self.unknown_s)
        return abs(self.integral) * self.channel.relative_error + unknown_j


class ChannelTotal:
    """Adds the samples of one channel up, one after the other.

    Time is counted in whole nanoseconds, so that the sum does not depend on its order.
    How long a counter has stood still (`still_ns`) is not known until it moves. A
    period of 0 is unknown.
    """

    def __init__(self, channel: Channel, period_s: float) -> None:
        self.integral = 0.0
        self.known_ns = self.still_ns = 0
        self._value = math.nan
        self._longest_gap_ns = round(max(SHORTEST_GAP_S, GAP_PERIODS * period_s) * 1e9)
        self._is_counter = channel.quantity == "energy_j"
        # Standing still for longer, a counter has stopped; below 0 where it may: a
        # nested zone, or a model, may take nothing.
        self._frozen_ns = -1
        if self._is_counter and channel.counted and channel.source == "measured":
            frozen_s = max(FROZEN_S, FROZEN_STEPS * channel.resolution_s)
            self._frozen_ns = round(frozen_s * 1e9)

    def add(self, value: float, since_ns: int) -> None:
        """Take in a value, NaN for none, so long after the one before."""
        old, self._value = self._value, value
        if value != value or old != old:  # NaN on either side: not known
            self._settle()
        elif not self._is_counter:
            if since_ns <= self._longest_gap_ns:
                self.integral += 0.5 * (value + old) * (since_ns * 1e-9)
                self.known_ns += since_ns
        elif value == old and self._frozen_ns > 0:
            self.still_ns += since_ns  # not known until it moves
        elif self._settle() and value >= old:  # less is a reset: not known
            self.integral += value - old
            self.known_ns += since_ns

    def _settle(self) -> bool:
        """Believe the time a counter stood still, unless it is too long."""
        still_ns, self.still_ns = self.still_ns, 0
        if still_ns > self._frozen_ns > 0:
            return False
        self.known_ns += still_ns
        return True


class RunningTotals:
    """Adds samples up, channel by channel."""

    def __init__(self, channels: Sequence[Channel], period_s: float) -> None:
        self.channels = tuple(channels)
        self._totals = [ChannelTotal(channel, period_s) for channel in channels]
        self._time_ns = 0

    def add(self, time_ns: int, values: Sequence[float]) -> None:
        """Take in one sample: a value for each channel, NaN where there is none."""
        since_ns = time_ns - self._time_ns
        self._time_ns = time_ns
        for total, value in zip(self._totals, values, strict=True):
            total.add(value, since_ns)

    def snapshot(self) -> Snapshot:
        """The totals now."""
        return Snapshot(
            self._time_ns,
            tuple([total.integral for total in self._totals]),
            tuple([total.known_ns * 1e-9 for total in self._totals]),
        )

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
