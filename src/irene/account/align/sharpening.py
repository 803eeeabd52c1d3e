"""Sharpening: what ops tell about power between two samples.

A sample in which one op ends and the next begins holds energy of both. Spread evenly,
the cheap op would pay for the dear one, at every edge in the same direction. The events
say when what runs changes, so a stretch between two samples is cut there into pieces,
and each piece gets a power of its own:

- of the same run in the sample beside it, if that holds nothing else;
- else the mean over all samples that hold nothing but the same ops;
- else what is left of the sample's energy. With noise, what is left may be far off for
  a short piece: it counts less the more the noise of the rest could make of it.

The energy of a counter's sample stays what was measured. Between samples of power no
energy is measured; there the step at the edge takes the place of the straight line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from irene.account.align.nesting import Segments
from irene.account.align.power import PowerSeries
from irene.arrays import Bools, Floats, Ints

NOTHING, OUTSIDE = np.uint64(0), np.uint64(1)
"""States in which no op runs, and of which the events tell nothing."""


@dataclass(frozen=True, slots=True)
class Bins:
    """What a sensor saw at once: stretches between samples, or what it resolves.

    Attributes:
        edges_ns: Begins of the bins, and the end of the last.
        is_mixed: Whether what runs changes inside.
        is_open: Whether nothing tells the parts.
        doubt_j: How far the parts may miss where something tells them, J.
    """

    edges_ns: Ints
    is_mixed: Bools
    is_open: Bools
    doubt_j: Floats


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Parts of stretches in which the same ops run, in the order of time."""

    start_ns: Ints
    seconds: Floats
    stretch: Ints
    state: np.ndarray[tuple[int], np.dtype[np.uint64]]
    first: Ints
    count: Ints

    @property
    def last(self) -> Ints:
        """The last piece of every stretch."""
        return self.first + self.count - 1


def sharpen(
    power: PowerSeries, segments: Segments, kinds: Ints, window_ns: tuple[int, int]
) -> tuple[PowerSeries, Bins]:
    """Cut a series where what runs changes; what a counter measured is unchanged.

    A sensor with nothing new in every sample shows steps that are no powers: its series
    is left as it is.

    Args:
        power: The series.
        segments: Own time of the events that it charges, inside the window.
        kinds: Number of what each event does; the same number, the same power.
        window_ns: What the events tell about.
    """
    low, high = _overlap(power.time_ns, window_ns)
    times = power.time_ns[low : high + 1]
    if len(times) < 2:
        none = np.zeros(0, np.bool_)
        return power, Bins(times[:0], none, none, np.zeros(0))
    if power.resolution_s > float(np.median(np.diff(times))) * 1e-9:
        return power, _coarse(times, power.resolution_s)
    pieces = _pieces(times, segments, kinds, window_ns)
    part = replace(
        power,
        time_ns=times,
        begin_w=power.begin_w[low:high],
        end_w=power.end_w[low:high],
        share=None,
    )
    mixed = pieces.count > 1
    known = np.isfinite(part.begin_w) & np.isfinite(part.end_w)
    flat = np.array_equal(part.begin_w, part.end_w, equal_nan=True)
    watts, doubt_j = (_of_counter if flat else _of_samples)(part, pieces, known)
    split = mixed & known & (np.bincount(pieces.stretch, np.isnan(watts)) == 0)
    cut = _cut(power, low, high, pieces, watts, split)
    return cut, Bins(times, mixed, mixed & ~split & flat, doubt_j)


def _coarse(times: Ints, resolution_s: float) -> Bins:
    """Bins of a sensor that has something new less often than it is sampled.

    When in a sample it had that is not known, so what it says may be of the step
    before: a bin is two steps.
    """
    step = (times - times[0]) // int(2e9 * resolution_s)
    edges = np.append(times[:-1][np.diff(step[:-1], prepend=-1) > 0], times[-1])
    all_of_it = np.ones(len(edges) - 1, np.bool_)
    return Bins(edges, all_of_it, all_of_it, np.zeros(len(all_of_it)))


def _overlap(times: Ints, window_ns: tuple[int, int]) -> tuple[int, int]:
    """The last sample before a window and the first after it."""
    low = int(np.searchsorted(times, window_ns[0], "right")) - 1
    high = int(np.searchsorted(times, window_ns[1], "left"))
    return max(low, 0), min(high, len(times) - 1)


