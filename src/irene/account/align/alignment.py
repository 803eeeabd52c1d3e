"""Alignment: exact energy of every event from one power series.

Breakpoints are all begins and ends of segments and all sample times. Between two
neighbours the same ops run and power is one straight line, so the energy of such an
elementary interval is exact. It is split among the ops that run in it; an op's energy
is the difference of a running sum between its end and its begin. An op is never charged
for a nanosecond in which it does not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irene.account.align.nesting import Segments
from irene.account.align.power import PowerSeries
from irene.account.align.sampled_together import NO_DOUBTS, Charge, Doubts, found_doubts
from irene.account.align.sharpening import Bins
from irene.account.ledger.rows import ChannelAccount
from irene.arrays import Bools, Floats, Ints

BLOCK = 4096
PAIRS_AT_ONCE = 2_000_000
"""Pairs of interval and op that are held at once when ops weigh differently."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """What one power series gave every event in a window: J, and s of unknown power."""

    energy_j: Floats
    unknown_s: Floats
    account: ChannelAccount
    doubts: Doubts


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Elementary intervals of a window."""

    edges: Ints
    seconds: Floats
    own_j: Floats
    other_j: Floats
    known: Bools


def align(
    power: PowerSeries,
    groups: Sequence[Segments],
    events: int,
    window_ns: tuple[int, int],
    weights: Ints | None = None,
    bins: Bins | None = None,
) -> Aligned:
    """Split the energy of a window among the events that ran in it.

    Args:
        power: The series.
        groups: Segments of events by precedence: where an op of the first group runs,
            the second is charged nothing, and so on.
        events: Number of events.
        window_ns: Begin and end of what is accounted for.
        weights: Of every event, at least 1; concurrent ops share in proportion. None
            for equal shares.
        bins: Stretches of the power as it was sampled; None for no doubts.
    """
    groups = [clipped(group, window_ns) for group in groups]
    edges = _edges(power, groups, window_ns)
    # First interval of every segment, and the one after its last.
    all_places = [
        (np.searchsorted(edges, each.start_ns), np.searchsorted(edges, each.end_ns))
        for each in groups
    ]
    cells = _intervals(power, edges)
    energy_j, unknown_s = np.zeros(events), np.zeros(events)
    free = np.ones(len(cells.seconds), dtype=np.bool_)
    charges: list[Charge] = []
    for group, places in zip(groups, all_places, strict=True):
        running = _running_count(places, len(free))
        charged = free & (running > 0)
        joules = np.where(charged, cells.own_j, 0.0)
        if weights is None:
            each_j = _running_sum(joules / np.maximum(running, 1))
            segment_j = _difference(each_j, places)
        else:
            segment_j = _weighted(joules, places, weights[group.owner])
        energy_j += np.bincount(group.owner, segment_j, events)
        if bins is not None:
            own = None if weights is None else weights[group.owner]
            charges.append(_charge(joules, running, group, places, own))
        if not cells.known.all():
            dark = np.where(cells.known, 0.0, cells.seconds)
            dark_s = _difference(_running_sum(dark), places)
            unknown_s += np.bincount(group.owner, dark_s, events)
        free &= running == 0
    # Differences of long sums may fall a hair below zero.
    np.maximum(energy_j, 0.0, out=energy_j)
    idle_j, above_j = _without_op(power, cells, free)
    account = ChannelAccount(
        *(power.name, power.device, power.covers, power.source, power.relative_error),
        measured_j=power.window_j(*window_ns),
        attributed_j=float(energy_j.sum()),
        idle_j=idle_j,
        other_j=float(cells.other_j.sum()),
        unattributed_j=above_j,
        no_op_s=float(cells.seconds[free & cells.known].sum()),
        unknown_s=float(cells.seconds[~cells.known].sum()),
    )
    doubts = NO_DOUBTS
    if bins is not None:
        doubts = found_doubts(bins, edges, cells.own_j, charges)
    return Aligned(energy_j, unknown_s, account, doubts)


def clipped(group: Segments, window_ns: tuple[int, int]) -> Segments:
    """What of some segments is inside a window."""
    begin, end = window_ns
    if len(group) and (group.start_ns.min() < begin or group.end_ns.max() > end):
        start, stop = (np.clip(t, begin, end) for t in (group.start_ns, group.end_ns))
        keep = stop > start
        return Segments(start[keep], stop[keep], group.owner[keep])
    return group


def _edges(
    power: PowerSeries, groups: Sequence[Segments], window_ns: tuple[int, int]
) -> Ints:
    """All breakpoints of a window, each once, in order."""
    first, last = np.searchsorted(power.time_ns, window_ns)
    parts = [np.array(window_ns, np.int64), power.time_ns[first:last]]
    for group in groups:
        parts += [group.start_ns, group.end_ns]
    edges = np.concatenate(parts)
    edges.sort(kind="stable")  # which is quick for columns that are sorted already
    edges = edges[np.concatenate(([True], edges[1:] > edges[:-1]))]
    return np.append(edges, edges) if len(edges) == 1 else edges


