"""How busy all CPUs are, and what a process and those it started use.

A line of `/proc/stat` counts clock ticks (usually 10 ms) since the start of the system,
summed over the CPUs: user, nice, system, idle, iowait, irq, softirq, steal, guest,
guest_nice (Linux, Documentation/filesystems/proc.rst).

- Busy is user, nice, system, irq and softirq.
- iowait is not: the CPU is idle, a program waits for a disk.
- steal is not: the hypervisor gave the time to another machine. It stays part of the
  whole, so that a machine that gets half of its time is at most 50 % busy.
- guest is already in user, guest_nice in nice: neither is added again.

`/proc/PID/stat` of the process and of each descendant stays open, so a reading costs
one system call for each of them. Who the descendants are is found by a walk over
`/proc`, which is slow, so it happens at most once a second and takes at most 0.2 % of
the time. The counters that Linux keeps of ended children (`cutime`) would not do
instead: they move only when a child has ended. A control group would do, but few
programs have one of their own.

A child is counted from the walk that finds it. What it used before, and what children
used that came and went between two walks, arrives when they end, as `cutime`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from irene.errors import MeterError
from irene.meters.channel import NO_VALUE, SensorLostError
from irene.meters.cpu.kernel_files import KeptFile

TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
LOAD_STEP_S = 5 / TICKS_PER_S
"""Shortest stretch a load is told for, s: within a tick a CPU is busy or it is not."""
MOST_BYTES = 512  # the first line of /proc/stat is shorter
BUSY = (0, 1, 2, 5, 6)
WALK_PERIOD_S = 1.0
WALK_SHARE = 2e-3
PARENT, TIMES, PAGES = 1, slice(11, 15), 21
"""Fields of `/proc/PID/stat` after the name, from 0: parent; user, system and ended
children's user and system ticks; resident pages."""


class CpuLoad:
    """The load of all CPUs between one reading and the next."""

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


class ProcessLoad:
    """What a process and its descendants use; never more than all `cores`."""

    def __init__(
        self,
        root: Path,
        pid: int,
        cores: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root, self._pid, self._cores, self._clock = root, pid, cores, clock
        try:
            self._files = {pid: KeptFile(root / str(pid) / "stat")}
        except OSError as error:
            raise MeterError(f"no process {pid} to watch: {error.strerror}") from error
        self._last = (NO_VALUE, NO_VALUE)
        self._walk_s = self._read_s = clock()
        self._walk()
        self._ticks = self._used()[0]

    def read(self) -> tuple[float, float]:
        """Percent of one core since the last reading, and resident bytes now.

        Memory that several processes share is counted in each of them. Within
        `LOAD_STEP_S` of the last reading the values are those of before.

        Raises:
            SensorLostError: The process has ended.
        """
        now_s = self._clock()
        since_s = now_s - self._read_s
        if since_s < LOAD_STEP_S:
            return self._last
        if now_s >= self._walk_s:
            self._walk()
        ticks, resident_bytes = self._used()
        share = (ticks - self._ticks) / TICKS_PER_S / since_s
        self._last = 100.0 * min(self._cores, max(0.0, share)), resident_bytes
        self._ticks, self._read_s = ticks, now_s
        return self._last

    def close(self) -> None:
        """Let go of the files; closing twice is fine."""
        for file in self._files.values():
            file.close()

    def _used(self) -> tuple[int, float]:
        """Ticks so far and resident bytes of all that still run."""
        ticks = pages = 0
        for pid, file in list(self._files.items()):
            fields = _fields(file)
            if fields is None:
                if pid == self._pid:
                    raise SensorLostError(f"process {pid} has ended")
                # What it used is in its parent's cutime from now on.
                self._files.pop(pid).close()
                continue
            ticks += sum(map(int, fields[TIMES]))
            pages += int(fields[PAGES])
        return ticks, float(pages * PAGE_BYTES)

    def _walk(self) -> None:
        """Find new descendants; they count from now on."""
        began_s = time.perf_counter()
        parents = dict(_parents(self._root))
        for pid in _descendants(self._pid, parents):
            if pid not in self._files:
                self._adopt(pid)
        took_s = time.perf_counter() - began_s
        self._walk_s = self._clock() + max(WALK_PERIOD_S, took_s / WALK_SHARE)

    def _adopt(self, pid: int) -> None:
        try:
            file = KeptFile(self._root / str(pid) / "stat")
        except OSError:  # it has just ended
            return
        fields = _fields(file)
        if fields is None:
            file.close()
            return
        self._files[pid] = file
        if hasattr(self, "_ticks"):
            self._ticks += sum(map(int, fields[TIMES]))


def _fields(file: KeptFile) -> list[bytes] | None:
    """Fields of a process after its name, which may hold spaces; None if it is gone."""
    try:
        fields = file.read(1024).rpartition(b")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > PAGES else None


def _parents(root: Path) -> Iterator[tuple[int, int]]:
    with os.scandir(root) as entries:
        pids = [entry.name for entry in entries if entry.name.isdigit()]
    for pid in pids:
        with suppress(OSError), closing(KeptFile(root / pid / "stat")) as file:
            if (fields := _fields(file)) is not None:  # else it has just ended
                yield int(pid), int(fields[PARENT])


def _descendants(pid: int, parents: dict[int, int]) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    waiting, seen = [pid], {pid}
    while waiting:
        new = [c for c in children.get(waiting.pop(), ()) if c not in seen]
        seen.update(new)
        waiting += new
        yield from new
