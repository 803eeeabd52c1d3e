"""Locks between processes, which a killed process leaves free.

One of them is special: whoever measures on a device of this machine holds the lock of
that device, be it for `irene measure`, `irene collect` or a job of `irene serve`.
"""

from __future__ import annotations

import getpass
import logging
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from irene.errors import UsageError
from irene.whole_file import whole_file
from irene.work.task import report

Lock = BaseFileLock
"""Given back by `release`, and when the process ends, however it ends."""
LONGEST_NAME = 32
PATIENCE_S = 1.0
"""Who waits longer than this for a device says so, s."""

logger = logging.getLogger(__name__)


def take(path: Path, wait: bool = False) -> Lock | None:
    """The lock of a file, taken; None if another one has it and is not waited for.

    The file is made if need be, and nothing is written to it. A symbolic link is
    refused: it could lead anywhere.

    Raises:
        UsageError: The file cannot be made or opened.
    """
    lock = FileLock(path, thread_local=False)
    return lock if _taken(lock, -1 if wait else 0) else None


def _taken(lock: Lock, timeout_s: float) -> bool:
    try:
        Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=timeout_s)
    except Timeout:
        return False
    except OSError as error:
        raise UsageError(f"cannot lock {lock.lock_file}: {error.strerror}") from error
    return True


def kept_name(path: Path) -> str:
    """A name that is kept in a file; the first one who asks makes it up."""
    lock = take(path.with_name(f".{path.name}.lock"), wait=True)
    assert lock is not None
    try:
        if path.is_symlink():
            raise UsageError(f"{path} is a symbolic link: remove it")
        if not path.exists():
            with whole_file(path) as file:
                file.write(uuid.uuid4().hex.encode())
        return path.read_text(encoding="ascii").strip()[:LONGEST_NAME]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    finally:
        lock.release()


@contextmanager
def alone_on(device: str) -> Iterator[None]:
    """Be the only one who measures on a device of this machine; wait for that.

    Who has to wait for more than a moment says for whom: in the log, and to the process
    that started this one, whose clock stands still meanwhile. A thread that is alone on
    a device may ask for it again. A GPU is known by its number in the machine, also
    where this process sees only some of them.

    Raises:
        UsageError: The lock cannot be used.
    """
    lock = _device_lock(_shared_folder() / f"{_machine_name(device)}.lock")
    if not _taken_by_all(lock, PATIENCE_S):
        words = f"waiting: {_holder(lock)} measures on {device}"
        logger.warning("%s", words)
        report(0, 0, words, waits=True)
        _taken_by_all(lock, -1)
        report(0, 0, f"alone on {device}")
    try:
        # Who cannot say beside the lock that it is theirs has it all the same.
        with suppress(UsageError), whole_file(_signature(lock), mode=0o644) as file:
            file.write(f"process {os.getpid()} of {_user()}".encode())
        yield
    finally:
        lock.release()


@cache
def _device_lock(path: Path) -> Lock:
    """One object per file: each thread takes it for itself, as often as it likes."""
    return FileLock(path, mode=0o666)  # of all users of the machine


def _taken_by_all(lock: Lock, timeout_s: float) -> bool:
    try:
        return _taken(lock, timeout_s)
    except UsageError as error:
        raise UsageError(
            f"{error}: one measurement at a time runs on a device, and the lock for "
            "that belongs to another user; ask them to remove it, or to `chmod a+rw` it"
        ) from error


def _machine_name(device: str) -> str:
    """A device by its number in the machine: `cpu`, `cuda-1`."""
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return kind
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "") if kind == "cuda" else ""
    numbers = [number.strip() for number in visible.split(",") if number.strip()]
    place = int(index or 0)
    return f"{kind}-{numbers[place] if place < len(numbers) else place}"


def _shared_folder() -> Path:
    """A folder that all users of the machine can put locks into."""
    folder = Path(tempfile.gettempdir()) / "irene-locks"
    try:
        folder.mkdir()
        folder.chmod(0o777)  # whatever the umask is
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from error
    return folder


def _holder(lock: Lock) -> str:
    try:
        return _signature(lock).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return "another process"


def _signature(lock: Lock) -> Path:
    return Path(lock.lock_file).with_suffix(".holder")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as containers have them
        return f"user {os.getuid()}"
