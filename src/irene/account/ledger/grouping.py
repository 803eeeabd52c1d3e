"""Grouping: sums over groups of events, in one pass over the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from irene.account.align.nesting import Segments
from irene.account.ledger.rows import Row, Spread
from irene.arrays import Bools, Floats, Ints
from irene.energy import Energy
from irene.errors import LimitError

if TYPE_CHECKING:
    from irene.account.events import Events
    from irene.account.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Groups:
    """Sums of every group of events, J and s.

    Of `time_s` overlaps count once; `own_s` are the own times of all events added up,
    and `unknown_s` what of these is without known power. A run is a stretch of a lane
    in which no event of another group ran. `step_j` is groups × steps.
    """

    names: Sequence[str]
    energy_j: Floats
    half_width_j: Floats
    time_s: Floats
    own_s: Floats
    unknown_s: Floats
    count: Ints
    runs: Ints
    resolution_s: Floats
    step_j: Floats
    is_estimated: Bools

    def energy(self, ledger: Ledger, group: int) -> Energy | None:
        """Energy of a group; None if no power is known for any of its time."""
        own_s, joules = float(self.own_s[group]), float(self.energy_j[group])
        dark = own_s > 0 and float(self.unknown_s[group]) >= own_s * (1 - 1e-12)
        if dark and joules == 0:
            return None
        half_j = float(self.half_width_j[group])
        return Energy(
            joules,
            max(0.0, joules - half_j),
            max(joules, min(joules + half_j, ledger.total().high)),
            "estimated" if self.is_estimated[group] else "measured",
            ledger.produced_by,
        )

    def run_s(self, group: int) -> float:
        """How long a group runs in a row, on average, s."""
        runs = int(self.runs[group])
        return float(self.own_s[group]) / runs if runs else 0.0

    def is_resolved(self, group: int) -> bool:
        """Whether a run is at least as long as what the sensor resolves."""
        return self.run_s(group) >= float(self.resolution_s[group])

    def row(self, ledger: Ledger, group: int, name: str | None = None) -> Row:
        """A group as a row."""
        count = int(self.count[group])
        own_s, time_s = float(self.own_s[group]), float(self.time_s[group])
        unknown_s = float(self.unknown_s[group])
        measured_j = ledger.measured_j
        return Row(
            self.names[group] if name is None else name,
            self.energy(ledger, group),
            float(self.energy_j[group]) / measured_j if measured_j > 0 else 0.0,
            time_s,
            count,
            # Own times of lanes add up; seconds of the clock do not.
            unknown_s * (time_s / own_s) if own_s > 0 else 0.0,
            self.run_s(group),
            float(self.resolution_s[group]),
            _spread(self.step_j[group]),
        )


def summed(codes: Ints, values: Floats, size: int) -> Floats:
    """Sum of the values of each of `size` groups."""
    return np.bincount(codes, values, size).astype(np.float64, copy=False)


def _spread(step_j: Floats) -> Spread | None:
    if not len(step_j):
        return None
    return Spread(
        len(step_j),
        float(step_j.mean()),
        float(step_j.std(ddof=1)) if len(step_j) > 1 else 0.0,
        float(step_j.min()),
        float(step_j.max()),
    )


def grouped(ledger: Ledger, codes: Ints, names: Sequence[str]) -> Groups:
    """Sum over groups of the events that have power; a code of -1 is in no group."""
    codes = np.where(ledger.is_charged, codes, -1)
    rows = np.flatnonzero(codes >= 0)
    group, size = codes[rows], len(names)

    def total(column: Floats) -> Floats:
        return summed(group, column[rows], size)

    count = np.bincount(group, minlength=size)
    energy_j, time_s = total(ledger.energy_j), covered_s(ledger.segments, codes, size)
    own_s, unknown_s = total(ledger.own_s), total(ledger.unknown_s)
    runs = _runs(ledger, codes, size)
    with np.errstate(invalid="ignore", divide="ignore"):
        resolution_s = np.where(count > 0, total(ledger.resolution_s) / count, 0.0)
        is_long = np.where(runs > 0, own_s / runs, 0.0) >= resolution_s
        gap_j = np.nan_to_num(energy_j * unknown_s / (own_s - unknown_s), posinf=0.0)
    edges_j = sum((d.of_groups(codes, size) for d in ledger.doubts), np.zeros(size))
    # What runs for less than the sensor resolves is seen with its neighbours only: all
    # its energy is in doubt.
    edges_j = np.where(is_long, edges_j, np.maximum(edges_j, energy_j))
    return Groups(
        names,
        energy_j,
        total(ledger.half_width_j) + np.maximum(gap_j, 0.0) + edges_j,
        time_s,
        own_s,
        unknown_s,
        count,
        runs,
        resolution_s,
        _by_step(ledger, rows, group, size),
        total(ledger.is_estimated.astype(np.float64)) > 0,
    )


def distinct_ops(events: Events, place: Ints) -> tuple[list[tuple[int, ...]], Ints]:
    """Distinct triples of place, op and phase, and which of them each event has."""
    sizes = len(events.op.names), len(events.phase.names)
    key = (place * sizes[0] + events.op.codes) * sizes[1] + events.phase.codes
    distinct, codes = np.unique(key, return_inverse=True)
    rest, phase = np.divmod(distinct, sizes[1])
    table = np.stack((*np.divmod(rest, sizes[0]), phase), axis=1)
    return [tuple(row) for row in table.tolist()], codes


def _runs(ledger: Ledger, codes: Ints, size: int) -> Ints:
    """How often each group runs in a row in some lane."""
    order = ledger.lane_order
    owner = ledger.segments.owner[order]
    group, lane = codes[owner], ledger.events.lane.codes[owner]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (group[1:] != group[:-1]) | (lane[1:] != lane[:-1])
    return np.bincount(group[begins & (group >= 0)], minlength=size)


def _by_step(ledger: Ledger, rows: Ints, group: Ints, size: int) -> Floats:
    steps = len(ledger.events.steps)
    step = ledger.events.step[rows]
    inside = step >= 0
    place = group[inside] * steps + step[inside]
    values = ledger.energy_j[rows][inside]
    return summed(place, values, size * steps).reshape(size, steps)


def covered_s(segments: Segments, codes: Ints, size: int) -> Floats:
    """Seconds that the segments of each group cover, overlaps once."""
    group = codes[segments.owner]
    keep = np.flatnonzero(group >= 0)
    if not len(keep):
        return np.zeros(size)
    order = keep[np.lexsort((segments.start_ns[keep], group[keep]))]
    group = group[order]
    begin_ns = int(segments.start_ns.min())
    start = segments.start_ns[order] - begin_ns
    end = segments.end_ns[order] - begin_ns
    # One group after the other on one long line: the furthest end so far then never
    # reaches from a group into the next.
    length, number = (
        int(end.max()) + 1,
        np.cumsum(np.diff(group, prepend=group[0]) != 0),
    )
    if length * (int(number[-1]) + 1) >= 2**62:
        raise LimitError(
            f"{int(number[-1]) + 1:,} groups over {length * 1e-9:,.0f} s are too many"
        )
    line = number * length
    reached = np.maximum.accumulate(end + line)
    before = np.concatenate(([0], reached[:-1]))
    gained = np.maximum(end + line - np.maximum(start + line, before), 0)
    return summed(group, gained * 1e-9, size)
