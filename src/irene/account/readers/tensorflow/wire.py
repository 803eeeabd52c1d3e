"""The bytes of a trace, gzipped or not, and the protocol buffers in them.

A message is a row of fields. A field is a key, a number of 7 bits a byte that holds the
field's number and kind, and then a number, 4 or 8 bytes, or a length and so many bytes.
Every length is checked.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from irene.errors import FormatError, UsageError

GZIP = b"\x1f\x8b"
LARGEST = 2**31
"""More bytes than this no trace of ours has: protobuf messages end there."""

VARINT = 0
DOUBLE = 1
BYTES = 2
FLOAT = 5
LONGEST_VARINT = 70
"""Bits after which a number must have ended."""

Span = tuple[int, int]


def trace_bytes(path: Path) -> bytes:
    """All bytes of a file, unpacked."""
    data = _read(path, LARGEST + 1)
    if len(data) > LARGEST:
        raise FormatError(f"{path} has more than {LARGEST:,} bytes: not a trace")
    return data


def opening(path: Path, count: int) -> bytes:
    """The first bytes of a file, unpacked; fewer if it is shorter or broken."""
    try:
        return _read(path, count)
    except FormatError:
        return b""


def _read(path: Path, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            if file.read(2) != GZIP:
                file.seek(0)
                return file.read(count)
        with gzip.open(path) as packed:
            return packed.read(count)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"{path} is cut off or broken: {error}") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class Message:
    """A file's bytes, and the readers of its fields."""

    data: bytes
    source: str

    def fields(self, begin: int, end: int) -> Iterator[tuple[int, int, int | Span]]:
        """Number, kind and value of every field of a message.

        The value of a field of bytes is where they begin and end; of other kinds the
        number, or the 4 or 8 bytes read as one.
        """
        position, data = begin, self.data
        value: int | Span
        while position < end:
            at = position
            key, position = data[position], position + 1
            if key >= 0x80:
                key, position = self.varint(at, end)
            kind = key & 7
            if kind == VARINT:
                value, position = self.varint(position, end)
            elif kind == BYTES:
                if position < end and (length := data[position]) < 0x80:
                    position += 1
                else:
                    length, position = self.varint(position, end)
                value = (position, position + length)
                position += length
            elif kind in (DOUBLE, FLOAT):
                width = 8 if kind == DOUBLE else 4
                raw = data[position : position + width]
                value = int.from_bytes(raw, "little")
                position += width
            else:
                raise self.error(at, f"there is no field of kind {kind}")
            if position > end:
                raise self.error(at, f"a field ends {position - end:,} bytes too late")
            if not key >> 3:
                raise self.error(at, "there is no field 0")
            yield key >> 3, kind, value

    def record(self, begin: int, end: int) -> Record:
        """All fields of a message at once, by number."""
        found: dict[int, list[tuple[int, int | Span]]] = {}
        for number, kind, value in self.fields(begin, end):
            found.setdefault(number, []).append((kind, value))
        return Record(self, found)

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """A number and the position after it."""
        at, data, number, shift = position, self.data, 0, 0
        while position < end and shift < LONGEST_VARINT:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number, position
            shift += 7
        raise self.error(at, "a number does not end")

    def span(self, kind: int, value: int | Span) -> Span:
        """Where the bytes of a field are; it must be one of bytes."""
        if kind != BYTES or not isinstance(value, tuple):
            raise FormatError(f"{self.source}: a field is of kind {kind}, not of bytes")
        return value

    def text(self, kind: int, value: int | Span) -> str:
        """A field of text."""
        begin, end = self.span(kind, value)
        return self.data[begin:end].decode("utf-8", "replace")

    def number(self, kind: int, value: int | Span) -> int:
        """A field that is a whole number with a sign."""
        if kind != VARINT or not isinstance(value, int):
            raise FormatError(f"{self.source}: a field is of kind {kind}, not a number")
        # 64 bits as the two's complement that they stand for.
        return value - 2**64 if value >= 2**63 else value

    def floating(self, value: int | Span) -> float:
        """A field of 8 bytes as a floating-point number."""
        whole = value if isinstance(value, int) else 0
        (number,) = struct.unpack("<d", whole.to_bytes(8, "little"))
        return float(number)

    def error(self, position: int, what: str) -> FormatError:
        """An error that names the file and the byte."""
        return FormatError(f"{self.source}, byte {position:,}: {what}; is it cut off?")


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one message; of those that may be there once, the last counts."""

    message: Message
    fields: dict[int, list[tuple[int, int | Span]]]

    def text(self, field: int) -> str:
        """A text, "" if there is none."""
        found = self.fields.get(field)
        return self.message.text(*found[-1]) if found else ""

    def number(self, field: int, default: int = 0) -> int:
        """A whole number with a sign."""
        found = self.fields.get(field)
        return self.message.number(*found[-1]) if found else default

    def spans(self, field: int) -> list[Span]:
        """Where the bytes of a field are, each time it is there."""
        return [self.message.span(*one) for one in self.fields.get(field, ())]

    def inside(self, field: int) -> Iterator[Record]:
        """The messages of a field."""
        return (self.message.record(*span) for span in self.spans(field))

    def numbers(self, field: int) -> Iterator[int]:
        """A repeated number: one by one, or several packed into bytes."""
        for kind, value in self.fields.get(field, ()):
            if isinstance(value, int):
                yield self.message.number(kind, value)
                continue
            position, end = value
            while position < end:
                number, position = self.message.varint(position, end)
                yield number
