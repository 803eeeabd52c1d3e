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

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from irene.errors import MeterError
from irene.meters.channel import NO_VALUE, Channel, Sensor, SensorMeter
from irene.meters.cpu.cpu_load import LOAD_STEP_S, CpuLoad, ProcessLoad
from irene.meters.cpu.kernel_files import KeptFile, Roots, text_in

CPU_ZONES = ("x86_pkg_temp", "cpu", "soc", "coretemp", "k10temp", "zenpower")
"""Beginnings of the names of sensors that belong to a CPU."""
CLOCK_STEP_S = 0.1
"""How often the clocks are read at most, s; asking may wake a CPU."""
SLOW_S = 0.1
"""How often memory and temperatures are read at most, s."""
CPUINFO_PERIOD_S = 5.0
"""Of a large machine this file takes milliseconds to read, s."""
MOST_CLOCKS = 16
"""CPUs whose clock is read; of more, some that lie evenly between the others."""


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@dataclass(eq=False)
class Sensors:
    """Files of the kernel that tell one value together; false where there is none.

    `values` reads one of them, which says nothing if that fails; `combine` makes one of
    all. They are read once in `period_s` at most, and closed with this.
    """

    files: Sequence[KeptFile]
    values: Callable[[KeptFile], Iterable[float]]
    combine: Callable[[Sequence[float]], float] = _mean
    period_s: float = SLOW_S
    clock: Callable[[], float] = time.monotonic
    note: str = ""
    _last: float = field(default=NO_VALUE, init=False)
    _next_s: float = field(default=-math.inf, init=False)

    def __len__(self) -> int:
        return len(self.files)

    def value(self) -> float:
        """Now, or up to a period ago; `NO_VALUE` where nothing can be read."""
        now_s = self.clock()
        if now_s >= self._next_s:
            told = list(self._told())
            self._last = self.combine(told) if told else NO_VALUE
            self._next_s = now_s + self.period_s
        return self._last

    def _told(self) -> Iterator[float]:
        for file in self.files:
            # A CPU may be offline, or say `<unknown>`.
            with suppress(OSError, ValueError, LookupError, ZeroDivisionError):
                yield from self.values(file)

    def close(self) -> None:
        """Let go of the files; closing twice is fine."""
        for file in self.files:
            file.close()


def _cpufreq(roots: Roots) -> list[Path]:
    """What tells the clock of each CPU, kHz; of many CPUs, of some."""
    paths = sorted(roots.cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    return paths[:: -(-len(paths) // MOST_CLOCKS) or 1]


def _opened(paths: Iterable[Path]) -> list[KeptFile]:
    files = []
    for path in paths:
        with suppress(OSError):
            files.append(KeptFile(path))
    return files


def _thousandths(file: KeptFile) -> list[float]:
    return [int(file.read(32)) / 1000.0]


def _clocks_said(cpuinfo: KeptFile) -> list[float]:
    lines = cpuinfo.read(1 << 20).split(b"\n")
    return [float(line.partition(b":")[2]) for line in lines if line[:7] == b"cpu MHz"]


def open_clocks(roots: Roots, clock: Callable[[], float]) -> Sensors | None:
    """The clocks there are, MHz: of cpufreq, else `/proc/cpuinfo`; None if untold."""
    paths, own = _cpufreq(roots), [roots.proc / "cpuinfo"]
    of, said = f"of {len(paths)} CPUs", "as /proc/cpuinfo says"
    said += "; that of a virtual machine may not vary"
    for files, values, period_s, note in (
        (_opened(paths), _thousandths, CLOCK_STEP_S, of),
        (_opened(own), _clocks_said, CPUINFO_PERIOD_S, said),
    ):
        clocks = Sensors(files, values, _mean, period_s, clock, note)
        if clocks.value() > 0:  # NaN is not
            return clocks
        clocks.close()
    return None


def open_temperatures(roots: Roots, clock: Callable[[], float]) -> Sensors:
    """The hottest sensor of the CPU, °C."""
    zones = sorted((roots.sysfs / "class" / "thermal").glob("thermal_zone*/type"))
    chips = sorted((roots.sysfs / "class" / "hwmon").glob("hwmon*/name"))
    found = [path.with_name("temp") for path in zones if _is_cpu(path)]
    found = found or [path.with_name("temp1_input") for path in chips if _is_cpu(path)]
    return Sensors(_opened(found), _thousandths, max, clock=clock)


def _is_cpu(path: Path) -> bool:
    return text_in(path).lower().startswith(CPU_ZONES)


def open_memory(roots: Roots, clock: Callable[[], float]) -> Sensors:
    """Share of memory in use, %: all of it less what a program could still get.

    Raises:
        OSError: The kernel does not show it.
    """
    return Sensors([KeptFile(roots.proc / "meminfo")], _memory_in_use, clock=clock)


def _memory_in_use(meminfo: KeptFile) -> list[float]:
    lines = meminfo.read(512).split(b"\n")
    sizes = {line.split(b":")[0]: line.split() for line in lines}
    left = int(sizes[b"MemAvailable"][1]) / int(sizes[b"MemTotal"][1])
    return [100.0 * (1.0 - left)]


SHARE_OF_MACHINE = "iowait and steal are not busy"
OF_ONE_CORE = "of one core; the process and those it started"
RESIDENT = "resident; shared memory counts in each process"


def open_proc(
    roots: Roots, pid: int | None = None, clock: Callable[[], float] = time.monotonic
) -> SensorMeter:
    """Load and memory of this machine and, if there is a `pid`, of one process."""
    with ExitStack() as files:
        load = files.enter_context(closing(CpuLoad(roots.proc, clock)))
        share = _gauge("cpu", "percent", LOAD_STEP_S, SHARE_OF_MACHINE)
        sensors = [Sensor((share,), lambda: (load.percent(),))]
        try:
            memory = open_memory(roots, clock)
        except OSError as error:
            raise MeterError(f"{error.filename}: {error.strerror}") from error
        there, untold = ["load"], list[str]()
        for name, unit, slow, words in (
            ("mem", "percent", memory, "memory"),
            ("cpu_clock", "mhz", open_clocks(roots, clock), "clock of the CPUs"),
            (
                *("cpu_temperature", "celsius", open_temperatures(roots, clock)),
                "temperature of the CPU",
            ),
        ):
            (there if slow else untold).append(words)
            if slow:
                files.enter_context(closing(slow))
                gauge = _gauge(name, unit, slow.period_s, slow.note)
                sensors.append(Sensor((gauge,), partial(_told, slow)))
        if pid:
            process = ProcessLoad(roots.proc, pid, os.cpu_count() or 1, clock)
            used = _gauge("process_cpu", "percent", LOAD_STEP_S, OF_ONE_CORE)
            held = _gauge("process_mem", "bytes", LOAD_STEP_S, RESIDENT)
            files.enter_context(closing(process))
            sensors.append(Sensor((used, held), process.read))
        detail = ", ".join(there)
        if untold:
            detail += f"; this machine does not tell the {' and the '.join(untold)}"
        let_go, step_s = files.pop_all().close, LOAD_STEP_S
        return SensorMeter(
            *("proc", sensors, (), "", let_go, detail), holds_s=step_s, settles_s=step_s
        )


def _told(sensors: Sensors) -> tuple[float]:
    return (sensors.value(),)


def _gauge(name: str, quantity: str, resolution_s: float, note: str = "") -> Channel:
    return Channel(
        f"proc:{name}",
        quantity,  # type: ignore[arg-type]
        counted=False,
        device="cpu",
        resolution_s=resolution_s,
        note=note,
    )
