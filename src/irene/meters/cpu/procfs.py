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
from functools import partial

from irene.errors import MeterError
from irene.meters.channel import Channel
from irene.meters.cpu.cpu_load import LOAD_STEP_S, CpuLoad, ProcessLoad
from irene.meters.cpu.cpu_sensors import (
    Sensors,
    open_clocks,
    open_memory,
    open_temperatures,
)
from irene.meters.cpu.kernel_files import Roots
from irene.meters.sensors import Sensor, SensorMeter

SHARE_OF_MACHINE = "iowait and steal are not busy"
OF_ONE_CORE = "of one core; the process and those it started"
RESIDENT = "resident; shared memory counts in each process"


def open_proc(
    roots: Roots, pid: int | None = None, clock: Callable[[], float] = time.monotonic
) -> SensorMeter:
    """Load and memory of this machine and, if there is a `pid`, of one process.

    Raises:
        MeterError: This is not Linux, or there is no such process.
    """
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
