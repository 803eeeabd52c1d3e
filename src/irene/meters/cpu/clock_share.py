"""The clock of the CPUs as a share of the highest, where cpufreq lets it vary.

A clock tells of power only where it follows the load. That of a virtual machine is
mostly a constant, and the governors `performance` and `userspace` hold one: idle cores
then sleep at a high clock, which no formula here has seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from irene.meters.channel import SensorLostError
from irene.meters.cpu.cpu_load import KeptFile

__all__ = ["CLOCK_STEP_S", "ClockShare", "open_clock_share"]

CLOCK_STEP_S = 0.1
"""How often the clocks are read at most, s; asking may wake a CPU."""
MOST_CLOCKS = 16
"""CPUs whose clock is read; of more, some that lie evenly between the others."""
FIXED = ("performance", "userspace")
"""Governors under which the clock does not follow the load."""
UNTOLD = "no clock is told here"


class ClockShare:
    """Mean of the CPUs' clocks, each as a share of its own highest.

    Attributes:
        count: CPUs whose clock is read.

    Args:
        files: What tells a clock, kHz, with the highest of the same CPU, kHz.
        clock: Tells the time, s.
    """

    def __init__(
        self,
        files: list[tuple[KeptFile, int]],
        clock: Callable[[], float] = time.monotonic,
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
            shares = [_khz(file) / most for file, most in self._files]
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


def _khz(file: KeptFile) -> int:
    """0 where it is not told: a CPU may be offline, or say `<unknown>`."""
    try:
        return int(file.read(32))
    except (OSError, ValueError):
        return 0


def open_clock_share(
    sysfs: Path, clock: Callable[[], float] = time.monotonic
) -> tuple[ClockShare | None, str]:
    """The clocks, ready to be read; None, and why, where they are not known to vary.

    Args:
        sysfs: Where sysfs is.
        clock: Tells the time, s.
    """
    found = sorted((sysfs / "devices/system/cpu").glob("cpu[0-9]*/cpufreq"))
    folders = found[:: -(-len(found) // MOST_CLOCKS) or 1]
    why_not = _why_not(folders)
    files = [] if why_not else [pair for f in folders for pair in _open(f)]
    if files:
        return ClockShare(files, clock), ""
    return None, why_not or UNTOLD


def _open(folder: Path) -> Iterator[tuple[KeptFile, int]]:
    """The clock of a CPU and its highest, if both are told."""
    most = _number(folder / "cpuinfo_max_freq")
    try:
        file = KeptFile(folder / "scaling_cur_freq")
    except OSError:
        return
    if most > 0 and _khz(file) > 0:
        yield file, most
    else:
        file.close()


def _why_not(folders: list[Path]) -> str:
    """Why the clock cannot be used, in words; "" where it can."""
    if not folders:
        return UNTOLD
    governors = {_text(folder / "scaling_governor") for folder in folders}
    fixed = sorted(governors.intersection(FIXED))
    if fixed:
        return f"the governor {fixed[0]} holds the clock"
    if not any(_varies(folder) for folder in folders):
        return "the clock is a constant, or its range is not told"
    return ""


def _varies(folder: Path) -> bool:
    """Whether both the hardware and the settings leave room."""
    return all(
        0
        < _number(folder / f"{whose}_min_freq")
        < _number(folder / f"{whose}_max_freq")
        for whose in ("cpuinfo", "scaling")
    )


def _number(path: Path) -> int:
    text = _text(path)
    return int(text) if text.isdigit() else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
