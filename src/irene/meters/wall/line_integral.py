"""LineIntegral: readings of power as they come in become joules that only grow.

`E = Σ v·i·Δt`, by rectangles: each reading holds until the next one comes, as in the
IrEne paper (Cao et al., ACL 2021). What was used while no reading came is not known,
and is not filled in.
"""

from __future__ import annotations

import statistics
from collections import deque

from irene.meters.channel import NO_VALUE

__all__ = ["LineIntegral"]

SILENT_SPACINGS = 3
SHORTEST_SILENCE_NS = 1_000_000_000
REMEMBERED = 32


class LineIntegral:
    """Adds up one meter's readings; one thread adds, another may look.

    Attributes:
        gaps: How often the meter was silent or gone.
        gap_s: How long it was, in all, s.
    """

    def __init__(self) -> None:
        self.gaps = 0
        self.gap_s = 0.0
        self._spacings_ns: deque[int] = deque(maxlen=REMEMBERED)
        self._spacing_ns = 0.0
        # Energy, power and time of the last reading, and whether the line is up. It
        # is always replaced as a whole, so that the other thread sees it whole.
        self._last: tuple[float, float, int, bool] | None = None

    @property
    def spacing_s(self) -> float:
        """How far apart readings usually are, s; 0 before there are two."""
        return self._spacing_ns * 1e-9

    @property
    def readings_spaced(self) -> int:
        """How many distances between readings are known, up to a few."""
        return len(self._spacings_ns)

    def _patience_ns(self) -> float:
        return max(SHORTEST_SILENCE_NS, SILENT_SPACINGS * self._spacing_ns)

    def add(self, power_w: float, time_ns: int) -> None:
        """Take in a reading, W, received at a time of the monotonic clock, ns."""
        last = self._last
        if last is None:
            self._last = (0.0, power_w, time_ns, True)
            return
        energy_j, before_w, before_ns, up = last
        since_ns = time_ns - before_ns
        if up and since_ns <= self._patience_ns_for(since_ns):
            energy_j += before_w * since_ns * 1e-9
            self._spacings_ns.append(since_ns)
            self._spacing_ns = statistics.median(self._spacings_ns)
        else:
            self.gaps += 1
            self.gap_s += since_ns * 1e-9
        self._last = (energy_j, power_w, time_ns, True)

    def _patience_ns_for(self, since_ns: int) -> float:
        # The first distance is all we know of a meter: a slow one is not a silent one.
        return self._patience_ns() if self._spacings_ns else since_ns

    def line_down(self) -> None:
        """The line is gone: what comes next does not follow what came last."""
        if self._last is not None:
            self._last = (*self._last[:3], False)

    def values(self, now_ns: int) -> tuple[float, float]:
        """Energy up to the last reading (J) and its power (W).

        Both are `NO_VALUE` before the first one and while the meter is silent.
        """
        last = self._last
        if last is None:
            return NO_VALUE, NO_VALUE
        energy_j, power_w, time_ns, up = last
        if not up or now_ns - time_ns > self._patience_ns():
            return NO_VALUE, NO_VALUE
        return energy_j, power_w
