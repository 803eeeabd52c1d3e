"""Recording: samples that were taken, as arrays, and the energy of any stretch."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.errors import FormatError, UsageError
from irene.meters.channel import Channel
from irene.meters.sampling.sample_file import SCHEMA
from irene.meters.sampling.totals import GAP_PERIODS, SHORTEST_GAP_S, Window, frozen_s

__all__ = ["Recording", "read_recording"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Recording:
    """Samples of some channels over some time.

    Attributes:
        channels: What each column of `values` is.
        time_ns: When each sample was taken, on the monotonic clock; strictly growing.
        values: Samples × channels; NaN where a channel gave nothing.
        period_s: The period that was asked for, s; 0 unknown.
        clock: Pairs of the same moment on the monotonic clock and since 1970, ns.
        events: What happened meanwhile, in order.
        notes: What a reader should know, in words.
    """

    channels: tuple[Channel, ...]
    time_ns: Ints
    values: Floats
    period_s: float = 0.0
    clock: tuple[tuple[int, int], ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.time_ns)

    @property
    def duration_s(self) -> float:
        """From the first to the last sample, s."""
        return float(self.time_ns[-1] - self.time_ns[0]) * 1e-9 if len(self) else 0.0

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Stretches without a sample for more than two periods: begin and end, ns."""
        if len(self) < 2:
            return []
        steps = np.diff(self.time_ns)
        usual = self.period_s * 1e9 or float(np.median(steps))
        where = np.flatnonzero(steps > 2 * usual)
        return [(int(self.time_ns[i]), int(self.time_ns[i + 1])) for i in where]

    def index(self, name: str) -> int:
        """Column of a channel.

        Raises:
            UsageError: No channel has that name.
        """
        for column, channel in enumerate(self.channels):
            if channel.name == name:
                return column
        names = ", ".join(channel.name for channel in self.channels)
        raise UsageError(f"no channel {name!r} in this recording; it has {names}")

    def epoch_ns(self, time_ns: Ints) -> Ints:
        """Moments of the monotonic clock as nanoseconds since 1970."""
        if not self.clock:
            raise UsageError("this recording does not say what time of day it was")
        known = np.array(self.clock, dtype=np.int64)
        place = np.searchsorted(known[:, 0], time_ns, side="right") - 1
        pair = known[np.maximum(place, 0)]
        moments: Ints = time_ns + (pair[..., 1] - pair[..., 0])
        return moments

    def power(self, column: int) -> Floats:
        """Mean power between each sample and the next, W; NaN where not known."""
        cumulative, known = self._totals[column]
        seconds = np.diff(known)
        with np.errstate(invalid="ignore", divide="ignore"):
            watts: Floats = np.where(seconds > 0, np.diff(cumulative) / seconds, np.nan)
        return watts

    def window(self, column: int, begin_ns: float, end_ns: float) -> Window:
        """What one channel gave in a stretch; its ends need not be samples."""
        (window,) = self.windows(column, np.array([begin_ns]), np.array([end_ns]))
        return window

    def windows(self, column: int, begin_ns: Floats, end_ns: Floats) -> list[Window]:
        """What one channel gave in each of many stretches."""
        cumulative, known = self._totals[column]
        times = self.time_ns.astype(np.float64)
        integral = np.interp(end_ns, times, cumulative) - np.interp(
            begin_ns, times, cumulative
        )
        known_s = np.interp(end_ns, times, known) - np.interp(begin_ns, times, known)
        channel = self.channels[column]
        lengths_s = (np.asarray(end_ns) - np.asarray(begin_ns)) * 1e-9
        return [
            Window(channel, *map(float, row))
            for row in zip(lengths_s, known_s, integral, strict=True)
        ]

    @cached_property
    def _totals(self) -> list[tuple[Floats, Floats]]:
        """Integral and known seconds of every channel up to every sample."""
        return [self._total(column) for column in range(len(self.channels))]

    def _total(self, column: int) -> tuple[Floats, Floats]:
        channel, values = self.channels[column], self.values[:, column]
        seconds = np.diff(self.time_ns) * 1e-9
        if channel.quantity == "energy_j":
            steps = np.diff(values)
            known = np.isfinite(steps) & (steps >= 0)
            if channel.counted and channel.source == "measured":
                known &= ~_frozen(steps, seconds, frozen_s(channel))
        else:
            steps = 0.5 * (values[1:] + values[:-1]) * seconds
            longest_s = max(SHORTEST_GAP_S, GAP_PERIODS * self.period_s)
            known = np.isfinite(steps) & (seconds <= longest_s)
        return (
            np.concatenate(([0.0], np.cumsum(np.where(known, steps, 0.0)))),
            np.concatenate(([0.0], np.cumsum(np.where(known, seconds, 0.0)))),
        )


