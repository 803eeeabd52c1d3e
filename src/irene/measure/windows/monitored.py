"""What a program used as a whole: energy, power and load, channel by channel."""

from __future__ import annotations

import math
import shlex
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from irene.arrays import Floats
from irene.energy import Energy
from irene.measure.readings import window_energy
from irene.meters.sampling.recording import Recording
from irene.meters.sampling.totals import Window

MOST_STEPS = 100_000
MANY_MISSED = 0.1
"""Part of the samples whose loss is worth saying."""
LONGEST_TITLE = 100


@dataclass(frozen=True)
class Monitored:
    """A program (or just a stretch of time) and all samples of it.

    Attributes:
        command: The program and its arguments; empty if the machine was watched.
        exit_code: Of the program, 128 + n for signal n; 0 without one.
        cpu_s: CPU time of the program and those it waited for, s; NaN without one.
        recording: All samples, as far as the disk had room for them.
        counts: Samples taken, begun late and missed, as far as known.
        added_up: What every channel gave, as the sampler added it up itself: it needs
            no file. Empty if the sampler died; the recording has to do then.
    """

    command: tuple[str, ...]
    exit_code: int
    begin_ns: int
    end_ns: int
    cpu_s: float
    recording: Recording
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    added_up: tuple[Window, ...] = ()

    @property
    def title(self) -> str:
        """What was monitored, in one line."""
        words = " ".join(shlex.join(self.command).split())
        if len(words) > LONGEST_TITLE:
            words = words[: LONGEST_TITLE - 1] + "…"
        return words or "this machine"

    @property
    def duration_s(self) -> float:
        """How long it took, s."""
        return (self.end_ns - self.begin_ns) * 1e-9

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The whole time, channel by channel."""
        if self.added_up:
            return self.added_up
        if not len(self.recording):
            nothing = (self.duration_s, 0.0, 0.0)
            return tuple(Window(c, *nothing) for c in self.recording.channels)
        return tuple(
            self.recording.window(column, self.begin_ns, self.end_ns)
            for column in range(len(self.recording.channels))
        )

    @property
    def energy(self) -> Energy | None:
        """What was used; None where part of it is not known."""
        return window_energy(self.windows)[0]

    @property
    def mean_power_w(self) -> float:
        """Mean power, W; NaN where it is not known."""
        energy = self.energy
        known = energy is not None and self.duration_s > 0
        return energy.joules / self.duration_s if energy and known else math.nan

    @property
    def peak_power_w(self) -> float:
        """The largest mean power of a step of time, W; NaN where none is known.

        What the readings make certain: no artefact of a counter's own steps.
        """
        return _largest(np.append(self.total_power_w, self.mean_power_w))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know, in words."""
        found = (*self.problems, *self.recording.notes, *self._missed())
        return tuple(dict.fromkeys((*window_energy(self.windows)[1], *found)))

    def _missed(self) -> Iterator[str]:
        missed = self.counts.get("missed", 0)
        wanted = missed + self.counts.get("samples", 0)
        if missed > MANY_MISSED * wanted:
            yield (
                f"{missed:,} of {wanted:,} samples were missed: the machine is busy, "
                "or the period too short; energy that is counted loses nothing by it"
            )

    @cached_property
    def peaks(self) -> tuple[float, ...]:
        """The largest mean of a step of time of every channel; NaN where not known.

        W for energies, else the channel's own unit.
        """
        columns = range(len(self.recording.channels))
        return tuple(_largest(self.steps(column)) for column in columns)

    # Over time ----------------------------------------------------------------

    @cached_property
    def edges_ns(self) -> Floats:
        """Even steps of time, none shorter than the period or a sensor's own step."""
        longest_s = max(
            (c.resolution_s for c in self.recording.channels if c.in_total),
            default=0.0,
        )
        step_s = max(longest_s, self.recording.period_s, 1e-3)
        steps = min(max(1, int(self.duration_s / step_s)), MOST_STEPS)
        return np.linspace(self.begin_ns, self.end_ns, steps + 1)

    @property
    def edges_s(self) -> Floats:
        """The same, in seconds since the beginning."""
        return (self.edges_ns - self.begin_ns) * 1e-9

    def steps(self, column: int) -> Floats:
        """Mean of a channel in each step: W for energies; NaN where not known."""
        edges = self.edges_ns
        if self.end_ns <= self.begin_ns or not len(self.recording):
            return np.full(len(edges) - 1, np.nan)
        integral, known_s = self._curves[column]
        times = self.recording.time_ns.astype(np.float64)
        given = np.diff(np.interp(edges, times, integral))
        seconds = np.diff(np.interp(edges, times, known_s))
        half = 0.5  # of a step must be known, or its mean says little
        with np.errstate(invalid="ignore", divide="ignore"):
            means = given / seconds
        return np.where(seconds >= half * np.diff(edges) * 1e-9, means, np.nan)

    @cached_property
    def _curves(self) -> tuple[tuple[Floats, Floats], ...]:
        """Integral and known seconds of every channel at every sample."""
        columns = range(len(self.recording.channels))
        return tuple(self._curve(column) for column in columns)

    def _curve(self, column: int) -> tuple[Floats, Floats]:
        integral, known_s = self.recording.totals(column)
        channel = self.recording.channels[column]
        if channel.quantity != "energy_j":
            return integral, known_s
        few = np.linspace(0, len(known_s) - 1, min(len(known_s), MOST_STEPS))
        at_s, where = np.unique(known_s[few.astype(int)], return_index=True)
        joules = integral[few.astype(int)[where]]
        refresh_s = channel.resolution_s
        if channel.counted and channel.source == "measured":
            refresh_s = max(refresh_s, stood_still_s(at_s, joules))
        calm = calmest(at_s, joules, refresh_s) if refresh_s else joules
        return np.interp(known_s, at_s, calm), known_s

    @cached_property
    def power_w(self) -> dict[str, Floats]:
        """Power of every channel that counts in each step, W; none of silent ones."""
        return {
            window.channel.name: np.maximum(self.steps(column), 0.0)
            for column, window in enumerate(self.windows)
            if window.channel.in_total and window.known_s > 0
        }

    @property
    def total_power_w(self) -> Floats:
        """Power of all that counts in each step, W; NaN where part is not known."""
        layers = list(self.power_w.values())
        if not layers:
            return np.full(len(self.edges_ns) - 1, np.nan)
        return np.asarray(np.sum(layers, axis=0), dtype=np.float64)


