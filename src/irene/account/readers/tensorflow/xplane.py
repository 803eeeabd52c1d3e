"""XPlane: the trace format of TensorFlow and JAX, read without either of them.

A file `*.xplane.pb` is a protocol buffer: planes (the host, each device), each with
lines (threads, streams), each with events. Names are kept once for each plane. Times
count from the begin of the profile, which the plane `Task Environment` has as ns since
1970. Field numbers are those of `tsl/profiler/protobuf/xplane.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from irene.account.readers.tensorflow.wire import (
    BYTES,
    DOUBLE,
    Message,
    Record,
    Span,
    trace_bytes,
)
from irene.arrays import Ints
from irene.errors import FormatError

Value = int | float | str | bytes

ENVIRONMENT = "Task Environment"
START_TIME = "profile_start_time"
UNIX_NS = 10**17
"""Line times beyond this (1973) are ns since 1970 already."""
LATEST_NS = 2**62
PS_PER_NS = 1000
STATS_KEY = 0x22
EVENT_KEYS = frozenset((0x08, 0x10, 0x18, STATS_KEY))
"""Keys of an event's name, offset, length and stats."""


@dataclass(frozen=True, slots=True)
class Line:
    """Events of one thread or stream; names and stats by where the plane has them."""

    id: int
    name: str
    name_id: list[int]
    start_ns: Ints
    end_ns: Ints
    stats_at: list[tuple[Span, ...]]

    def __len__(self) -> int:
        return len(self.name_id)


@dataclass(slots=True)
class Plane:
    """The host or a device: its lines, and names and stats by their numbers."""

    message: Message
    name: str = ""
    lines: list[Line] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    name_stats_at: dict[int, list[Span]] = field(default_factory=dict)
    stat_names: dict[int, str] = field(default_factory=dict)
    stats: dict[str, Value] = field(default_factory=dict)
    lines_at: list[Span] = field(default_factory=list)

    def event_stats(self, line: Line, row: int) -> dict[str, Value]:
        """Stats of an event by name."""
        return self.read_stats(line.stats_at[row])

    def read_stats(self, spans: tuple[Span, ...] | list[Span]) -> dict[str, Value]:
        """Stats by name, from where they are in the file."""
        return dict(self._stat(span) for span in spans)

    def _stat(self, span: Span) -> tuple[str, Value]:
        name, found = "", self.message
        value: Value = 0
        for number, kind, raw in found.fields(*span):
            if number == 1:
                name = self.stat_names.get(found.number(kind, raw), "")
            elif number == 2 and kind == DOUBLE:
                value = found.floating(raw)
            elif number == 3 and isinstance(raw, int):
                value = raw
            elif number == 4:
                value = found.number(kind, raw)
            elif number == 5:
                value = found.text(kind, raw)
            elif number == 6:
                begin, end = found.span(kind, raw)
                value = found.data[begin:end]
            elif number == 7:
                value = self.stat_names.get(found.number(kind, raw), "")
        return name, value


@dataclass(frozen=True, slots=True)
class XSpace:
    """A trace: its planes, its begin (ns since 1970), what the profiler reported."""

    planes: tuple[Plane, ...]
    start_ns: int | None
    errors: tuple[str, ...] = ()

    def named(self, begin: str) -> Iterator[Plane]:
        """Planes whose name begins so."""
        return (plane for plane in self.planes if plane.name.startswith(begin))


def read_xspace(path: Path) -> XSpace:
    """Read `*.xplane.pb`, also gzipped."""
    message = Message(trace_bytes(path), str(path))
    planes_at: list[Span] = []
    errors: list[str] = []
    for number, kind, value in message.fields(0, len(message.data)):
        if kind != BYTES or number > 4:
            raise FormatError(f"{path} is not an XPlane trace: it has a field {number}")
        if number == 1:
            planes_at.append(message.span(kind, value))
        elif number in (2, 3):
            errors.append(message.text(kind, value))
    planes = [_names(message, span) for span in planes_at]
    if not any(plane.name for plane in planes):
        raise FormatError(f"{path} is not an XPlane trace: it has no planes")
    start_ns = _start_ns(planes)
    for plane in planes:
        lines = [_line(message, at, start_ns or 0) for at in plane.lines_at]
        plane.lines.extend(lines)
    return XSpace(tuple(planes), start_ns, tuple(errors))


