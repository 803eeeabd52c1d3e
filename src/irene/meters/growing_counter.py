"""GrowingCounter: a counter of a device that may start again, made one that only grows.

Drivers count energy from the time they were loaded. A reload or a reset of the device
sets the count back; what was used in between is not known.
"""

from __future__ import annotations

from irene.meters.channel import NO_VALUE

__all__ = ["GrowingCounter"]


class GrowingCounter:
    """Turns raw counts into joules that never go down.

    Attributes:
        resets: How often the raw count went back.
    """

    def __init__(self, joules_per_count: float) -> None:
        self.resets = 0
        self._joules_per_count = joules_per_count
        self._last = 0.0
        self._lost = 0.0

    def joules(self, count: float) -> float:
        """Energy for a raw count, J; `NO_VALUE` once when the count went back.

        The next value continues where the last one stood, so that a reset adds nothing.
        """
        went_back = count < self._last
        if went_back:
            self.resets += 1
            self._lost += self._last - count
        self._last = count
        return NO_VALUE if went_back else (count + self._lost) * self._joules_per_count