def _largest(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else math.nan


Point = tuple[float, float]
FAR = 10.0
"""How far beyond its ends a string is held, in lengths of the whole: so the ends are
free within the tube, and lean towards the mean."""


def calmest(seconds: Floats, joules: Floats, resolution_s: float) -> Floats:
    """Energy at every reading, without what the steps of the counter add, J.

    A sensor that counts every R seconds, read every P seconds, gives one step now and
    two then, though power is constant: at R = 99.5 ms and P = 100 ms the largest step
    is twice the truth. What is certain is a tube: energy at the time of a reading is at
    least the reading, and at most what is read R later. Of all curves through the tube
    the taut string, pulled tight between its ends, has the smallest largest slope: its
    peak is in the readings whatever the sensor's steps did, and a steady load is a
    straight line.
    """
    if len(seconds) < 3 or joules[-1] <= joules[0]:
        return joules
    upper = _at_most(seconds, joules, resolution_s)
    length_s, used_j = seconds[-1] - seconds[0], joules[-1] - joules[0]
    beyond_s, beyond_j = FAR * length_s, FAR * used_j
    middle = 0.5 * (joules + upper)
    first = (seconds[0] - beyond_s, middle[0] - beyond_j)
    last = (seconds[-1] + beyond_s, joules[-1] + beyond_j)
    tube = zip(seconds.tolist(), joules.tolist(), upper.tolist(), strict=True)
    bends = _taut(first, [*tube, (last[0], last[1], last[1])])
    times, levels = np.array(bends).T
    calm: Floats = np.interp(seconds, times, levels)
    return calm


def stood_still_s(seconds: Floats, joules: Floats) -> float:
    """The longest time between two steps that readings in between saw none of, s.

    A part that counts takes watts always: its sensor has nothing new more seldom than
    it is read.
    """
    moved = np.flatnonzero(np.diff(joules) > 0) + 1
    waits_s = np.diff(seconds[moved])[np.diff(moved) > 1]
    return float(waits_s.max(initial=0.0))


def _at_most(seconds: Floats, joules: Floats, resolution_s: float) -> Floats:
    """What energy cannot be above at each reading: what is read a step later, J."""
    later_s = seconds + resolution_s
    period_s = (seconds[-1] - seconds[0]) / (len(seconds) - 1)
    if resolution_s < 0.99 * period_s:  # between two readings power is as it is there
        upper = np.interp(later_s, seconds, joules)
    else:
        place = np.searchsorted(seconds, later_s - 1e-6 * period_s)
        upper = joules[np.minimum(place, len(joules) - 1)]
    # Nothing is read a step after the last readings.
    used_j = joules[-1] - joules[0]
    return np.where(later_s > seconds[-1], joules[-1] + used_j, upper)


def _taut(first: Point, tube: list[tuple[float, float, float]]) -> list[Point]:
    """Where a string bends that is pulled tight through a tube."""
    bends = [first]
    above, below = deque([first]), deque([first])
    for time, low, high in tube:
        _reach((time, high), above, below, bends, 1.0)
        _reach((time, low), below, above, bends, -1.0)
    return [*bends, (tube[-1][0], tube[-1][1])]


def _reach(
    point: Point,
    own: deque[Point],
    other: deque[Point],
    bends: list[Point],
    sign: float,
) -> None:
    """Take a point of one side in; where the other side is in the way, bend there."""
    while (
        len(own) > 1 and sign * (_slope(own[-2], own[-1]) - _slope(own[-1], point)) >= 0
    ):
        own.pop()
    own.append(point)
    while (
        len(own) == 2
        and len(other) > 1
        and sign * (_slope(other[0], other[1]) - _slope(own[0], point)) >= 0
    ):
        other.popleft()
        own[0] = other[0]
        bends.append(other[0])


def _slope(one: Point, other: Point) -> float:
    return (other[1] - one[1]) / max(other[0] - one[0], 1e-12)
