"""Writes XPlane traces byte by byte, for tests."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

START_NS = 1_700_000_000_000_000_000


def varint(number: int) -> bytes:
    number %= 2**64
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def number(at: int, value: int) -> bytes:
    return varint(at << 3) + varint(value)


def chunk(at: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(at << 3 | 2) + varint(len(data)) + data


def double(at: int, value: float) -> bytes:
    return varint(at << 3 | 1) + struct.pack("<d", value)


Stats = Mapping[str, int | float | str | bytes]
Event = tuple[str, int, int] | tuple[str, int, int, Stats]
"""Name, begin and length in ns, and stats."""


@dataclass
class MadePlane:
    name: str
    lines: Mapping[str, Sequence[Event]] = field(default_factory=dict)
    stats: Stats = field(default_factory=dict)
    base_ns: int = 0

    def __post_init__(self) -> None:
        self.names: dict[str, int] = {}
        self.stat_names: dict[str, int] = {}

    def encoded(self) -> bytes:
        lines = [self._line(i, *item) for i, item in enumerate(self.lines.items())]
        stats = [chunk(6, self._stat(*item)) for item in self.stats.items()]
        tables = [
            chunk(at, number(1, key) + chunk(2, number(1, key) + chunk(2, name)))
            for at, table in ((4, self.names), (5, self.stat_names))
            for name, key in table.items()
        ]
        return b"".join((chunk(2, self.name), *lines, *tables, *stats))

    def _line(self, index: int, name: str, events: Sequence[Event]) -> bytes:
        head = number(1, index) + chunk(2, name) + number(3, self.base_ns)
        return chunk(3, head + b"".join(chunk(4, self._event(*one)) for one in events))

    def _event(
        self, name: str, start_ns: int, length_ns: int, stats: Stats | None = None
    ) -> bytes:
        key = self.names.setdefault(name, len(self.names) + 1)
        head = number(1, key) + number(2, start_ns * 1000) + number(3, length_ns * 1000)
        rest = (chunk(4, self._stat(*item)) for item in (stats or {}).items())
        return head + b"".join(rest)

    def _stat(self, name: str, value: int | float | str | bytes) -> bytes:
        key = number(1, self.stat_names.setdefault(name, len(self.stat_names) + 1))
        if isinstance(value, bytes):
            return key + chunk(6, value)
        if isinstance(value, str):
            return key + chunk(5, value)
        if isinstance(value, float):
            return key + double(2, value)
        return key + number(4, value)


def environment(start_ns: int = START_NS) -> MadePlane:
    return MadePlane("Task Environment", stats={"profile_start_time": start_ns})


def space(*planes: MadePlane) -> bytes:
    return b"".join(chunk(1, plane.encoded()) for plane in planes)
