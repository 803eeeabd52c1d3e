"""Keeping other processes off the CPUs while a round runs.

Linux runs real-time threads before all others; the kernel leaves the others 5 % of the
time all the same. Priorities belong to threads: a process that is killed leaves nothing
behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from irene.errors import UsageError

__all__ = ["check_exclusive", "exclusively", "real_time"]

PRIORITY = 1
TASKS = Path("/proc/self/task")


def check_exclusive() -> None:
    """Refuse where threads cannot be given real-time priority.

    Raises:
        UsageError: This is not Linux, or it is not allowed.
    """
    if not (hasattr(os, "sched_setscheduler") and TASKS.is_dir()):
        raise UsageError("keeping other processes off the CPUs needs Linux")
    try:
        with real_time():
            pass
    except OSError as error:
        raise UsageError(
            f"keeping other processes off the CPUs is not allowed ({error.strerror}): "
            "run as root, or with CAP_SYS_NICE"
        ) from error


@contextmanager
def real_time() -> Iterator[None]:
    """Run the threads of this process and of its children before all others."""
    changed: list[int] = []
    try:
        for thread in _threads():
            if os.sched_getscheduler(thread) == os.SCHED_OTHER:
                os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(PRIORITY))
                changed.append(thread)
        yield
    finally:
        for thread in changed:
            _back_to_normal(thread)


def _back_to_normal(thread: int) -> None:
    try:
        os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
    except ProcessLookupError:  # it has ended meanwhile
        return


def _threads() -> list[int]:
    """Threads of this process, and of the processes it has started (the sampler)."""
    found = []
    for task in TASKS.iterdir():
        found.append(int(task.name))
        try:
            children = (task / "children").read_text(encoding="ascii").split()
        except OSError:  # the thread has ended, or the kernel does not tell
            continue
        found += map(int, children)
    return found


def exclusively(wanted: bool) -> AbstractContextManager[None]:
    """Real-time priority in the block if it is wanted."""
    return real_time() if wanted else nullcontext()