def _frozen(steps: Floats, seconds: Floats, longest_s: float) -> npt.NDArray[np.bool_]:
    """Steps of a counter that stood still too long, and the jump that ends each."""
    frozen = np.zeros(len(steps), dtype=np.bool_)
    still = np.concatenate(([0], (steps == 0).astype(np.int8), [0]))
    edges = np.diff(still)
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    for begin, end in zip(begins, ends, strict=True):
        if seconds[begin:end].sum() > longest_s:
            frozen[begin : end + 1] = True
    return frozen


def read_recording(path: Path) -> Recording:
    """Read a file of samples, also one whose writer was killed.

    Raises:
        UsageError: There is no such file.
        FormatError: It is not a file of samples, or of a newer version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    whole = data.endswith(b"\n")
    lines = data.splitlines(keepends=True)
    if not whole and lines:
        lines.pop()  # the line that its writer did not finish
    header = _header(lines, path)
    channels = tuple(_channel(fields, path) for fields in header["channels"])
    events = [_event(line) for line in lines[2:] if line.startswith(b"#")]
    rows = [line for line in lines[2:] if not line.startswith(b"#")]
    times, values, broken = _rows(rows, len(channels))
    clock = [header["clock"], *(e["clock"] for e in events if "clock" in e)]
    notes = _notes(events, broken)
    return Recording(
        channels,
        times,
        values,
        float(header.get("period_s", 0.0)),
        tuple((int(pair["time_ns"]), int(pair["epoch_ns"])) for pair in clock),
        tuple(events),
        notes,
    )


def _header(lines: Sequence[bytes], path: Path) -> dict[str, Any]:
    try:
        header = json.loads(lines[0][1:]) if lines[0].startswith(b"#") else None
    except (IndexError, ValueError):
        header = None
    if not isinstance(header, dict) or "schema" not in header:
        raise FormatError(f"{path} is not a file of samples (no {SCHEMA} header)")
    if header["schema"] != SCHEMA:
        raise FormatError(
            f"{path} is of the format {header['schema']!r}; this irene reads {SCHEMA}"
        )
    if not isinstance(header.get("channels"), list) or "clock" not in header:
        raise FormatError(f"{path}, line 1: the header names no channels or no clock")
    return header


def _channel(fields: Any, path: Path) -> Channel:
    try:
        return Channel(**fields)
    except (TypeError, ValueError) as error:
        raise FormatError(f"{path}, line 1: not a channel: {error}") from error


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line[1:])
    except ValueError:
        event = None
    return event if isinstance(event, dict) else {"event": "unreadable"}


def _rows(rows: list[bytes], columns: int) -> tuple[Ints, Floats, int]:
    """Times and values of whole lines in order; how many lines were not usable."""
    if not rows:
        return np.zeros(0, np.int64), np.zeros((0, columns)), 0
    good = [row for row in rows if row.count(b",") == columns]
    try:
        table = _parse(good, columns)
    except ValueError:
        good = [row for row in good if _is_numbers(row)]
        table = _parse(good, columns)
    times, values = table
    forward = np.concatenate(([True], np.diff(np.maximum.accumulate(times)) > 0))
    lost = len(rows) - int(forward.sum())
    return times[forward], values[forward], lost


def _parse(rows: list[bytes], columns: int) -> tuple[Ints, Floats]:
    if not rows:
        return np.zeros(0, np.int64), np.zeros((0, columns))
    # Nanoseconds since boot pass 2**53 only after 104 days: read them as integers.
    kinds = [("time_ns", np.int64), ("values", np.float64, (columns,))]
    text = io.StringIO(b"".join(rows).decode("ascii", "replace"))
    table = np.atleast_1d(np.loadtxt(text, dtype=kinds, delimiter=",", comments=None))
    return table["time_ns"].copy(), table["values"].reshape(len(rows), columns).copy()


def _is_numbers(row: bytes) -> bool:
    first, *rest = row.split(b",")
    try:
        int(first)
        for word in rest:
            float(word)
    except ValueError:
        return False
    return True


def _notes(events: Sequence[Mapping[str, Any]], broken: int) -> tuple[str, ...]:
    notes = []
    if not any(event.get("event") == "end" for event in events):
        notes.append("the sampler did not end: its last second may be missing")
    if broken:
        notes.append(f"{broken} lines were unreadable or out of order")
    for event in events:
        if event.get("event") == "sensor-lost":
            notes.append(f"{event.get('meter')} was lost: {event.get('message')}")
        elif event.get("event") == "clock":
            notes.append(f"the clock was set by {event.get('step_s', 0.0):+.3f} s")
        elif event.get("event") == "lost-lines":
            notes.append(f"{event.get('bytes')} bytes of samples found no room")
    return tuple(notes)
