"""What a process may use, set by the process itself before it does anything.

The parent cannot set them: between fork and exec a process with threads must not run
Python. Where the system has no such limits, nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import resource

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Of glibc's malloc.h."""
_LARGE_BYTES = 524_288
"""What is as large is given back when it is free; otherwise that grows with use."""
_SPARE_FILES = 500


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that one task may use, None for any; waiting for a device is no time."""

    wall_s: float | None = None
    cpu_s: float | None = None
    file_bytes: int | None = None
    result_bytes: int | None = None

    def set_here(self) -> None:
        """Bound this process and those it will start."""
        if sys.platform == "win32":
            return
        limits = {resource.RLIMIT_CORE: (0, 0)}
        if self.cpu_s is not None:
            cpu_s = int(self.cpu_s) + 1
            # Between the two the kernel says what it is about: SIGXCPU, not SIGKILL.
            limits[resource.RLIMIT_CPU] = (cpu_s, cpu_s + 5)
        if self.file_bytes is not None:
            limits[resource.RLIMIT_FSIZE] = (self.file_bytes, self.file_bytes)
        for name, both in limits.items():
            with suppress(ValueError, OSError):  # a lower one is set already
                resource.setrlimit(name, both)


def give_way(nice: int) -> None:
    """Let other processes go first.

    Where the kernel shares the CPUs among sessions first, as on desktops, a process
    that began its own has to say so for its session, too. Where that is forbidden, as
    to many services, nothing happens.
    """
    with suppress(OSError):
        os.nice(nice)
        Path("/proc/self/autogroup").write_text(str(nice), encoding="ascii")


def limit_memory(further_bytes: int) -> None:
    """Let this process take no more than so much on top of what it has; 0: any.

    Memory of its own counts, libraries that are only mapped do not: those for GPUs take
    far more addresses than memory.
    """
    if sys.platform == "win32" or not further_bytes:
        return
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except (OSError, ValueError, IndexError):
        return
    present = pages * resource.getpagesize()
    most = present + further_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def allow_files(connections: int) -> None:
    """Let this process have as many files open as it may have connections.

    Many systems begin with 1,024, which a thousand followers of a job use up.
    """
    if sys.platform == "win32":
        return
    wanted = connections + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def keep_little_memory() -> None:
    """Have all threads take memory from few places, and give back what is large.

    Each place keeps what has become free.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # a C library that has none
            set_option = ctypes.CDLL(None).mallopt
            set_option(_M_ARENA_MAX, 2)
            set_option(_M_MMAP_THRESHOLD, _LARGE_BYTES)
            set_option(_M_TRIM_THRESHOLD, 2 * _LARGE_BYTES)


def return_memory() -> None:
    """Give the system back what this process has taken and no longer uses."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
