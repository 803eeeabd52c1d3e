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
from contextlib import ExitStack, closing

from irene.errors import MeterError
from irene.meters.channel import NO_VALUE, Channel, SensorLostError
from irene.meters.cpu.cpu_load import LOAD_STEP_S, CpuLoad, ProcessLoad
from irene.meters.cpu.cpu_sensors import open_clocks, open_memory, open_temperatures
from irene.meters.cpu.kernel_files import Roots

SHARE_OF_MACHINE = "iowait and steal are not busy"
OF_ONE_CORE = "of one core; the process and those it started"
OPTIONAL = {
    "proc:cpu_clock": "clock of the CPUs",
    "proc:cpu_temperature": "temperature of the CPU",
}
RESIDENT = "resident; shared memory counts in each process"


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
    holds_s = settles_s = LOAD_STEP_S

    def __init__(
        self,
        roots: Roots,
        pid: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        with ExitStack() as files:
            self._load = files.enter_context(closing(CpuLoad(roots.proc, clock)))
            channels = [_gauge("proc:cpu", "percent", LOAD_STEP_S, SHARE_OF_MACHINE)]
            try:
                memory = open_memory(roots, clock)
            except OSError as error:
                raise MeterError(f"{error.filename}: {error.strerror}") from error
            self._slow = [files.enter_context(closing(memory))]
            channels.append(_gauge("proc:mem", "percent", memory.period_s))
            for name, unit, sensors in (
                ("cpu_clock", "mhz", open_clocks(roots, clock)),
                ("cpu_temperature", "celsius", open_temperatures(roots, clock)),
            ):
                if sensors:
                    self._slow.append(files.enter_context(closing(sensors)))
                    told = sensors.period_s, sensors.note
                    channels.append(_gauge(f"proc:{name}", unit, *told))
            self._process: ProcessLoad | None = None
            if pid:
                process = ProcessLoad(roots.proc, pid, os.cpu_count() or 1, clock)
                self._process = files.enter_context(closing(process))
                channels += [
                    _gauge("proc:process_cpu", "percent", LOAD_STEP_S, OF_ONE_CORE),
                    _gauge("proc:process_mem", "bytes", LOAD_STEP_S, RESIDENT),
                ]
            self.channels = tuple(channels)
            self._files = files.pop_all()

    def read(self) -> list[float]:
        """One value for each channel.

        Raises:
            SensorLostError: `/proc/stat` cannot be read any more.
        """
        values = [self._load.percent(), *(sensors.value() for sensors in self._slow)]
        if self._process:
            try:
                values += self._process.read()
            except SensorLostError:  # it has ended; the machine goes on
                values += (NO_VALUE, NO_VALUE)
        return values

    @property
    def summary(self) -> str:
        """What is told, and what is not, in words."""
        names = {channel.name for channel in self.channels}
        there = [text for name, text in OPTIONAL.items() if name in names]
        missing = [text for name, text in OPTIONAL.items() if name not in names]
        detail = ", ".join(["load", "memory", *there])
        if missing:
            detail += f"; this machine does not tell the {' and the '.join(missing)}"
        return detail

    def close(self) -> None:
        """Let go of all files; closing twice is fine."""
        self._files.close()


def _gauge(name: str, quantity: str, resolution_s: float, note: str = "") -> Channel:
    return Channel(
        name,
        quantity,  # type: ignore[arg-type]
        counted=False,
        device="cpu",
        resolution_s=resolution_s,
        note=note,
    )
