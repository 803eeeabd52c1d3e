"""Energy counters: from numbers that wrap, stall and vanish to joules that only grow.

RAPL through powercap and through perf is the same kind of thing: an integer that counts
energy. Drivers of GPUs count from the time they were loaded, and never wrap: a reload
or a reset sets the count back, and what was used in between is not known.
"""

from __future__ import annotations

from collections.abc import Callable

from irene.meters.channel import NO_VALUE

Clock = Callable[[], int]
SLACK_NS = 100_000_000
"""How far a counter may lag behind the clock, ns. RAPL writes about once in a
millisecond; the rest is for sensors that are slower."""


class EnergyCounter:
    """Joules since opening, of one counter.

    A difference below zero is a wrap. More than one wrap between two readings cannot be
    seen, and a counter that was reset (suspend, a reloaded driver) looks as if it had
    wrapped. So a stretch counts only if it is short enough for one wrap at the most,
    and if its power is possible; otherwise there is no value once, and counting goes on
    from the new reading with the joules it had. Nothing is ever guessed.

    Attributes:
        longest_ns: Longest silence after which a reading still means something, ns.
    """

    def __init__(
        self,
        first: int,
        asked_ns: int,
        *,
        joules_per_step: float,
        modulus: int | None,
        most_w: float,
        unknown_range_j: float = 0.0,
    ) -> None:
        """Begin at a reading, with the clock just before it, ns.

        Power above `most_w` is not believed. At `modulus` steps the counter is at zero
        again; if that is not known (None), it may be so after `unknown_range_j`.
        """
        self._last = first
        self._asked_ns = asked_ns
        self._steps = 0
        self._joules_per_step = joules_per_step
        self._modulus = modulus
        self._steps_per_ns = most_w * 1e-9 / joules_per_step
        range_j = unknown_range_j if modulus is None else modulus * joules_per_step
        self.longest_ns = max(0, int(range_j / most_w * 1e9) - SLACK_NS)

    def advance(self, reading: int, asked_ns: int, answered_ns: int) -> float:
        """Take in a reading, with the clock just before and just after it, ns.

        Returns:
            Joules since opening, or `NO_VALUE` where the last stretch is not known.
        """
        modulus = self._modulus
        if modulus is not None and reading >= modulus:
            return NO_VALUE
        steps = reading - self._last
        # The longest time that can lie between the two readings.
        elapsed_ns = answered_ns - self._asked_ns
        self._last = reading
        self._asked_ns = asked_ns
        if steps < 0 and modulus is not None:
            steps += modulus
        most = (elapsed_ns + SLACK_NS) * self._steps_per_ns
        if not 0 <= steps <= most or elapsed_ns > self.longest_ns:
            return NO_VALUE
        self._steps += steps
        return self._steps * self._joules_per_step


class GrowingCounter:
    """Turns raw counts of a device that may start again into joules that only grow."""

    def __init__(self, joules_per_count: float) -> None:
        self._joules_per_count = joules_per_count
        self._last = 0.0
        self._lost = 0.0

    def joules(self, count: float) -> float:
        """Energy for a raw count, J; `NO_VALUE` once when the count went back.

        The next value continues where the last one stood, so that a reset adds nothing.
        """
        went_back = count < self._last
        if went_back:
            self._lost += self._last - count
        self._last = count
        return NO_VALUE if went_back else (count + self._lost) * self._joules_per_count
