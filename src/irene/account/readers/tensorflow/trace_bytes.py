"""The bytes of a trace file, gzipped or not."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from irene.errors import FormatError, UsageError

__all__ = ["GZIP", "LARGEST", "opening", "trace_bytes"]

GZIP = b"\x1f\x8b"
LARGEST = 2**31
"""More bytes than this no trace of ours has: protobuf messages end there."""


def trace_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """All bytes of a file, unpacked.

    Args:
        path: The file.
        largest: Most bytes it may have when unpacked.

    Raises:
        UsageError: It cannot be opened.
        FormatError: It is cut off, broken or too large.
    """
    data = _read(path, largest + 1)
    if len(data) > largest:
        raise FormatError(f"{path} has more than {largest:,} bytes: not a trace")
    return data


def opening(path: Path, count: int) -> bytes:
    """The first bytes of a file, unpacked; fewer if it is shorter or broken.

    Raises:
        UsageError: It cannot be opened.
    """
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
