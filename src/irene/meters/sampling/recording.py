"""Recording: samples that were taken, as arrays, and the energy of any stretch.

`ReplayMeter` plays them as if they were taken now, for tests and teaching.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from irene.arrays import Floats, Ints
from irene.errors import FormatError, UsageError
from irene.meters.channel import Channel, SensorLostError, missing_notes
from irene.meters.sampling.sample_file import (
    COARSE_S,
    SCHEMA,
    THINNED,
    recent_paths,
)
from irene.meters.sampling.totals import ChannelTotal, Window
from irene.whole_file import trying_to

WORDS = {
    "sensor-lost": "{meter} was lost: {message}",
    "clock": "the clock was set by {step_s:+.3f} s",
    "lost-lines": "{bytes} bytes of samples found no room",
    THINNED: "a long recording: its middle has a sample every {step_s:g} s; totals are "
    "of all samples",
}
"""What is to be said of what happened meanwhile."""
UNTOLD: dict[str, Any] = {"meter": None, "message": None, "bytes": None, "step_s": 0.0}


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
    notes: tuple[str, ...] = ()
    _totals: dict[int, tuple[Floats, Floats]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def duration_s(self) -> float:
        """From the first to the last sample, s."""
        return float(self.time_ns[-1] - self.time_ns[0]) * 1e-9 if len(self) else 0.0

    def index(self, name: str) -> int:
        """Column of a channel."""
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
        cumulative, known = self.totals(column)
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
        cumulative, known = self.totals(column)
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

    def totals(self, column: int) -> tuple[Floats, Floats]:
        """Integral and known seconds of a channel up to every sample."""
        if column not in self._totals:
            rule = ChannelTotal(self.channels[column], self.period_s)
            self._totals[column] = _add_up(rule, self.time_ns, self.values[:, column])
        return self._totals[column]


def _add_up(rule: ChannelTotal, time_ns: Ints, values: Floats) -> tuple[Floats, Floats]:
    """Integral and known seconds up to every sample.

    Looking back, the time a counter stood still belongs where it was once it is
    believed, and not to the moment the counter moved again.
    """
    since_ns = np.diff(time_ns, prepend=time_ns[:1])
    integral, known_ns = np.zeros(len(values)), np.zeros(len(values), np.int64)
    each = zip(values.tolist(), since_ns.tolist(), strict=True)
    for row, (value, step_ns) in enumerate(each):
        rule.add(value, step_ns)
        integral[row] = rule.integral
        known_ns[row] = rule.known_ns + rule.still_ns
    known_ns[-1:] -= rule.still_ns
    # Whatever is not known later on was never known.
    return integral, np.minimum.accumulate(known_ns[::-1])[::-1] * 1e-9


def read_recording(path: Path) -> Recording:
    """Read a file of samples, also one whose writer was killed."""
    with trying_to("read", path):
        data = path.read_bytes()
    whole = data.endswith(b"\n")
    lines = data.splitlines(keepends=True)
    if not whole and lines:
        lines.pop()  # the line that its writer did not finish
    header = _header(lines, path)
    try:
        channels = tuple(Channel(**fields) for fields in header["channels"])
    except (TypeError, ValueError) as error:
        raise FormatError(f"{path}, line 1: not a channel: {error}") from error
    events = [_event(line) for line in lines[2:] if line.startswith(b"#")]
    rows = [line for line in lines[2:] if not line.startswith(b"#")]
    thinned = [event for event in events if event.get("event") == THINNED]
    if thinned:
        rows = _with_recent(rows, path)
    times, values, broken = _rows(rows, len(channels))
    clock = [header["clock"], *(e["clock"] for e in events if "clock" in e)]
    missing = {channel.name: channel.missing for channel in channels if channel.missing}
    notes = (*missing_notes(missing), *_notes(events, broken))
    return Recording(
        channels,
        times,
        values,
        COARSE_S if thinned else float(header.get("period_s", 0.0)),
        tuple((int(pair["time_ns"]), int(pair["epoch_ns"])) for pair in clock),
        tuple(events),
        notes,
    )


def _with_recent(rows: list[bytes], path: Path) -> list[bytes]:
    """Lines with the last ones whole, where the file itself has one for many."""
    recent: list[bytes] = []
    for beside in recent_paths(path):
        if beside.exists():
            lines = beside.read_bytes().splitlines(keepends=True)
            recent += [line for line in lines if line.endswith(b"\n")]
    if not recent:
        return rows
    recent.sort(key=_time_of)
    first = _time_of(recent[0])
    return [row for row in rows if _time_of(row) < first] + recent


def _time_of(row: bytes) -> int:
    word = row.partition(b",")[0]
    return int(word) if word.isdigit() else 0


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


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line[1:])
    except ValueError:
        event = None
    return event if isinstance(event, dict) else {"event": "unreadable"}


def _rows(rows: list[bytes], columns: int) -> tuple[Ints, Floats, int]:
    """Times and values of whole lines in order; how many lines were not usable."""
    good = [row for row in rows if row.count(b",") == columns]
    try:
        times, values = _parse(good, columns)
    except ValueError:
        times, values = _parse([row for row in good if _is_numbers(row)], columns)
    forward = np.ones(len(times), np.bool_)
    forward[1:] = np.diff(np.maximum.accumulate(times)) > 0
    return times[forward], values[forward], len(rows) - int(forward.sum())


def _parse(rows: list[bytes], columns: int) -> tuple[Ints, Floats]:
    if not rows:
        return np.zeros(0, np.int64), np.zeros((0, columns))
    # Nanoseconds since boot pass 2**53 only after 104 days: read them as integers.
    kinds = [("time_ns", np.int64), ("values", np.float64, (columns,))]
    text = (row.decode("ascii", "replace") for row in rows)
    table = np.loadtxt(text, dtype=kinds, delimiter=",", comments=None, ndmin=1)
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
    told = [(WORDS.get(str(event.get("event")), ""), event) for event in events]
    return (*notes, *(words.format_map(UNTOLD | {**e}) for words, e in told if words))


class ReplayMeter:
    """Gives the values of a recording, as much later as it was opened later.

    Counters are read between two samples in proportion to time, other values as they
    were at the last sample. After the last sample there is nothing more.
    """

    name = "replay"

    def __init__(
        self,
        recording: Recording,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if not len(recording):
            raise UsageError("the recording has no samples to replay")
        self.channels: tuple[Channel, ...] = recording.channels
        self._recording = recording
        self._clock_ns = clock_ns
        self._began_ns: int | None = None

    def read(self) -> list[float]:
        """Values at this moment of the recording.

        Raises:
            SensorLostError: The recording is over.
        """
        now_ns = self._clock_ns()
        if self._began_ns is None:
            self._began_ns = now_ns
        times = self._recording.time_ns
        moment = int(times[0]) + now_ns - self._began_ns
        if moment > times[-1]:
            raise SensorLostError("the recording is over")
        before = int(np.searchsorted(times, moment, side="right")) - 1
        after = min(before + 1, len(times) - 1)
        values: list[float] = self._recording.values[before].tolist()
        step_ns = int(times[after] - times[before])
        part = (moment - int(times[before])) / step_ns if step_ns else 0.0
        for column, channel in enumerate(self.channels):
            if channel.quantity == "energy_j":
                then = float(self._recording.values[after, column])
                values[column] += part * (then - values[column])
        return values

    def close(self) -> None:
        """Nothing is open."""
