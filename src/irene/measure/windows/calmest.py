"""The calmest curve that the steps of a counter allow.

A sensor that counts every R seconds, read every P seconds, gives one step now and two
then, though power is constant: at R = 99.5 ms and P = 100 ms the largest step is twice
the truth. What is certain is a tube: energy at the time of a reading is at least the
reading, and at most what is read R later. Of all curves through the tube the taut
string, pulled tight between its ends, has the smallest largest slope: its peak is in
the readings whatever the sensor's steps did, and a steady load is a straight line.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Point = tuple[float, float]
FAR = 10.0
"""How far beyond its ends a string is held, in lengths of the whole: so the ends are
free within the tube, and lean towards the mean."""


def calmest(seconds: Floats, joules: Floats, resolution_s: float) -> Floats:
    """Energy at every reading, without what the steps of the counter add, J.

    Args:
        seconds: Times of the readings, growing.
        joules: What was counted until each of them.
        resolution_s: How often the counter itself has something new.
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
    """Where a string bends that is pulled tight through a tube.

    Args:
        first: Where it begins.
        tube: Time, lower and upper end; where it ends, the two are the same.
    """
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
