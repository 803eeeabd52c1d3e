"""Lines that wall meters write on a serial line, and the watts in them.

A format is `emonpi`, or the columns of a line in order, of `watts`, `volts`, `amps`,
`timestamp` and `-` for what is of no interest: `volts,amps`, `timestamp,volts,amps`,
`watts`. Columns are parted by commas, semicolons or blanks. A meter's own timestamp is
not used: its clock is not ours.

emonPi and emonTx write radio packets as decimal bytes: `OK`, the node, then the fields
of a C structure, low byte first, and perhaps the signal strength in brackets. Node 5 is
the emonPi itself; its fields are power1, power2, power1+2 (W) and Vrms (V/100), 16 bits
each, then temperatures and a pulse count (openenergymonitor/emonpi, `PayloadTX`).

A line may end in `*` and a checksum in hexadecimal digits over what stands between an
optional `$` and the `*`, as NMEA 0183 has it: `xor` of two digits, or `crc16` of four
(CRC-16/XMODEM).
"""

from __future__ import annotations

import binascii
import functools
import math
import operator
import re
from collections.abc import Callable
from typing import Literal

from irene.errors import UsageError

Checksum = Literal["auto", "xor", "crc16"]
COLUMNS = ("watts", "volts", "amps", "timestamp", "-")
SEPARATOR = re.compile(r"[,;\s]+")
SUFFIX = re.compile(rb"\*([0-9A-Fa-f]+)$")
SIGNAL = re.compile(r"\(-?\d+\)$")
XOR_DIGITS = 2
CRC_DIGITS = 4


class BadLineError(ValueError):
    """A line that is not of the format."""


class BadChecksumError(BadLineError):
    """A line whose checksum is wrong, or missing where there must be one."""


class OtherNodeError(BadLineError):
    """A packet of another node on the same line: nothing is wrong with it."""


def line_parser(
    line_format: str, node: int = 5, field: int = 1
) -> Callable[[str], float]:
    """The function that finds the watts in a line.

    Args:
        line_format: `emonpi`, or the columns of a line.
        node: Node of an emonPi packet whose power is wanted.
        field: Which 16-bit field of the packet is the power, from 1.

    Raises:
        UsageError: There is no such format.
    """
    if line_format == "emonpi":
        return functools.partial(_emonpi_watts, node=node, field=field)
    columns = line_format.split(",")
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown:
        raise UsageError(
            f"no serial format {line_format!r}: give emonpi, or columns of "
            f"{', '.join(COLUMNS)}, as in format=volts,amps"
        )
    if "watts" not in columns and not {"volts", "amps"} <= set(columns):
        raise UsageError(
            f"serial format {line_format!r} gives no power: it needs watts, "
            "or volts and amps"
        )
    return functools.partial(_column_watts, columns=columns)


def _emonpi_watts(text: str, node: int, field: int) -> float:
    words = SIGNAL.sub("", text).split()
    if len(words) < 2 or words[0] != "OK":
        raise BadLineError("not an emonPi packet")
    try:
        numbers = bytes(int(word) for word in words[1:])
    except ValueError as error:
        raise BadLineError("not bytes") from error
    if numbers[0] != node:
        raise OtherNodeError(f"node {numbers[0]}")
    end = 1 + 2 * field
    if len(numbers) < end:
        raise BadLineError(f"a packet without field {field}")
    return _power(int.from_bytes(numbers[end - 2 : end], "little", signed=True))


def _column_watts(text: str, columns: list[str]) -> float:
    words = SEPARATOR.split(text)
    if len(words) != len(columns):
        raise BadLineError(f"{len(words)} columns, not {len(columns)}")
    try:
        values = {c: float(w) for c, w in zip(columns, words, strict=True) if c != "-"}
    except ValueError as error:
        raise BadLineError("not a number") from error
    if "watts" in values:
        return _power(values["watts"])
    return _power(values["volts"] * values["amps"])


def _power(watts: float) -> float:
    # No machine gives energy back: a negative value is noise, or a clamp the wrong way.
    if not math.isfinite(watts) or watts < 0:
        raise BadLineError(f"{watts} W")
    return watts


def checked_text(line: bytes, checksum: Checksum = "auto") -> str:
    """A line as text, without its checksum once that is found right.

    Args:
        line: The line without its end.
        checksum: `auto` checks one that is there, by its length; the others insist.

    Raises:
        BadChecksumError: The checksum is wrong or missing.
        BadLineError: The line is no text.
    """
    suffix = SUFFIX.search(line)
    if suffix is None:
        if checksum != "auto" or b"*" in line:
            raise BadChecksumError("no checksum")
        return _text(line)
    digits = suffix.group(1)
    body = line[: suffix.start()].removeprefix(b"$")
    wanted = {"xor": XOR_DIGITS, "crc16": CRC_DIGITS}.get(checksum, len(digits))
    if len(digits) != wanted or int(digits, 16) != _sum_of(body, wanted):
        raise BadChecksumError("wrong checksum")
    return _text(body)


def _sum_of(body: bytes, digits: int) -> int | None:
    if digits == XOR_DIGITS:
        return functools.reduce(operator.xor, body, 0)
    return binascii.crc_hqx(body, 0) if digits == CRC_DIGITS else None


def _text(body: bytes) -> str:
    try:
        return body.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise BadLineError("not text") from error
