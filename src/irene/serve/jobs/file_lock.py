"""Locks that a process holds while it lives, and leaves free however it ends."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from irene.errors import UsageError

__all__ = ["FileLock", "measurement_lock"]


class FileLock:
    """An exclusive lock on a file.

    Args:
        path: The file; it is made if there is none, and nothing is written to it. A
            symbolic link is refused: it could lead anywhere.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def take(self) -> bool:
        """Take the lock if it is free.

        Raises:
            UsageError: The file cannot be opened.
        """
        if self._handle is not None:
            return True
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def wait(self, still_wanted: Callable[[], bool], period_s: float = 0.5) -> bool:
        """Take the lock when it becomes free; False if it is not wanted any more."""
        while not self.take():
            if not still_wanted():
                return False
            time.sleep(period_s)
        return True

    def free(self) -> None:
        """Leave the lock to others."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            try:
                return os.open(self.path, flags)
            except FileNotFoundError:
                # Where the folder is everybody's, others may lock it, too.
                return os.open(self.path, flags | os.O_CREAT, 0o666)
        except OSError as error:
            raise UsageError(f"cannot lock {self.path}: {error.strerror}") from error


def measurement_lock() -> FileLock:
    """The lock of this machine's power: one measurement at a time."""
    return FileLock(Path(tempfile.gettempdir()) / "irene-measurement.lock")