def _pieces(
    times: Ints, segments: Segments, kinds: Ints, window_ns: tuple[int, int]
) -> _Pieces:
    begin, end = np.clip(window_ns, times[0], times[-1])
    starts, stops = (
        np.clip(t, begin, end) for t in (segments.start_ns, segments.end_ns)
    )
    edges = np.unique(np.concatenate((times, starts, stops, [begin, end])))
    # A sum of one large random number for each op that runs names what runs at once.
    numbers = np.random.default_rng(0).integers(
        2, 2**64 - 1, int(kinds.max(initial=0)) + 1, dtype=np.uint64
    )
    changes = np.zeros(len(edges), np.uint64)
    own = numbers[kinds[segments.owner]]
    np.add.at(changes, np.searchsorted(edges, starts), own)
    np.subtract.at(changes, np.searchsorted(edges, stops), own)
    state = np.cumsum(changes, dtype=np.uint64)[:-1]
    state[(edges[:-1] < begin) | (edges[:-1] >= end)] = OUTSIDE
    stretch = np.searchsorted(times, edges[:-1], "right") - 1
    new = np.ones(len(state), np.bool_)
    new[1:] = (state[1:] != state[:-1]) | (stretch[1:] != stretch[:-1])
    start_ns, stretch, state = edges[:-1][new], stretch[new], state[new]
    seconds = np.diff(np.append(start_ns, times[-1])) * 1e-9
    count = np.bincount(stretch, minlength=len(times) - 1)
    first = np.cumsum(count) - count
    return _Pieces(start_ns, seconds, stretch, state, first, count)


def _of_counter(
    power: PowerSeries, pieces: _Pieces, known: Bools
) -> tuple[Floats, Floats]:
    """Power of every piece, W, and the doubt of every stretch, J."""
    mean_w = power.begin_w
    pure = (pieces.count == 1) & known
    states = pieces.state[pieces.first]
    usual_w, noise = _usual(states[pure], mean_w[pure], pieces, power.idle_w)
    watts = usual_w.copy()
    before, after = pieces.first[1:], pieces.last[:-1]
    same = pure[:-1] & (states[:-1] == pieces.state[before])
    watts[before] = np.where(same, mean_w[:-1], watts[before])
    same = pure[1:] & (states[1:] == pieces.state[after])
    watts[after] = np.where(same, mean_w[1:], watts[after])
    return _left_over(power, pieces, watts, noise)


def _left_over(
    power: PowerSeries, pieces: _Pieces, watts: Floats, noise: float
) -> tuple[Floats, Floats]:
    """The same with pieces of no power filled up, all to the energy of their sample."""
    size, stretch, lacking = len(power.begin_w), pieces.stretch, np.isnan(watts)
    mean_w = np.nan_to_num(power.begin_w)

    def by_stretch(values: Floats) -> Floats:
        return np.bincount(stretch, values, size).astype(np.float64)

    energy_j = mean_w * np.diff(power.time_ns) * 1e-9
    sure_j = by_stretch(np.where(lacking, 0.0, watts * pieces.seconds))
    left_s = by_stretch(np.where(lacking, pieces.seconds, 0.0))
    rest_w = _rest_w(energy_j - sure_j, left_s, mean_w, noise * sure_j)
    rest_w[(left_s > 0) & (sure_j == 0)] = np.nan
    watts = np.where(lacking, rest_w[stretch], watts)
    found_j = by_stretch(np.nan_to_num(watts * pieces.seconds))
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(found_j > 0, energy_j / found_j, np.nan)
    doubt_j = np.abs(energy_j - found_j) + noise * sure_j
    # Two pieces that share what is left may have it in any proportion.
    several = by_stretch(lacking.astype(np.float64)) > 1
    doubt_j += np.where(several, np.maximum(energy_j - sure_j, 0.0), 0.0)
    return watts * scale[stretch], doubt_j


