"""How busy all CPUs are, from `/proc/stat`.

A line of `/proc/stat` counts clock ticks (usually 10 ms) since the start of the system,
summed over the CPUs: user, nice, system, idle, iowait, irq, softirq, steal, guest,
guest_nice (Linux, Documentation/filesystems/proc.rst).

- Busy is user, nice, system, irq and softirq.
- iowait is not: the CPU is idle, a program waits for a disk.
- steal is not: the hypervisor gave the time to another machine. It stays part of the
  whole, so that a machine that gets half of its time is at most 50 % busy.
- guest is already in user, guest_nice in nice: neither is added again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from irene.errors import MeterError
from irene.meters.channel import NO_VALUE, SensorLostError

__all__ = ["LOAD_STEP_S", "PROC_VARIABLE", "CpuLoad", "KeptFile", "proc_root"]

PROC_VARIABLE = "IRENE_PROC_ROOT"
TICK_S = 1.0 / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
LOAD_STEP_S = 5 * TICK_S
"""Shortest stretch a load is told for, s: within a tick a CPU is busy or it is not."""
MOST_BYTES = 512  # the first line of /proc/stat is shorter
BUSY = (0, 1, 2, 5, 6)


def proc_root(root: Path | str | None = None) -> Path:
    """Where procfs is: the argument, `IRENE_PROC_ROOT`, or `/proc`."""
    return Path(root or os.environ.get(PROC_VARIABLE) or "/proc")


class KeptFile:
    """A file of the kernel that stays open: reading it again costs one system call.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, size: int = 4096) -> bytes:
        """Its beginning, as it is now.

        Raises:
            OSError: It cannot be read any more.
        """
        return os.pread(self._fd, size, 0)

    def close(self) -> None:
        """Close it; closing twice is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class CpuLoad:
    """The load of all CPUs between one reading and the next.

    Args:
        root: Where procfs is.
        clock: Tells the time, s.

    Raises:
        MeterError: There is no `/proc/stat` here.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_percent = NO_VALUE
        try:
            self._file = KeptFile(root / "stat")
        except OSError as error:
            raise MeterError(
                f"cannot read {root / 'stat'}: {error.strerror}; "
                "the load of the CPUs is known on Linux only"
            ) from error
        try:
            self._busy, self._all = self._ticks()
        except SensorLostError as error:
            self._file.close()
            raise MeterError(str(error)) from error
        self._read_s = clock()

    def percent(self) -> float:
        """Busy share of all CPUs since the last reading, 0 to 100.

        Within `LOAD_STEP_S` of the last reading little new can be known: the value is
        then that of before, or `NO_VALUE` if there is none yet.

        Raises:
            SensorLostError: The file cannot be read any more.
        """
        now_s = self._clock()
        if now_s - self._read_s < LOAD_STEP_S:
            return self._last_percent
        busy, total = self._ticks()
        if total > self._all:
            # Counts of iowait may go down, so busy may seem to outgrow the whole.
            share = (busy - self._busy) / (total - self._all)
            self._last_percent = 100.0 * min(1.0, max(0.0, share))
            self._busy, self._all, self._read_s = busy, total, now_s
        elif total < self._all:  # a CPU went offline
            self._busy, self._all, self._read_s = busy, total, now_s
        return self._last_percent

    def _ticks(self) -> tuple[int, int]:
        """Busy ticks and all ticks."""
        try:
            line = self._file.read(MOST_BYTES).partition(b"\n")[0].split()
            counts = [int(word) for word in line[1:9]]
        except (OSError, ValueError) as error:
            raise SensorLostError(f"{self._file.path}: {error}") from error
        if line[:1] != [b"cpu"] or len(counts) < 4:
            raise SensorLostError(f"{self._file.path}: not what Linux writes")
        counts += [0] * (8 - len(counts))  # kernels before 2.6.11 have no steal
        return sum([counts[i] for i in BUSY]), sum(counts)

    def close(self) -> None:
        """Let go of the file; closing twice is fine."""
        self._file.close()
