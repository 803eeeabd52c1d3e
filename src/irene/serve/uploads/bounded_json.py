"""Reads JSON that a stranger sent, without letting it take the machine down.

What a small text can grow into is bounded before it is parsed: packed data are unpacked
up to a limit, and commas and brackets bound the number of values.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from typing import Any

from irene.errors import FormatError, LimitError

DEEPEST = 200
MOST_VALUES = 2_000_000
MOST_DIGITS = 40
"""Digits of a number: more than any cost or energy has."""
GZIP = b"\x1f\x8b"
OTHER_PACKED = {
    b"PK\x03\x04": "a zip archive",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data",
    b"\x28\xb5\x2f\xfd": "zstd data",
}
BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|([\[{])|([\]}])', re.DOTALL)


def unpacked(body: bytes, most_bytes: int) -> bytes:
    """The text of a file that may be packed with gzip."""
    for magic, what in OTHER_PACKED.items():
        if body.startswith(magic):
            raise FormatError(f"this is {what}: send JSON text, as it is or gzipped")
    if not body.startswith(GZIP):
        return body
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(body, most_bytes + 1)
    except zlib.error as error:
        raise FormatError(f"damaged gzip data: {error}") from error
    if len(text) > most_bytes:
        raise LimitError(f"it unpacks to more than {most_bytes:,} bytes")
    if not unpacker.eof:
        raise FormatError("damaged gzip data: the end is missing")
    if unpacker.unused_data:
        raise FormatError("gzip data with something behind them")
    if text.startswith(GZIP):
        raise FormatError("gzip data inside gzip data")
    return text


def parse(text: bytes) -> Any:
    """The value of a JSON text."""
    _check_size(text)
    try:
        return json.loads(
            text.decode("utf-8-sig"),
            parse_int=_whole_number,
            parse_float=_number,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise FormatError(f"not UTF-8 text: {error.reason}") from error
    except RecursionError as error:
        raise LimitError(f"nested more than {DEEPEST} levels deep") from error
    except ValueError as error:
        raise FormatError(f"not JSON: {error}") from error


def _check_size(text: bytes) -> None:
    """Bound the number of values and their depth before anything is made of them."""
    openings = text.count(b"[") + text.count(b"{")
    if openings + text.count(b",") > MOST_VALUES:
        raise LimitError(f"more than {MOST_VALUES:,} values")
    if openings > DEEPEST and _depth(text) > DEEPEST:
        raise LimitError(f"nested more than {DEEPEST} levels deep")


def _depth(text: bytes) -> int:
    depth = deepest = 0
    for match in BRACKETS.finditer(text):
        if match[1]:
            depth += 1
            deepest = max(deepest, depth)
            if deepest > DEEPEST:
                break
        elif match[2]:
            depth -= 1
    return deepest


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:MOST_DIGITS]} is too large for a number")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
