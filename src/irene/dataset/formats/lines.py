"""Lines of a text file, none longer than allowed, with their place in errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from irene.errors import FormatError, UsageError

__all__ = ["read_lines"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: Path, longest_bytes: int) -> Iterator[str]:
    """Read a UTF-8 file line by line.

    Args:
        path: The file.
        longest_bytes: Length that no line may exceed, bytes.

    Yields:
        Every line with its end.

    Raises:
        UsageError: The file cannot be read.
        FormatError: A line is too long or not UTF-8; with file and line.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(longest_bytes + 1):
                number += 1
                if len(line) > longest_bytes:
                    raise FormatError(
                        f"{path}:{number}: the line is longer than "
                        f"{longest_bytes:,} bytes: not data of ours"
                    )
                yield _decode(line, number, path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _decode(line: bytes, number: int, path: Path) -> str:
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}:{number}: not UTF-8 text: {error}") from error
