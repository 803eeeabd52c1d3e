"""From the clock of a power log to ours.

An external meter's clock is off, and runs a little fast or slow. Two moments known on
both clocks are enough to put that right; more make it better. Local times become UTC by
the zone that is named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from irene.errors import UsageError

LARGEST_DRIFT_PPM = 1000.0
"""A clock that is off by more is not a clock: a bad quartz is off by 100 ppm."""
QUARTER_NS = 900 * 1_000_000_000
"""Offsets of all zones of today change at quarters of an hour."""
HOUR_NS = 4 * QUARTER_NS
FIXED = re.compile(r"([+-])(\d\d):?(\d\d)$")


@dataclass(frozen=True, slots=True)
class ClockCorrection:
    """our time = t + offset_s + drift_ppm·1e-6·(t − reference), t the log's.

    Attributes:
        offset_s: What is added at the reference, s.
        drift_ppm: How much slow the log's clock runs, in millionths.
        reference_ns: Log time that the offset is for, ns since 1970.
        residual_s: Root mean square of what the fit leaves, s.
    """

    offset_s: float = 0.0
    drift_ppm: float = 0.0
    reference_ns: int = 0
    residual_s: float = 0.0

    def apply(self, time_ns: Any) -> Any:
        """Times of the log on our clock, ns; int64."""
        since = np.asarray(time_ns, np.int64) - self.reference_ns
        shift = self.offset_s * 1e9 + since * (self.drift_ppm * 1e-6)
        return since + np.rint(shift).astype(np.int64) + self.reference_ns


def fit_clock(pairs: Sequence[tuple[int, int]]) -> ClockCorrection:
    """Offset and drift from moments known on both clocks, by least squares.

    Args:
        pairs: Time of the log and our time of the same moment, both ns since 1970. One
            gives the offset only.

    Raises:
        UsageError: There is no pair, or the clocks cannot belong to each other.
    """
    if not pairs:
        raise UsageError("no moment is known on both clocks: give one or more pairs")
    logged = np.array([pair[0] for pair in pairs], np.int64)
    ours = np.array([pair[1] for pair in pairs], np.int64)
    reference = int(logged[0])
    since_s = (logged - reference) * 1e-9
    # Differences first, in whole ns: floats of today's dates are 256 ns apart.
    offset_s = (ours - logged) * 1e-9
    if np.ptp(since_s) == 0:
        return ClockCorrection(float(np.mean(offset_s)), 0.0, reference)
    drift, start_s = np.polyfit(since_s, offset_s, 1)
    left_s = offset_s - (start_s + drift * since_s)
    if abs(drift) > LARGEST_DRIFT_PPM * 1e-6:
        raise UsageError(
            f"the clocks differ by {drift * 1e6:.0f} ppm, more than any clock does: "
            "are these the same moments?"
        )
    residual_s = float(np.sqrt(np.mean(left_s**2)))
    return ClockCorrection(float(start_s), float(drift * 1e6), reference, residual_s)


def rising_edges(time_ns: Any, power_w: Any) -> Any:
    """When power rose from low to high, ns: half way up, between two samples.

    Low and high are the lower and upper quarter between the least and the greatest
    power, single samples that stick out left aside; what moves in between is no edge.
    """
    time_ns, power_w = np.asarray(time_ns, np.int64), np.asarray(power_w, float)
    if len(power_w) < 3:
        return np.empty(0, np.int64)
    middles = np.median([power_w[:-2], power_w[1:-1], power_w[2:]], axis=0)
    least, most = middles.min(), middles.max()
    if most <= least:
        return np.empty(0, np.int64)
    low, middle, high = (least + (most - least) * share for share in (0.25, 0.5, 0.75))
    state = np.where(power_w >= high, 1, np.where(power_w <= low, -1, 0))
    ends = np.flatnonzero(state)
    rises = np.flatnonzero((state[ends][:-1] < 0) & (state[ends][1:] > 0))
    edges = []
    for begin, end in zip(ends[rises], ends[rises + 1], strict=True):
        above = begin + int(np.argmax(power_w[begin : end + 1] >= middle))
        step_w = power_w[above] - power_w[above - 1]
        share = (middle - power_w[above - 1]) / step_w
        step_ns = int(time_ns[above] - time_ns[above - 1])
        edges.append(int(time_ns[above - 1]) + round(share * step_ns))
    return np.array(edges, np.int64)


def clock_from_marks(
    time_ns: Any, power_w: Any, marks_ns: Sequence[int], tolerance_s: float = 1.0
) -> ClockCorrection:
    """Offset and drift from sync marks: loads switched on at known times.

    Switch a load on at the start and again at the end (two marks, or more), and say
    when that was on our clock. The log's clock may be off by any amount: the edges are
    told by their distances.

    Args:
        time_ns: Times of the log, ns.
        power_w: Power at each of them, W.
        marks_ns: When the load was switched on, on our clock, ns since 1970.
        tolerance_s: How far an edge may lie from where its mark says, s; about the
            distance of two samples.

    Raises:
        UsageError: There are fewer than two marks, or the edges do not tell.
    """
    if len(marks_ns) < 2:
        raise UsageError("a clock needs two marks: one at the start, one at the end")
    marks = np.sort(np.array(marks_ns, np.int64))
    edges = rising_edges(time_ns, power_w)
    matches = _matches(edges, marks - marks[0], tolerance_s * 1e9)
    if len(matches) != 1:
        found = "none" if not matches else f"{len(matches)} ways"
        raise UsageError(
            f"{len(edges)} rising edges in the log, and {found} to match the "
            f"{len(marks)} marks: make marks at uneven distances, longer than a sample"
        )
    pairs = zip(matches[0], marks.tolist(), strict=True)
    return fit_clock([(int(logged), int(ours)) for logged, ours in pairs])


def _matches(edges: Any, distances: Any, tolerance_ns: float) -> list[list[int]]:
    """All choices of edges that are as far apart as the marks."""
    found: list[list[int]] = []
    for first in edges:
        wanted = first + distances
        slack_ns = tolerance_ns + LARGEST_DRIFT_PPM * 1e-6 * distances
        nearest = edges[np.abs(edges[:, None] - wanted[None, :]).argmin(axis=0)]
        if np.all(np.abs(nearest - wanted) <= slack_ns):
            found.append([int(edge) for edge in nearest])
    return found


def from_local_ns(local_ns: Any, zone: str) -> Any:
    """Times since 1970, ns, of what clocks of a zone showed, given as if it were UTC.

    A zone is `Europe/Berlin`, `+01:00` or `UTC`.

    Raises:
        UsageError: There is no such zone, a time is in the hour that a clock leaves
            out, or in the one that it shows twice, and no time around it tells.
    """
    where = _zone(zone)
    local_ns = np.asarray(local_ns, np.float64)
    quarters, place = np.unique(np.floor(local_ns / QUARTER_NS), return_inverse=True)
    offsets_s = np.array([_offsets_s(int(quarter), where) for quarter in quarters])
    early_ns, late_ns = (local_ns - offset_s * 1e9 for offset_s in offsets_s[place].T)
    twice = np.flatnonzero(early_ns != late_ns)
    for run in np.split(twice, np.flatnonzero(np.diff(twice) > 1) + 1):
        if len(run):
            begin, end = int(run[0]), int(run[-1]) + 1
            second = begin + _first_of_second_hour(early_ns, late_ns, begin, end, where)
            early_ns[second:end] = late_ns[second:end]
    return early_ns


def _first_of_second_hour(
    early_ns: Any, late_ns: Any, begin: int, end: int, where: tzinfo
) -> int:
    """How many of some times are of the first of two hours that a clock shows alike.

    A log goes on: its clock went back where the second began. If it never did, the log
    came from the hour before, or went into the hour after.
    """
    back = np.flatnonzero(np.diff(early_ns[begin:end]) < -HOUR_NS / 2)
    if len(back) == 1:
        return int(back[0]) + 1
    before = begin > 0 and early_ns[begin] - early_ns[begin - 1] < HOUR_NS
    after = end < len(early_ns) and early_ns[end] - late_ns[end - 1] < HOUR_NS
    if len(back) or before == after:
        shown = datetime.fromtimestamp(late_ns[begin] * 1e-9, UTC).astimezone(where)
        raise UsageError(_not_one(shown, "shown twice"))
    return end - begin if before else 0


def _zone(name: str) -> tzinfo:
    fixed = FIXED.match(name)
    if fixed:
        length = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
        return timezone(-length if fixed[1] == "-" else length)
    try:
        return ZoneInfo("UTC" if name == "Z" else name)
    except (OSError, ValueError, ZoneInfoNotFoundError) as error:
        raise UsageError(
            f"no time zone {name!r}: give one as Europe/Berlin or +01:00"
        ) from error


def _offsets_s(quarter: int, where: tzinfo) -> tuple[float, float]:
    """How far a clock there is ahead of UTC, s, the first and the second time."""
    shown = datetime.fromtimestamp(quarter * 900, UTC).replace(tzinfo=where)
    early, late = (shown.replace(fold=fold).utcoffset() for fold in (0, 1))
    assert early is not None
    assert late is not None
    if early < late:
        raise UsageError(_not_one(shown, "left out"))
    return early.total_seconds(), late.total_seconds()


def _not_one(shown: datetime, how: str) -> str:
    return (
        f"{shown:%Y-%m-%d %H:%M} is {how} by clocks of {shown.tzinfo}: give the offset "
        "that holds, as +01:00"
    )
