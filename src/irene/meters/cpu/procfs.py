"""Load, memory, clock and temperature, as Linux tells them; no energy.

| channel | what | new every |
|---|---|---|
| `proc:cpu` | busy share of all CPUs, 0 to 100 % | 50 ms |
| `proc:mem` | share of memory that is in use (all less available), % | 100 ms |
| `proc:process_cpu` | CPU of the process and its descendants, % of one core | 50 ms |
| `proc:process_mem` | resident memory of the same, bytes | 50 ms |
| `proc:cpu_clock` | mean clock of the CPUs, MHz | 100 ms; 5 s without cpufreq |
| `proc:cpu_temperature` | the hottest sensor of the CPU, °C | 100 ms |

What a machine does not tell has no channel. What is slow to read or to change is read
ten times a second at most; in between, a reading gives the last value.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from irene.errors import MeterError
from irene.meters.channel import NO_VALUE, Channel, Finding, SensorLostError, probed
from irene.meters.cpu.cpu_load import LOAD_STEP_S, CpuLoad, ProcessLoad
from irene.meters.cpu.cpu_sensors import Temperatures, open_clocks
from irene.meters.cpu.kernel_files import KeptFile, Roots

SLOW_S = 0.1
SHARE_OF_MACHINE = "iowait and steal are not busy"


class ProcMeter:
    """Load and memory of this machine and of one process.

    Args:
        roots: Where the kernel shows the machine.
        pid: The process; None for none.
        clock: Tells the time, s.

    Raises:
        MeterError: This is not Linux, or there is no such process.
    """

    name = "proc"
    holds_s = LOAD_STEP_S

    def __init__(
        self,
        roots: Roots,
        pid: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._load = CpuLoad(roots.proc, clock)
        self._memory = _Memory(roots)
        self._clocks = open_clocks(roots)
        self._temperatures = Temperatures(roots.sysfs)
        cores = os.cpu_count() or 1
        self._process = ProcessLoad(roots.proc, pid, cores, clock) if pid else None
        self._slow_s = -SLOW_S
        self._slow: list[float] = []
        self.channels = tuple(self._list_channels())

    def _list_channels(self) -> list[Channel]:
        channels = [
            _gauge("proc:cpu", "percent", LOAD_STEP_S, SHARE_OF_MACHINE),
            _gauge("proc:mem", "percent", SLOW_S),
        ]
        if self._clocks:
            clocks = self._clocks
            channels.append(
                _gauge("proc:cpu_clock", "mhz", clocks.period_s, clocks.note)
            )
        if self._temperatures:
            channels.append(_gauge("proc:cpu_temperature", "celsius", SLOW_S))
        if self._process:
            note = "of one core; the process and those it started"
            channels.append(_gauge("proc:process_cpu", "percent", LOAD_STEP_S, note))
            note = "resident; shared memory counts in each process"
            channels.append(_gauge("proc:process_mem", "bytes", LOAD_STEP_S, note))
        return channels

    def read(self) -> list[float]:
        """One value for each channel.

        Raises:
            SensorLostError: `/proc/stat` cannot be read any more.
        """
        values = [self._load.percent()]
        now_s = self._clock()
        if now_s - self._slow_s >= SLOW_S:
            self._slow, self._slow_s = self._read_slow(), now_s
        values += self._slow
        if self._process:
            try:
                values += self._process.read()
            except SensorLostError:  # it has ended; the machine goes on
                values += (NO_VALUE, NO_VALUE)
        return values

    def _read_slow(self) -> list[float]:
        values = [self._memory.percent()]
        if self._clocks:
            values.append(self._clocks.mhz())
        if self._temperatures:
            values.append(self._temperatures.celsius())
        return values

    def close(self) -> None:
        """Let go of all files; closing twice is fine."""
        for part in (self._load, self._memory, self._clocks, self._process):
            if part:
                part.close()
        self._temperatures.close()


class _Memory:
    """Share of memory in use: all of it less what a program could still get."""

    def __init__(self, roots: Roots) -> None:
        path = roots.proc / "meminfo"
        try:
            self._file = KeptFile(path)
        except OSError as error:
            raise MeterError(f"{path}: {error.strerror}") from error

    def percent(self) -> float:
        """Now; `NO_VALUE` if the kernel does not say."""
        try:
            lines = self._file.read(512).split(b"\n")
            sizes = {line.split(b":")[0]: line.split() for line in lines}
            total = int(sizes[b"MemTotal"][1])
            return 100.0 * (1.0 - int(sizes[b"MemAvailable"][1]) / total)
        except (OSError, KeyError, ValueError, IndexError, ZeroDivisionError):
            return NO_VALUE

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _gauge(name: str, quantity: str, resolution_s: float, note: str = "") -> Channel:
    return Channel(
        name,
        quantity,  # type: ignore[arg-type]
        counted=False,
        device="cpu",
        resolution_s=resolution_s,
        note=note,
    )


def open_proc(roots: Roots, pid: int | None = None) -> ProcMeter:
    """Open load and memory; the first reading already has a load.

    Args:
        roots: Where the kernel shows the machine.
        pid: Process to watch with those it starts; None for none.

    Raises:
        MeterError: This is not Linux, or there is no such process.
    """
    meter = ProcMeter(roots, pid)
    time.sleep(LOAD_STEP_S)
    return meter


def probe(roots: Roots) -> Finding:
    """What load and memory there is to read here."""
    return probed("proc", lambda: ProcMeter(roots), _summary)


def _summary(meter: ProcMeter) -> str:
    words = {
        "proc:cpu_clock": "clock of the CPUs",
        "proc:cpu_temperature": "temperature of the CPU",
    }
    names = {channel.name for channel in meter.channels}
    there = [text for name, text in words.items() if name in names]
    missing = [text for name, text in words.items() if name not in names]
    detail = ", ".join(["load", "memory", *there])
    if missing:
        detail += f"; this machine does not tell the {' and the '.join(missing)}"
    return detail
