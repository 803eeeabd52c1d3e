"""Clock and temperature of the CPUs, from sysfs."""

from __future__ import annotations

import time
from pathlib import Path

from irene.meters.channel import NO_VALUE
from irene.meters.cpu.cpu_load import KeptFile

__all__ = ["Clocks", "Temperatures", "open_clocks"]

CPU_ZONES = ("x86_pkg_temp", "cpu", "soc", "coretemp", "k10temp", "zenpower")
"""Beginnings of the names of sensors that belong to a CPU."""
FREQ_PERIOD_S = 0.1
CPUINFO_PERIOD_S = 5.0
"""Of a large machine this file takes milliseconds to read, s."""
MOST_CLOCKS = 16
"""CPUs whose clock is read; of more, some that lie evenly between the others."""


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


def open_clocks(proc: Path, sysfs: Path) -> Clocks | None:
    """The clocks there are: those of cpufreq, else those of `/proc/cpuinfo`.

    Args:
        proc: Where procfs is.
        sysfs: Where sysfs is.

    Returns:
        None where the machine does not tell any.
    """
    folder = sysfs / "devices" / "system" / "cpu"
    paths = sorted(folder.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    step = -(-len(paths) // MOST_CLOCKS) or 1
    said = "as /proc/cpuinfo says; that of a virtual machine may not vary"
    choices = [
        Clocks(_open(paths[::step]), f"of {len(paths[::step])} CPUs", FREQ_PERIOD_S),
        Clocks(_open([proc / "cpuinfo"]), said, CPUINFO_PERIOD_S),
    ]
    chosen = next((c for c in choices if c.mhz() > 0), None)  # NaN is not
    for clocks in choices:
        if clocks is not chosen:
            clocks.close()
    return chosen


def _open(paths: list[Path]) -> list[KeptFile]:
    files = []
    for path in paths:
        try:
            files.append(KeptFile(path))
        except OSError:
            continue
    return files


class Temperatures:
    """Sensors of the CPU; false where there is none."""

    def __init__(self, sysfs: Path) -> None:
        zones = sorted((sysfs / "class" / "thermal").glob("thermal_zone*/type"))
        chips = sorted((sysfs / "class" / "hwmon").glob("hwmon*/name"))
        found = [path.with_name("temp") for path in zones if _is_cpu(path)]
        if not found:
            found = [path.with_name("temp1_input") for path in chips if _is_cpu(path)]
        self._files = _open(found)

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
    try:
        name = path.read_text(encoding="ascii", errors="replace").strip().lower()
    except OSError:
        return False
    return name.startswith(CPU_ZONES)
