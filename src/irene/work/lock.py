"""Locks between processes, which a killed process leaves free."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from irene.errors import UsageError

__all__ = ["Claim", "alone_on", "claim"]


class Claim:
    """The lock of a file; given back by `release`, and when the process ends.

    Args:
        path: The file; made if need be.
        wait: Whether to wait for a process that has it.

    Raises:
        BlockingIOError: Another process has it, and `wait` is false.
        UsageError: The file cannot be made.
    """

    def __init__(self, path: Path, wait: bool) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = _opened(path)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        try:
            _lock(self._handle, wait)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give it back."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _opened(path: Path) -> int:
    """The file, for writing if it is ours: file systems of a network ask for that."""
    for access in (os.O_RDWR, os.O_RDONLY):
        try:
            return os.open(path, access | os.O_CLOEXEC)
        except FileNotFoundError:
            break
        except PermissionError:  # of another user
            continue
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _lock(handle: int, wait: bool) -> None:
    try:
        import fcntl
    except ImportError:  # no locks on this system: one collector at a time, please
        return
    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def claim(path: Path) -> Claim | None:
    """Take the lock of a file, if no other process has it.

    Args:
        path: The file; made if need be, and never removed: a lock on a removed file
            would keep nobody out.
    """
    try:
        return Claim(path, wait=False)
    except BlockingIOError:
        return None


@contextmanager
def alone_on(device: str) -> Iterator[None]:
    """Be the only one who measures on a device of this machine; wait for that.

    Args:
        device: As torch names it. A GPU is known by its number in the machine, also
            where this process sees only some of them.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "") if device != "cpu" else ""
    name = f"{device}-{visible}".strip("-").replace(":", "-").replace(",", "-")
    folder = Path(tempfile.gettempdir()) / "irene-devices"
    held = Claim(_shared(folder) / f"{name}.lock", wait=True)
    try:
        yield
    finally:
        held.release()


def _shared(folder: Path) -> Path:
    """A folder that all users of the machine can put locks into."""
    try:
        folder.mkdir(mode=0o777)
        folder.chmod(0o1777)
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from error
    return folder