def _intervals(power: PowerSeries, edges: Ints) -> _Intervals:
    times = power.time_ns
    width = np.diff(edges)
    seconds = width * 1e-9
    if len(times) < 2:
        nothing = np.zeros(len(seconds))
        return _Intervals(edges, seconds, nothing, nothing, nothing > 0)
    place = _stretch_of(times, edges)
    inside = (place >= 0) & (place < len(times) - 1)
    np.clip(place, 0, len(times) - 2, out=place)
    watts = _middle_w(power, edges, width, place)
    known = inside & np.isfinite(watts)
    joules = np.where(known, watts, 0.0) * seconds
    if power.share is None:
        return _Intervals(edges, seconds, joules, np.zeros(1), known)
    own_j = joules * power.share[place]
    return _Intervals(edges, seconds, own_j, joules - own_j, known)


def _stretch_of(times: Ints, edges: Ints) -> Ints:
    """Which stretch between samples each interval is in; edges hold all samples."""
    first, last = np.searchsorted(times, (edges[0], edges[-1]))
    passed = np.zeros(len(edges), dtype=np.int64)
    passed[np.searchsorted(edges, times[first:last])] = 1
    place: Ints = np.cumsum(passed)[:-1]
    place += int(first) - 1
    return place


def _middle_w(power: PowerSeries, edges: Ints, width: Ints, place: Ints) -> Floats:
    """Power in the middle of every interval: its mean, as power is a straight line."""
    begin_w = power.begin_w[place]
    slope = (power.end_w - power.begin_w) / np.diff(power.time_ns)
    if not np.any(slope > 0) and not np.any(slope < 0):
        return begin_w
    since_ns = (edges[:-1] - power.time_ns[place]) + 0.5 * width
    watts: Floats = begin_w + slope[place] * since_ns
    return watts


def _running_count(places: tuple[Ints, Ints], intervals: int) -> Ints:
    """How many segments cover each interval."""
    begin, end = (np.bincount(place, minlength=intervals + 1) for place in places)
    begin -= end
    count: Ints = np.cumsum(begin)[:intervals]
    return count


def _running_sum(values: Floats) -> Floats:
    """Sum of all values before each place; in blocks, to lose less to rounding."""
    blocks = -(-len(values) // BLOCK)
    padded = np.zeros(blocks * BLOCK)
    padded[: len(values)] = values
    table = padded.reshape(blocks, BLOCK)
    np.cumsum(table, axis=1, out=table)
    if blocks > 1:
        table[1:] += np.cumsum(table[:-1, -1])[:, np.newaxis]
    return np.concatenate(([0.0], padded[: len(values)]))


def _difference(total: Floats, places: tuple[Ints, Ints]) -> Floats:
    difference: Floats = total[places[1]] - total[places[0]]
    return difference


def _charge(
    joules: Floats,
    running: Ints,
    group: Segments,
    places: tuple[Ints, Ints],
    weights: Ints | None,
) -> Charge:
    """What the segments of a group were charged, as running sums."""
    if weights is None:
        total = np.maximum(running, 1).astype(np.float64)
    else:
        begin, end = (np.bincount(p, weights, len(joules) + 1) for p in places)
        total = np.maximum(np.cumsum(begin - end)[: len(joules)], 1.0)
    several = (running > 1) & (joules > 0)
    return Charge(
        group.owner, places, weights, _running_sum(joules / total), joules, several
    )


def _weighted(joules: Floats, places: tuple[Ints, Ints], weights: Ints) -> Floats:
    """Energy of every segment when those that run share by weight.

    Weights may differ by many orders, so differences of one running sum would lose the
    light ones: here each pair of interval and segment is added up.
    """
    begin, end = places
    lengths = end - begin
    at_begin = np.bincount(begin, weights, len(joules) + 1)
    at_end = np.bincount(end, weights, len(joules) + 1)
    # Whole numbers: the sum comes back to exactly zero when all have ended.
    sums = np.cumsum(at_begin - at_end)[: len(joules)]
    per_weight = np.where(sums > 0, joules / np.maximum(sums, 1.0), 0.0)
    pairs_before = np.concatenate(([0], np.cumsum(lengths)))
    found = np.zeros(len(begin))
    first = 0
    while first < len(begin):
        enough = pairs_before[first] + PAIRS_AT_ONCE
        last = max(int(np.searchsorted(pairs_before, enough, "right")) - 1, first + 1)
        some = slice(first, last)
        offsets = pairs_before[some] - pairs_before[first]
        total = int(pairs_before[last] - pairs_before[first])
        shift = np.repeat(begin[some] - offsets, lengths[some])
        values = per_weight[np.arange(total) + shift]
        found[some] = np.add.reduceat(values, offsets) * weights[some]
        first = last
    return found


def _without_op(
    power: PowerSeries, cells: _Intervals, free: Bools
) -> tuple[float, float]:
    """Energy while nothing ran: up to the idle power, and above it."""
    joules = cells.own_j[free]
    total_j = float(joules.sum())
    if power.idle_w is None:
        return 0.0, total_j
    idle_j = power.idle_w * cells.seconds[free]
    if power.share is not None:
        place = np.searchsorted(power.time_ns, cells.edges[:-1][free], "right") - 1
        idle_j *= power.share[np.clip(place, 0, len(power.share) - 1)]
    idle = float(np.minimum(joules, idle_j).sum())
    return idle, total_j - idle
