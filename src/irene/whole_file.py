"""Files that appear whole or not at all, and the folder of what can be made again."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from irene.errors import UsageError


@contextmanager
def trying_to(
    do: str, path: Path | str, refuse: type[UsageError] = UsageError
) -> Iterator[None]:
    """Say in one way that something cannot be done to a file."""
    try:
        yield
    except OSError as error:
        told = f"cannot {do} {path}: {error.strerror or error}"
        raise refuse(told) from error


@contextmanager
def whole_file(
    path: Path, make_folder: bool = True, mode: int | None = None
) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name when all of it is on disk.

    Args:
        path: Name of the finished file.
        make_folder: Make its folder if there is none.
        mode: Who may read and write it; None: whom the user's umask lets.
    """
    with trying_to("write", path):
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask() if mode is None else mode)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        raise


def append_whole(handle: int, data: bytes, end: int) -> None:
    """Write at the end of an open file and wait for the disk, all of it or nothing.

    Args:
        handle: Of the file.
        data: What comes.
        end: Where the file ends; what is beyond, of a writer that was killed, goes.

    Raises:
        OSError: There is no room; the file ends where it did.
    """
    os.ftruncate(handle, end)
    os.lseek(handle, end, os.SEEK_SET)
    try:
        while data:
            data = data[os.write(handle, data) :]
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, end)
        os.lseek(handle, end, os.SEEK_SET)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def cache_folder() -> Path:
    """The folder of this user for what can be made again (`XDG_CACHE_HOME`)."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    if chosen:
        return Path(chosen)
    home = Path("~").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
