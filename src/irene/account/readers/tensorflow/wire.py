"""Protocol buffers as bytes: fields, numbers and lengths, every length checked.

A message is a row of fields. A field is a key, a number of 7 bits a byte that holds the
field's number and kind, and then a number, 4 or 8 bytes, or a length and so many bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from irene.errors import FormatError

__all__ = ["BYTES", "DOUBLE", "FLOAT", "VARINT", "Message", "signed"]

VARINT = 0
DOUBLE = 1
BYTES = 2
FLOAT = 5
LONGEST_VARINT = 70
"""Bits after which a number must have ended."""

Span = tuple[int, int]


def signed(number: int) -> int:
    """A number of 64 bits as the two's complement that it stands for."""
    return number - 2**64 if number >= 2**63 else number


@dataclass(frozen=True, slots=True)
class Message:
    """A file's bytes, and the readers of its fields.

    Attributes:
        data: All bytes.
        source: Name of the file, for errors.
    """

    data: bytes
    source: str

    def fields(self, begin: int, end: int) -> Iterator[tuple[int, int, int | Span]]:
        """Number, kind and value of every field of a message.

        The value of a field of bytes is where they begin and end; of other kinds the
        number, or the 4 or 8 bytes read as one.

        Raises:
            FormatError: A field does not end where its message does, or is of a kind
                that there is none of; the message has the byte.
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

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """A number and the position after it.

        Raises:
            FormatError: It does not end.
        """
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
        return signed(value)

    def floating(self, value: int | Span) -> float:
        """A field of 8 bytes as a floating-point number."""
        whole = value if isinstance(value, int) else 0
        (number,) = struct.unpack("<d", whole.to_bytes(8, "little"))
        return float(number)

    def error(self, position: int, what: str) -> FormatError:
        """An error that names the file and the byte."""
        return FormatError(f"{self.source}, byte {position:,}: {what}; is it cut off?")
