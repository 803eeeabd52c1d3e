"""Clock and temperature of the CPUs, from sysfs.

A clock tells of power only where it follows the load. That of a virtual machine is
mostly a constant, and the governors `performance` and `userspace` hold one: idle cores
then sleep at a high clock, which no formula here has seen. `open_clock_share` gives a
clock only where it varies, `open_clocks` wherever one is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from irene.meters.channel import NO_VALUE, SensorLostError
from irene.meters.cpu.kernel_files import KeptFile, Roots, number_in, text_in

CPU_ZONES = ("x86_pkg_temp", "cpu", "soc", "coretemp", "k10temp", "zenpower")
"""Beginnings of the names of sensors that belong to a CPU."""
CLOCK_STEP_S = 0.1
"""How often the clocks are read at most, s; asking may wake a CPU."""
CPUINFO_PERIOD_S = 5.0
"""Of a large machine this file takes milliseconds to read, s."""
MOST_CLOCKS = 16
"""CPUs whose clock is read; of more, some that lie evenly between the others."""
FIXED = ("performance", "userspace")
"""Governors under which the clock does not follow the load."""
UNTOLD = "no clock is told here"


def _cpufreq(roots: Roots) -> list[Path]:
    """What tells the clock of each CPU, kHz; of many CPUs, of some."""
    paths = sorted(roots.cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    return paths[:: -(-len(paths) // MOST_CLOCKS) or 1]


def _opened(paths: Iterable[Path]) -> list[KeptFile]:
    files = []
    for path in paths:
        try:
            files.append(KeptFile(path))
        except OSError:
            continue
    return files


def _number(file: KeptFile) -> int:
    """0 where it is not told: a CPU may be offline, or say `<unknown>`."""
    try:
        return int(file.read(32))
    except (OSError, ValueError):
        return 0


class Clocks:
    """Mean clock of the CPUs.

    Attributes:
        note: Where it is from, in words.
        period_s: How often it is read, s.
    """

    def __init__(self, files: list[KeptFile], note: str, period_s: float) -> None:
        self._files, self.note, self.period_s = files, note, period_s
        self._last, self._next_s = NO_VALUE, 0.0

    def mhz(self) -> float:
        """Now, or a period ago; `NO_VALUE` where nothing can be read."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            values = [value for file in self._files for value in _mhz(file)]
            self._last = sum(values) / len(values) if values else NO_VALUE
            self._next_s = now_s + self.period_s
        return self._last

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            file.close()


def _mhz(file: KeptFile) -> list[float]:
    try:
        if file.path.name != "cpuinfo":
            return [int(file.read(32)) / 1000.0]
        lines = file.read(1 << 20).split(b"\n")
        found = [line.partition(b":")[2] for line in lines if line[:7] == b"cpu MHz"]
        return [float(value) for value in found]
    except (OSError, ValueError):
        return []


def open_clocks(roots: Roots) -> Clocks | None:
    """The clocks there are: those of cpufreq, else those of `/proc/cpuinfo`.

    Args:
        roots: Where the kernel shows the machine.

    Returns:
        None where the machine does not tell any.
    """
    paths = _cpufreq(roots)
    said = "as /proc/cpuinfo says; that of a virtual machine may not vary"
    choices = [
        Clocks(_opened(paths), f"of {len(paths)} CPUs", CLOCK_STEP_S),
        Clocks(_opened([roots.proc / "cpuinfo"]), said, CPUINFO_PERIOD_S),
    ]
    chosen = next((c for c in choices if c.mhz() > 0), None)  # NaN is not
    for clocks in choices:
        if clocks is not chosen:
            clocks.close()
    return chosen


class ClockShare:
    """Mean of the CPUs' clocks, each as a share of its own highest.

    Attributes:
        count: CPUs whose clock is read.

    Args:
        files: What tells a clock, kHz, with the highest of the same CPU, kHz.
        clock: Tells the time, s.
    """

    def __init__(
        self, files: list[tuple[KeptFile, int]], clock: Callable[[], float]
    ) -> None:
        self.count = len(files)
        self._files, self._clock = files, clock
        self._last, self._next_s = 1.0, -float("inf")

    def share(self) -> float:
        """Now, or up to `CLOCK_STEP_S` ago: above 0, at most 1.

        Some drivers take the clock without boost for the highest; a share above 1 is
        then cut, for none was seen where the formula is from.

        Raises:
            SensorLostError: No CPU tells its clock any more.
        """
        now_s = self._clock()
        if now_s >= self._next_s:
            shares = [_number(file) / most for file, most in self._files]
            told = [min(1.0, share) for share in shares if share > 0]
            if not told:
                raise SensorLostError("no CPU tells its clock any more")
            self._last = sum(told) / len(told)
            self._next_s = now_s + CLOCK_STEP_S
        return self._last

    def close(self) -> None:
        """Let go of the files; closing twice is fine."""
        for file, _ in self._files:
            file.close()


def open_clock_share(
    roots: Roots, clock: Callable[[], float] = time.monotonic
) -> tuple[ClockShare | None, str]:
    """The clocks, ready to be read; None, and why, where they are not known to vary.

    Args:
        roots: Where the kernel shows the machine.
        clock: Tells the time, s.
    """
    paths = _cpufreq(roots)
    why_not = _why_not([path.parent for path in paths])
    files = [] if why_not else list(_with_highest(paths))
    if files:
        return ClockShare(files, clock), ""
    return None, why_not or UNTOLD


def _with_highest(paths: Iterable[Path]) -> Iterator[tuple[KeptFile, int]]:
    """The clock of each CPU and its highest, if both are told."""
    for file in _opened(paths):
        most = number_in(file.path.with_name("cpuinfo_max_freq"))
        if most > 0 and _number(file) > 0:
            yield file, most
        else:
            file.close()


def _why_not(folders: list[Path]) -> str:
    """Why the clock cannot be used, in words; "" where it can."""
    if not folders:
        return UNTOLD
    governors = {text_in(folder / "scaling_governor") for folder in folders}
    fixed = sorted(governors.intersection(FIXED))
    if fixed:
        return f"the governor {fixed[0]} holds the clock"
    if not any(_varies(folder) for folder in folders):
        return "the clock is a constant, or its range is not told"
    return ""


def _varies(folder: Path) -> bool:
    """Whether both the hardware and the settings leave room."""
    ranges = [
        [number_in(folder / f"{whose}_{end}_freq") for end in ("min", "max")]
        for whose in ("cpuinfo", "scaling")
    ]
    return all(0 < low < high for low, high in ranges)


class Temperatures:
    """Sensors of the CPU; false where there is none."""

    def __init__(self, sysfs: Path) -> None:
        zones = sorted((sysfs / "class" / "thermal").glob("thermal_zone*/type"))
        chips = sorted((sysfs / "class" / "hwmon").glob("hwmon*/name"))
        found = [path.with_name("temp") for path in zones if _is_cpu(path)]
        if not found:
            found = [path.with_name("temp1_input") for path in chips if _is_cpu(path)]
        self._files = _opened(found)

    def __bool__(self) -> bool:
        """Whether there is a sensor."""
        return bool(self._files)

    def celsius(self) -> float:
        """The hottest now; `NO_VALUE` where none answers."""
        values = []
        for file in self._files:
            try:
                values.append(int(file.read(32)) / 1000.0)
            except (OSError, ValueError):
                continue
        return max(values, default=NO_VALUE)

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            file.close()


def _is_cpu(path: Path) -> bool:
    return text_in(path).lower().startswith(CPU_ZONES)
