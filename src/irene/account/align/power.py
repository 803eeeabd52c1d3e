"""PowerSeries: the power of one device over time, piece by piece.

Between two samples power is a straight line. From an energy counter it is flat: all
that is known is how much was used in between. From samples of power it is the line
between them (the trapezoid rule), or, for a meter that repeats its last value, flat.
Where nothing is known there is no power: a gap is not filled in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from irene.arrays import Floats, Ints
from irene.energy import Source
from irene.errors import FormatError, UsageError
from irene.meters.sampling.totals import GAP_PERIODS, SHORTEST_GAP_S

Between = Literal["linear", "step"]


@dataclass(frozen=True, slots=True)
class PowerSeries:
    """Power of one device, and what is to be known about its meter.

    Attributes:
        name: Name of the channel.
        time_ns: When the samples were taken, ns since 1970; strictly growing.
        begin_w: Power at the begin of each stretch between two samples, W; NaN unknown.
        end_w: Power at its end, W.
        device: Device as torch names it; "" for the whole machine.
        covers: What the energy covers: `cpu-package`, `gpu-board`, `wall`, ….
        source: `measured` or `estimated`.
        relative_error: Half the width of the 90 % interval as a share of the value.
        resolution_s: How often the sensor has something new, s; 0 unknown.
        idle_w: Power of the device while nothing runs, W; None unknown.
        share: Share of each stretch that is this program's own; None for all of it.
        without: Channels of the same machine that could not be read, by name.
    """

    name: str
    time_ns: Ints
    begin_w: Floats
    end_w: Floats
    device: str = ""
    covers: str = ""
    source: Source = "measured"
    relative_error: float = 0.0
    resolution_s: float = 0.0
    idle_w: float | None = None
    share: Floats | None = None
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checked_times(self.time_ns, self.name)
        stretches = len(self.time_ns) - 1
        columns = [self.begin_w, self.end_w]
        columns += [] if self.share is None else [self.share]
        if any(len(column) != stretches for column in columns):
            raise ValueError(f"{self.name}: not {stretches} stretches")
        if np.any(self.begin_w < 0) or np.any(self.end_w < 0):
            low_w = float(np.nanmin(np.minimum(self.begin_w, self.end_w)))
            raise FormatError(f"{self.name}: power below zero ({low_w:.6g} W)")
        if self.idle_w is not None and not 0 <= self.idle_w < np.inf:
            raise UsageError(f"idle power must be 0 W or more, got {self.idle_w}")

    @classmethod
    def from_counter(
        cls, name: str, time_ns: Ints, energy_j: Floats, **facts: object
    ) -> PowerSeries:
        """A counter that grows; where it falls back or is NaN, nothing is known."""
        times = checked_times(time_ns, name)
        steps_j = np.diff(np.asarray(energy_j, np.float64))
        watts = np.where(steps_j >= 0, steps_j, np.nan) / (np.diff(times) * 1e-9)
        return cls(name, times, watts, watts, **facts)  # type: ignore[arg-type]

    @classmethod
    def from_power(
        cls,
        name: str,
        time_ns: Ints,
        power_w: Floats,
        between: Between = "linear",
        longest_gap_s: float | None = None,
        **facts: object,
    ) -> PowerSeries:
        """Samples of power; a silence that is too long is a gap.

        Args:
            name: Name of the channel.
            time_ns: When it was read.
            power_w: What it said, W; NaN for nothing.
            between: `linear` from sample to sample, or `step`: a value holds until the
                next.
            longest_gap_s: Longer silences are gaps, s; None for five usual periods, and
                at least 1 s.
            **facts: Further attributes.
        """
        if between not in get_args(Between):
            raise UsageError(f"between samples is linear or step, got {between!r}")
        times = checked_times(time_ns, name)
        watts = np.asarray(power_w, np.float64)
        seconds = np.diff(times) * 1e-9
        if longest_gap_s is None:
            usual_s = float(np.median(seconds)) if len(seconds) else 0.0
            longest_gap_s = max(SHORTEST_GAP_S, GAP_PERIODS * usual_s)
        known = np.isfinite(watts[:-1]) & np.isfinite(watts[1:])
        known &= seconds <= longest_gap_s
        begin = np.where(known, watts[:-1], np.nan)
        end = np.where(known, watts[1:] if between == "linear" else watts[:-1], np.nan)
        return cls(name, times, begin, end, **facts)  # type: ignore[arg-type]

    def moved(self, offset_ns: int) -> PowerSeries:
        """The same series on a clock that is `offset_ns` ahead."""
        return replace(self, time_ns=self.time_ns + offset_ns)

    @property
    def span_ns(self) -> tuple[int, int]:
        """First and last sample."""
        if not len(self.time_ns):
            return (0, 0)
        return int(self.time_ns[0]), int(self.time_ns[-1])

    def window_j(self, begin_ns: int, end_ns: int) -> float:
        """All energy that is known in a window, J."""
        begin, end = (
            np.clip(edge, begin_ns, end_ns)
            for edge in (self.time_ns[:-1], self.time_ns[1:])
        )
        width = (end - begin).astype(np.float64)
        line = np.diff(self.time_ns).astype(np.float64)
        middle = (begin - self.time_ns[:-1]) + 0.5 * width
        watts = self.begin_w + (self.end_w - self.begin_w) * middle / line
        return float(np.nansum(watts * width)) * 1e-9

    def spacing_s(self, at_ns: Ints) -> Floats:
        """What the sensor resolves at given moments: its step or the sample spacing."""
        if len(self.time_ns) < 2:
            return np.full(len(at_ns), np.inf)
        last = len(self.time_ns) - 2
        place = np.searchsorted(self.time_ns, at_ns, side="right") - 1
        steps_s = np.diff(self.time_ns) * 1e-9
        found: Floats = steps_s[np.clip(place, 0, last)]
        return np.maximum(found, self.resolution_s)


def checked_times(time_ns: Ints, name: str) -> Ints:
    """Sample times, if they grow from each to the next."""
    times = np.asarray(time_ns, np.int64)
    steps = np.diff(times)
    if len(steps) and steps.min() <= 0:
        back, same = int((steps < 0).sum()), int((steps == 0).sum())
        where = int(np.argmax(steps <= 0)) + 1
        raise FormatError(
            f"{name}: samples must follow each other in time; {back} go back and "
            f"{same} repeat the time before, the first is sample {where} "
            f"({int(steps[where - 1]) * 1e-9:+.6f} s)"
        )
    return times
