"""Sharpening: where inside a sample the power changed.

A counter's sample in which one op ends and the next begins holds energy of both. Spread
evenly, the cheap op would pay for the dear one. If both go on for a whole sample beside
it, their powers are known from there, and the sample's energy is divided in proportion.
Its sum stays what was measured. Samples of instantaneous power are left alone: what is
between them is a straight line already.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irene.account.align.power import PowerSeries
from irene.account.arrays import Bools, Floats, Ints

__all__ = ["sharpen"]


def sharpen(
    power: PowerSeries,
    joules: Floats,
    width: Ints,
    place: Ints,
    places: Sequence[tuple[Ints, Ints]],
) -> None:
    """Divide samples with one change inside by the powers before and after, in place.

    Args:
        power: The series.
        joules: Energy of every elementary interval, J; changed.
        width: Their lengths, ns.
        place: The stretch between samples that each is in, -1 where power is unknown.
        places: First interval and the one after the last, of the segments of all ops.
    """
    stretch_ns = np.diff(power.time_ns)
    pieces = np.bincount(place[place >= 0], minlength=len(stretch_ns))
    if not np.any(pieces == 2):
        return
    first = np.flatnonzero(np.diff(place, prepend=-2) != 0)
    first = first[place[first] >= 0]
    head = np.full(len(stretch_ns), -1, dtype=np.int64)
    head[place[first]] = first
    changes = _changes(places, len(width))
    one = _is_whole(head, pieces, 1, width, stretch_ns)
    two = np.flatnonzero(_is_whole(head, pieces, 2, width, stretch_ns)[1:-1]) + 1
    begin = head[two]
    # The same must run on both sides of the samples at its begin and at its end.
    steady = one[two - 1] & one[two + 1] & ~changes[begin] & ~changes[begin + 2]
    steady &= power.begin_w[two] == power.end_w[two]
    # A sensor with nothing new in every sample shows steps that are no powers.
    steady &= power.resolution_s <= stretch_ns[two] * 1e-9
    two, begin = two[steady], begin[steady]
    before = power.end_w[two - 1] * width[begin]
    after = power.begin_w[two + 1] * width[begin + 1]
    total = before + after
    use = total > 0
    begin, share = begin[use], before[use] / total[use]
    both_j = joules[begin] + joules[begin + 1]
    joules[begin] = both_j * share
    joules[begin + 1] = both_j - joules[begin]


def _is_whole(
    head: Ints, pieces: Ints, count: int, width: Ints, stretch_ns: Ints
) -> Bools:
    """Stretches of so many pieces that lie wholly inside the window."""
    found: Bools = (pieces == count) & (head >= 0)
    rows = np.flatnonzero(found)
    length = width[head[rows]].copy()
    if count == 2:
        length += width[head[rows] + 1]
    found[rows] = length == stretch_ns[rows]
    return found


def _changes(places: Sequence[tuple[Ints, Ints]], intervals: int) -> Bools:
    """Whether an op begins or ends at the begin of each interval."""
    changes = np.zeros(intervals + 1, dtype=np.bool_)
    for begin, end in places:
        changes[begin] = True
        changes[end] = True
    return changes
