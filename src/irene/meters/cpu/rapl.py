"""RAPL through powercap: energy counters of Intel and AMD CPUs as files.

The kernel shows a 32-bit register times its unit: `max_energy_range_uj` is the register
full of ones, so the counter is at zero again **one unit after** its range
(`get_max_energy_counter` and `ENERGY_STATUS_MASK` in drivers/powercap/
intel_rapl_common.c). With a unit of 61 µJ, adding just the range loses 61 µJ a wrap.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from irene.errors import MeterError
from irene.meters.channel import Finding
from irene.meters.cpu.zones import Zone, channels_of, sysfs_root
from irene.meters.energy_counter import Clock, CounterMeter, EnergyCounter

__all__ = ["RaplMeter", "find_zones", "open_rapl", "probe"]

REGISTER_STEPS = 2**32
SMALLEST_RANGE_J = 65_536.0
"""Range of a register with the smallest unit in use, 2^-16 J."""
SMALLEST_BELIEVED_UJ = 1_000_000_000
"""A range below 1 kJ is none: no register with a unit in use is that small."""
DENIED = (errno.EACCES, errno.EPERM)
REMEDY = """\
Until the next boot: sudo chmod a+r {root}/class/powercap/intel-rapl*/energy_uj
For good, for a group: sudo groupadd -f rapl && sudo usermod -aG rapl "$USER", put the \
line
  SUBSYSTEM=="powercap", ACTION=="add", RUN+="/bin/chgrp rapl %S%p/energy_uj", \
RUN+="/bin/chmod g+r %S%p/energy_uj"
into /etc/udev/rules.d/70-rapl.rules, reboot.
Or without these files: CAP_PERFMON and the meter `perf`."""
NO_ZONES = (
    "On the machine itself: sudo modprobe intel_rapl_msr. "
    "Virtual machines have no such counters, and containers hide them."
)


class RaplMeter(CounterMeter):
    """All RAPL zones of this machine that can be read."""

    name: ClassVar[str] = "rapl"

    @staticmethod
    def fetch(fd: int) -> int:
        """Microjoules on the counter.

        Raises:
            OSError: The zone is gone.
            ValueError: It says something that is no number.
        """
        text = os.pread(fd, 32, 0)
        if not text:
            raise OSError(errno.ENODATA, "empty")
        if not text.rstrip().isdigit():
            raise ValueError(f"not a count of microjoules: {text!r}")
        return int(text)


def open_rapl(
    root: Path | str | None = None, clock: Clock = time.monotonic_ns
) -> RaplMeter:
    """Open all RAPL zones that can be read.

    Args:
        root: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.
        clock: What tells how long ago the last reading was, ns.

    Raises:
        MeterError: There are none, or none can be read; the message says what helps.
    """
    opened = _open(sysfs_root(root), clock)
    if isinstance(opened, Finding):
        raise MeterError(f"rapl: {opened.detail}\n{opened.remedy}".rstrip())
    return opened


def probe(root: Path | str | None = None) -> Finding:
    """What there is of RAPL on this machine.

    Args:
        root: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.
    """
    opened = _open(sysfs_root(root), time.monotonic_ns)
    if isinstance(opened, Finding):
        return opened
    opened.close()
    names = ", ".join(channel.name for channel in opened.channels)
    detail = "; ".join((f"{len(opened.channels)} zones: {names}", *opened.problems))
    return Finding("rapl", True, detail, opened.remedy, opened.channels)


def _open(root: Path, clock: Clock) -> RaplMeter | Finding:
    zones, fds, counters, problems, denied = [], [], [], [], False
    for zone in find_zones(root):
        try:
            fd, counter = _open_zone(zone, clock)
        except OSError as error:
            denied = denied or error.errno in DENIED
            problems.append(f"{zone.path.name} ({zone.name}): {error.strerror}")
        except ValueError as error:
            problems.append(f"{zone.path.name} ({zone.name}): {error}")
        else:
            zones.append(zone)
            fds.append(fd)
            counters.append(counter)
    remedy = REMEDY.format(root=root) if denied else ""
    if zones:
        channels = channels_of("rapl", zones)
        return RaplMeter(
            channels, fds, counters, clock=clock, problems=problems, remedy=remedy
        )
    if problems:
        detail = "none of the RAPL zones can be read: " + "; ".join(problems)
        return Finding("rapl", False, detail, remedy)
    return Finding("rapl", False, f"no RAPL zones in {root}/class/powercap", NO_ZONES)


def _open_zone(zone: Zone, clock: Clock) -> tuple[int, EnergyCounter]:
    """A descriptor and a counter that begins now.

    Raises:
        OSError: The zone cannot be read.
        ValueError: It says something that is no number, or none of its range.
    """
    modulus = _modulus(zone.path)
    fd = os.open(zone.path / "energy_uj", os.O_RDONLY | os.O_CLOEXEC)
    try:
        asked_ns = clock()
        first = RaplMeter.fetch(fd)
        if modulus is not None and first >= modulus:
            raise ValueError(f"{first} µJ is beyond its range")
    except (OSError, ValueError):
        os.close(fd)
        raise
    return fd, EnergyCounter(
        first,
        asked_ns,
        joules_per_step=1e-6,
        modulus=modulus,
        most_w=zone.domain.most_w,
        unknown_range_j=SMALLEST_RANGE_J,
    )


def find_zones(root: Path) -> list[Zone]:
    """All RAPL zones, readable or not, registers before their memory-mapped twins.

    Args:
        root: Where sysfs is.
    """
    folders = {path.name: path for path in _folders(root / "class" / "powercap")}
    own = {key: _own_name(path) for key, path in folders.items()}
    zones = []
    for key in sorted(folders, key=_order):
        name, around = own[key], own.get(key.rpartition(":")[0], "")
        if name and around and not name.startswith("package"):
            name = f"{around}:{name}"
        if name:
            zones.append(Zone(folders[key], name, _modulus(folders[key]) is not None))
    return zones


def _folders(folder: Path) -> Iterator[Path]:
    """Zone folders below a folder; the kernel nests them, and links all from one."""
    try:
        paths = list(folder.iterdir())
    except OSError:
        return
    for path in paths:
        if path.name.startswith("intel-rapl"):
            if ":" in path.name:
                yield path
            yield from _folders(path)


def _order(key: str) -> tuple[str, list[int]]:
    control, *numbers = key.split(":")
    return control, [int(n) if n.isdigit() else -1 for n in numbers]


def _own_name(path: Path) -> str:
    """The `name` of a zone without what no channel may be called; "" if none."""
    try:
        text = (path / "name").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return "".join(
        c for c in text.strip() if c.isascii() and (c.isalnum() or c in "-_")
    )


def _modulus(path: Path) -> int | None:
    """Microjoules after which a zone is at zero again: its range and one unit."""
    try:
        text = (path / "max_energy_range_uj").read_bytes().rstrip()
    except OSError:
        return None
    range_uj = int(text) if text.isdigit() and len(text) <= 20 else 0
    if range_uj < SMALLEST_BELIEVED_UJ:
        return None
    return -(-range_uj * REGISTER_STEPS // (REGISTER_STEPS - 1))