def _rest_w(left_j: Floats, left_s: Floats, mean_w: Floats, noise_j: Floats) -> Floats:
    """Power of what has none yet, W: what is left, as far as noise leaves it one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        left_w = np.where(left_s > 0, left_j / left_s, 0.0)
        spread_w = np.where(left_s > 0, noise_j / left_s, 0.0)
        trust = np.where(mean_w > 0, mean_w**2 / (mean_w**2 + spread_w**2), 0.0)
    return np.maximum(mean_w + (left_w - mean_w) * trust, 0.0)


def _of_samples(
    power: PowerSeries, pieces: _Pieces, known: Bools
) -> tuple[Floats, Floats]:
    """Power of every piece, W, NaN where a line is as good; doubt of stretches, J."""
    at_begin, at_end = pieces.state[pieces.first], pieces.state[pieces.last]
    inside = np.zeros(len(at_begin), np.bool_)
    inside[1:] = known[1:] & (at_end[:-1] == at_begin[1:])
    usual_w, noise = _usual(
        at_begin[inside], power.begin_w[inside], pieces, power.idle_w
    )
    middle_s = (pieces.start_ns - power.time_ns[pieces.stretch]) * 1e-9
    middle_s += 0.5 * pieces.seconds
    length_s = np.diff(power.time_ns) * 1e-9
    slope = (power.end_w - power.begin_w) / length_s
    line_w = power.begin_w[pieces.stretch] + slope[pieces.stretch] * middle_s
    guessed = np.isnan(usual_w)
    watts = np.where(guessed, line_w, usual_w)
    watts[pieces.first] = power.begin_w
    watts[pieces.last] = power.end_w
    guessed[pieces.first] = guessed[pieces.last] = False
    step_w = np.abs(power.end_w - power.begin_w)
    pure_w = np.where((pieces.count == 1) & known, step_w, 0.0)
    beside = np.zeros(len(step_w))
    beside[1:] += np.where(at_end[:-1] == at_begin[1:], pure_w[:-1], 0.0)
    beside[:-1] += np.where(at_end[:-1] == at_begin[1:], pure_w[1:], 0.0)
    # Power that rises or falls as much beside the edge makes no step there.
    line = (pieces.count == 2) & (step_w <= beside)
    most_w = np.nanmax(np.maximum(power.begin_w, power.end_w), initial=0.0)
    guessed_s = np.bincount(pieces.stretch, guessed * pieces.seconds, len(step_w))
    doubt_j = np.minimum(beside, step_w) * length_s + most_w * guessed_s
    doubt_j += noise * np.nan_to_num(power.begin_w + power.end_w) / 2 * length_s
    return np.where(line[pieces.stretch], np.nan, watts), np.nan_to_num(doubt_j)


def _usual(
    states: np.ndarray[tuple[int], np.dtype[np.uint64]],
    watts: Floats,
    pieces: _Pieces,
    idle_w: float | None,
) -> tuple[Floats, float]:
    """Mean power of the state of every piece, W, and how far samples are from it."""
    usual = np.full(len(pieces.state), np.nan)
    noise = 0.0
    told = states != OUTSIDE
    if told.any():
        names, place = np.unique(states[told], return_inverse=True)
        number = np.bincount(place)
        mean_w = np.bincount(place, watts[told]) / number
        often = number[place] > 1
        if often.any():
            base_w = np.maximum(mean_w[place], np.finfo(float).tiny)
            off = ((watts[told] - mean_w[place]) / base_w)[often]
            noise = float(np.sqrt(np.mean(off**2)))
        found = np.minimum(np.searchsorted(names, pieces.state), len(names) - 1)
        usual = np.where(names[found] == pieces.state, mean_w[found], np.nan)
    if idle_w is not None:
        usual[np.isnan(usual) & (pieces.state == NOTHING)] = idle_w
    return usual, noise


def _cut(
    power: PowerSeries,
    low: int,
    high: int,
    pieces: _Pieces,
    watts: Floats,
    split: Bools,
) -> PowerSeries:
    """The series with some stretches replaced by their pieces."""
    if not split.any():
        return power
    piece = split[pieces.stretch]
    plain = np.ones(len(power.begin_w), np.bool_)
    plain[low:high] = ~split
    place = np.concatenate((np.flatnonzero(plain), pieces.stretch[piece] + low))
    start = np.concatenate((power.time_ns[:-1][plain], pieces.start_ns[piece]))
    order = np.argsort(start, kind="stable")
    place = place[order]
    return replace(
        power,
        time_ns=np.append(start[order], power.time_ns[-1]),
        begin_w=np.concatenate((power.begin_w[plain], watts[piece]))[order],
        end_w=np.concatenate((power.end_w[plain], watts[piece]))[order],
        share=None if power.share is None else power.share[place],
    )