def _start_ns(planes: list[Plane]) -> int | None:
    for plane in planes:
        start_ns = plane.stats.get(START_TIME)
        if plane.name == ENVIRONMENT and isinstance(start_ns, int):
            return start_ns if 0 < start_ns < LATEST_NS else None
    return None


def _names(message: Message, span: Span) -> Plane:
    """A plane with all its names, but without its lines."""
    record = message.record(*span)
    plane = Plane(message, record.text(2), lines_at=record.spans(3))
    for entry in record.inside(4):
        key, name, spans = _entry(entry)
        plane.names[key] = name
        if spans:
            plane.name_stats_at[key] = spans
    for entry in record.inside(5):
        key, name, _ = _entry(entry)
        plane.stat_names[key] = name
    plane.stats = plane.read_stats(record.spans(6))
    return plane


def _entry(entry: Record) -> tuple[int, str, list[Span]]:
    """Number, name and stats of one entry of a table of names."""
    key, name, stats = entry.number(1), "", list[Span]()
    for value in entry.inside(2):
        key = value.number(1, key)
        name = value.text(2) or name
        stats += value.spans(5)
    return key, name, stats


def _line(message: Message, span: Span, start_ns: int) -> Line:
    record = message.record(*span)
    name, base_ns = record.text(2) or record.text(11), record.number(3)
    base_ns += start_ns if base_ns < UNIX_NS else 0
    if not 0 <= base_ns < LATEST_NS:
        raise FormatError(f"{message.source}: line {name!r} begins at {base_ns} ns")
    columns = [_event(message, *event) for event in record.spans(4)]
    name_id, offset, length, stats = zip(*columns, strict=True) if columns else [()] * 4
    try:
        offset_ps = np.array(offset, dtype=np.int64)
        end_ps = offset_ps + np.array(length, dtype=np.int64)
    except OverflowError as error:
        text = f"{message.source}: times of line {name!r} are beyond 64 bits"
        raise FormatError(text) from error
    return Line(
        record.number(1),
        name,
        list(name_id),
        base_ns + offset_ps // PS_PER_NS,
        base_ns + np.maximum(end_ps, offset_ps) // PS_PER_NS,
        list(stats),
    )


def _event(
    message: Message, begin: int, end: int
) -> tuple[int, int, int, tuple[Span, ...]]:
    """Name, offset and length in ps, and where its stats are.

    Nearly all bytes of a file are events: this does what `Message.fields` does without
    a generator.
    """
    data, position = message.data, begin
    values = [0, 0, 0, 0]  # by field: name 1, offset 2, length 3
    stats: list[Span] = []
    while position < end:
        key = data[position]
        if key not in EVENT_KEYS or position + 1 >= end:
            # Something newer than we know: the careful way.
            return _odd_event(message, begin, end)
        value = data[position + 1]
        position += 2
        if value >= 0x80:
            value, shift = value & 0x7F, 7
            for byte in data[position : min(position + 9, end)]:
                position += 1
                value |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            else:
                raise message.error(position, "a number does not end")
        if key == STATS_KEY:
            stats.append((position, position + value))
            position += value
        else:
            values[key >> 3] = value
    if position > end:
        raise message.error(begin, f"an event ends {position - end:,} bytes too late")
    if max(values) >= 2**63:
        raise message.error(begin, "an event has a negative time")
    return values[1], values[2], values[3], tuple(stats)


def _odd_event(
    message: Message, begin: int, end: int
) -> tuple[int, int, int, tuple[Span, ...]]:
    record = message.record(begin, end)
    name, offset, length = (record.number(field) for field in (1, 2, 3))
    return name, offset, length, tuple(record.spans(4))
