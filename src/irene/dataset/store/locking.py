"""Locks between processes that a killed process leaves free."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from irene.errors import UsageError

__all__ = ["held", "take", "try_lock"]


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of a file; wait for it as long as another process has it.

    Args:
        path: The file; made if need be.

    Raises:
        UsageError: The file cannot be made.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    try:
        take(handle)
        yield
    finally:
        os.close(handle)  # which gives the lock back


def take(handle: int) -> None:
    """Take the lock of an open file; wait for it."""
    try:
        import fcntl
    except ImportError:  # no locks on this system: one writer at a time, please
        return
    fcntl.flock(handle, fcntl.LOCK_EX)


def try_lock(path: Path) -> bool:
    """Whether nobody holds the lock of a file."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
