"""Timeline: power over time, and which module ran when."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from irene.arrays import Floats

if TYPE_CHECKING:
    from irene.account.align.power import PowerSeries
    from irene.account.ledger.ledger import Ledger

COMPACT_DEPTH = 2
COMPACT_POINTS = 600
MOST_STRETCHES = 500


@dataclass(frozen=True, slots=True)
class Stretch:
    """A module that ran, from its first to its last op in a row, s in the window."""

    scope: str
    phase: str
    device: str
    start_s: float
    end_s: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values, times to the microsecond."""
        times = {"start_s": round(self.start_s, 6), "end_s": round(self.end_s, 6)}
        return {**asdict(self), **times}


@dataclass(frozen=True, slots=True)
class Curve:
    """Mean power of a channel, W, between edges in s; NaN where part is not known."""

    time_s: Floats
    power_w: Floats

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values: microseconds, milliwatts, null where not known."""
        return {
            "time_s": [round(time_s, 6) for time_s in self.time_s.tolist()],
            "power_w": [
                round(power_w, 3) if math.isfinite(power_w) else None
                for power_w in self.power_w.tolist()
            ],
        }


@dataclass(frozen=True, slots=True)
class Timeline:
    """Power over time by channel, with modules and steps (label, begin, end) marked."""

    curves: Mapping[str, Curve]
    stretches: tuple[Stretch, ...]
    steps: tuple[tuple[str, float, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "channels": [
                {"name": name, **curve.to_dict()} for name, curve in self.curves.items()
            ],
            "steps": [
                {"label": label, "start_s": round(start, 6), "end_s": round(end, 6)}
                for label, start, end in self.steps
            ],
            "modules": [stretch.to_dict() for stretch in self.stretches],
        }


def compact(ledger: Ledger) -> Timeline:
    """A timeline that is small enough to be sent: less is marked where much ran.

    The deepest level of modules that leaves at most `MOST_STRETCHES` is marked, and of
    more at the first level the longest; steps likewise.
    """
    for depth in (COMPACT_DEPTH, 1):
        found = timeline(ledger, depth, COMPACT_POINTS)
        if len(found.stretches) <= MOST_STRETCHES:
            break
    longest = sorted(found.stretches, key=lambda one: one.start_s - one.end_s)
    kept = sorted(longest[:MOST_STRETCHES], key=lambda one: one.start_s)
    return Timeline(found.curves, tuple(kept), found.steps[:MOST_STRETCHES])


def timeline(ledger: Ledger, depth: int, points: int) -> Timeline:
    """The timeline of a ledger, modules of a level marked, of so many bins at most."""
    curves = {series.name: _curve(ledger, series, points) for series in ledger.power}
    return Timeline(curves, _stretches(ledger, depth), _steps(ledger))


def _curve(ledger: Ledger, series: PowerSeries, points: int) -> Curve:
    """Mean power in bins: the samples themselves, or as many bins as are wanted."""
    begin, end = ledger.window_ns
    times = np.clip(series.time_ns, begin, end)
    edges = np.unique(np.concatenate(([begin], times, [end])))
    if len(edges) > points + 1:
        edges = np.unique(np.linspace(0, end - begin, points + 1).astype(np.int64))
        edges += begin
    time_s = (edges - begin) * 1e-9
    if len(series.time_ns) < 2:
        return Curve(time_s, np.full(len(edges) - 1, np.nan))
    own = series.time_ns
    steps_s = np.diff(own) * 1e-9
    mean_w = 0.5 * (series.begin_w + series.end_w)
    known = np.isfinite(mean_w)
    # The running energy between samples is taken as straight: this is for looking at.
    total_j = np.concatenate(([0.0], np.cumsum(np.where(known, mean_w * steps_s, 0.0))))
    known_s = np.concatenate(([0.0], np.cumsum(np.where(known, steps_s, 0.0))))
    place = (own - begin).astype(np.float64)
    at = (edges - begin).astype(np.float64)
    joules = np.diff(np.interp(at, place, total_j))
    seconds = np.diff(np.interp(at, place, known_s))
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = seconds >= 0.999 * np.diff(time_s)
        power_w = np.where(whole & (seconds > 0), joules / seconds, np.nan)
    return Curve(time_s, power_w)


def _stretches(ledger: Ledger, depth: int) -> tuple[Stretch, ...]:
    events, scopes = ledger.events, ledger.scopes
    level = min(depth, max(scopes.depth))
    node = scopes.ancestors[level][scopes.event_node]
    rows = np.flatnonzero((node > 0) & ~events.is_mark & ledger.is_charged)
    if not len(rows) or level == 0:
        return ()
    order = rows[np.lexsort((events.start_ns[rows], events.lane.codes[rows]))]
    keys = np.stack((events.lane.codes[order], node[order], events.phase.codes[order]))
    first = np.concatenate(([True], (np.diff(keys, axis=1) != 0).any(axis=0)))
    begins = np.flatnonzero(first)
    ends_ns = np.maximum.reduceat(events.end_ns[order], begins)
    begin_ns = ledger.window_ns[0]
    found = [
        Stretch(
            scopes.paths[int(node[row])],
            events.phase[row],
            events.device[row],
            (int(events.start_ns[row]) - begin_ns) * 1e-9,
            (int(end) - begin_ns) * 1e-9,
        )
        for row, end in zip(order[begins].tolist(), ends_ns.tolist(), strict=True)
    ]
    return tuple(sorted(found, key=lambda stretch: stretch.start_s))


def _steps(ledger: Ledger) -> tuple[tuple[str, float, float], ...]:
    """Every step, from its first begin to its last end."""
    events, begin_ns = ledger.events, ledger.window_ns[0]
    found = []
    for number, label in enumerate(events.steps):
        rows = np.flatnonzero(events.step == number)
        if len(rows):
            start_s = (int(events.start_ns[rows].min()) - begin_ns) * 1e-9
            end_s = (int(events.end_ns[rows].max()) - begin_ns) * 1e-9
            found.append((label, start_s, end_s))
    return tuple(found)
