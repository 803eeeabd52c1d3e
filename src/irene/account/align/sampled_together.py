"""Doubts: what of a row's energy may be another's, as both were sampled together.

A bin is what the sensor saw at once: a stretch between two samples, or several where it
has something new less often. Of a bin in which a group of ops ran with nothing else,
all energy is the group's. Of any other, sharpening tells the parts, and by how much it
may miss: once too much, once too little, so that these add up as squares. Where it
cannot tell, all bins may miss alike, and their doubts add up as they are. Of ops that
ran at once, one may have had nothing, or all: how they share is agreed upon, not
measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irene.account.align.sharpening import Bins
from irene.arrays import Bools, Floats, Ints

OPEN = 0.4
"""How far a group of which a bin does not tell may miss, as a share of the worst. Of
400 simulated programs (`benchmarks/account_truth.py`, seeds from 20,000) 96 % of such
rows are inside; the exam draws others."""
WHOLE = 1 - 1e-6
"""Share of a bin's energy that is all of it, up to rounding."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What segments of one precedence were charged.

    Attributes:
        owner: Row of the event of every segment.
        places: First interval of every segment, and the one after its last.
        weights: Of every segment; None for equal shares.
        unit_j: Energy of one unit of weight before every interval, J.
        joules: What was charged in every interval, J.
        several: Intervals that more than one op shares.
    """

    owner: Ints
    places: tuple[Ints, Ints]
    weights: Ints | None
    unit_j: Floats
    joules: Floats
    several: Bools


@dataclass(frozen=True, slots=True)
class Doubts:
    """Bins of which it is not known who took how much, and who took part.

    Attributes:
        owner: Row of an event that took part.
        bin: In which bin.
        energy_j: What it was charged there, J.
        ops_j: What all ops were charged in every bin, J.
        total_j: What the bin holds, J.
        pause_j: What could have been used in a bin while no op ran, J.
        worst: Share of the worst that a group may miss by: 1 where ops ran at once,
            `OPEN` where nothing tells the parts, 0 where something does.
        doubt_j: How far the parts may miss in that last case, J.
    """

    owner: Ints
    bin: Ints
    energy_j: Floats
    ops_j: Floats
    total_j: Floats
    pause_j: Floats
    worst: Floats
    doubt_j: Floats

    def of_groups(self, codes: Ints, size: int) -> Floats:
        """How far the energy of each of `size` groups may miss, J; -1 is no group."""
        group = codes[self.owner]
        keep = group >= 0
        key = group[keep] * len(self.total_j) + self.bin[keep]
        pairs, place = np.unique(key, return_inverse=True)
        if not len(pairs):
            return np.zeros(size)
        energy_j = np.bincount(place, self.energy_j[keep])
        group, where = np.divmod(pairs, len(self.total_j))
        total_j, worst = self.total_j[where], self.worst[where]
        alone = energy_j >= self.ops_j[where] * WHOLE
        pause_j = np.where(alone, np.minimum(self.pause_j[where], total_j), np.inf)
        told_j = np.minimum(np.minimum(self.doubt_j[where], total_j), pause_j)
        untold_j = np.minimum(np.maximum(energy_j, total_j - energy_j), pause_j)
        squares = np.bincount(group, np.where(worst > 0, 0.0, told_j**2), size)
        return np.asarray(np.bincount(group, worst * untold_j, size) + squares**0.5)


NO_DOUBTS = Doubts(*(np.zeros(0, kind) for kind in (int, int, *(float,) * 6)))


def found_doubts(
    bins: Bins, edges: Ints, own_j: Floats, charges: Sequence[Charge]
) -> Doubts:
    """Who took part in which bin that is in doubt."""
    size = len(bins.is_mixed)
    if not size or not charges:
        return NO_DOUBTS
    bounds = np.searchsorted(edges, np.clip(bins.edges_ns, edges[0], edges[-1]))
    ops_j = np.sum([charge.joules for charge in charges], axis=0)
    several = np.sum([charge.several for charge in charges], axis=0)
    seconds = np.diff(edges) * 1e-9

    def by_bin(values: Floats) -> Floats:
        total = np.concatenate(([0.0], np.cumsum(values)))
        return np.asarray(np.diff(total[bounds]))

    shared = by_bin(several.astype(np.float64)) > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        most_w = float(np.max(np.where(seconds > 0, own_j / seconds, 0), initial=0.0))
    pause_s = by_bin(np.where(ops_j > 0, 0.0, seconds))
    found = [_pairs(charge, bounds, bins.is_mixed | shared) for charge in charges]
    owner, where, energy_j = (
        np.concatenate(columns) for columns in zip(*found, strict=True)
    )
    return Doubts(
        owner,
        where,
        energy_j,
        by_bin(ops_j),
        by_bin(own_j),
        most_w * pause_s,
        np.where(shared, 1.0, np.where(bins.is_open, OPEN, 0.0)),
        bins.doubt_j,
    )


def _pairs(charge: Charge, bounds: Ints, in_doubt: Bools) -> tuple[Ints, Ints, Floats]:
    """Event, bin and energy of every segment in every bin that is in doubt."""
    begin, end = charge.places
    last = len(in_doubt) - 1
    first_bin = np.clip(np.searchsorted(bounds, begin, "right") - 1, 0, last)
    last_bin = np.clip(np.searchsorted(bounds, end, "left") - 1, 0, last)
    doubtful = np.flatnonzero(in_doubt)
    before = np.concatenate(([0], np.cumsum(in_doubt)))
    number = np.maximum(before[last_bin + 1] - before[first_bin], 0)
    segment = np.repeat(np.arange(len(begin)), number)
    offset = np.arange(len(segment)) - np.repeat(np.cumsum(number) - number, number)
    where = doubtful[before[first_bin][segment] + offset]
    low = np.maximum(begin[segment], bounds[where])
    high = np.maximum(np.minimum(end[segment], bounds[where + 1]), low)
    energy_j = charge.unit_j[high] - charge.unit_j[low]
    if charge.weights is not None:
        energy_j = energy_j * charge.weights[segment]
    taken = energy_j > 0
    return charge.owner[segment][taken], where[taken], energy_j[taken]
