"""What stands before the weights of a GGUF file."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irene.errors import ConfigError

MAGIC = b"GGUF"
MOST_KEPT = 4096
"""Numbers of an array of a GGUF header that are kept; vocabularies are longer."""
TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0",
    9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
    22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}  # fmt: skip
"""Numbers of the types of tensors in a GGUF file."""
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q",
           11: "q", 12: "d"}  # fmt: skip
TEXT, ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the weights.

    Attributes:
        values: By key; of a long array or one of texts its length.
        tensors: Shape, the innermost size first, and type, by name.
    """

    values: Mapping[str, Any]
    tensors: Mapping[str, tuple[tuple[int, ...], str]]


def header_of(path: Path) -> Header:
    """The header of a file; nothing behind it is read."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ConfigError(f"{path} is not a GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return read_header(data, str(path))


def read_header(data: mmap.mmap | bytes, name: str) -> Header:
    """The header at the beginning of some bytes.

    Raises:
        ConfigError: Its end is missing, or it is damaged or of another version.
    """
    reader = _Reader(data, len(MAGIC))
    try:
        version = reader.number("I")
        if version not in (2, 3):
            raise ConfigError(
                f"{name} is a GGUF file of version {version}, or of a machine "
                "with another byte order: versions 2 and 3 are read"
            )
        count, keys = reader.number("Q"), reader.number("Q")
        values = {reader.text(): reader.value() for _ in range(keys)}
        return Header(values, dict(reader.tensor() for _ in range(count)))
    except (struct.error, LookupError, UnicodeError, OverflowError) as error:
        raise ConfigError(
            f"{name} is cut short or damaged within its header"
        ) from error


class _Reader:
    """Reads a GGUF header from front to back."""

    def __init__(self, data: mmap.mmap | bytes, at: int) -> None:
        self._data, self._at = data, at

    def number(self, kind: str) -> Any:
        """One number."""
        (value,) = struct.unpack_from(f"<{kind}", self._data, self._at)
        self._at += struct.calcsize(kind)
        return value

    def text(self) -> str:
        """A text after its length."""
        length = self.number("Q")
        self._at += length
        if self._at > len(self._data):
            raise IndexError(f"a text of {length} bytes does not fit")
        return self._data[self._at - length : self._at].decode()

    def value(self) -> Any:
        """A value after its type."""
        kind = self.number("I")
        if kind == TEXT:
            return self.text()
        return self._array() if kind == ARRAY else self.number(SCALARS[kind])

    def _array(self) -> Any:
        kind, count = self.number("I"), self.number("Q")
        if kind == TEXT:
            at, length_at = self._at, struct.Struct("<Q").unpack_from
            for _ in range(count):  # of a vocabulary: hundreds of thousands
                at += 8 + length_at(self._data, at)[0]
            self._at = at
            return count
        if kind == ARRAY:
            raise KeyError("an array of arrays")
        if count <= MOST_KEPT:
            return [self.number(SCALARS[kind]) for _ in range(count)]
        self._at += count * struct.calcsize(SCALARS[kind])
        return count

    def tensor(self) -> tuple[str, tuple[tuple[int, ...], str]]:
        """Name, shape and type of a tensor; where it lies is passed over."""
        name = self.text()
        shape = tuple(self.number("Q") for _ in range(self.number("I")))
        kind = TYPES.get(number := self.number("I"), f"type {number}")
        self.number("Q")
        return name, (shape, kind)
