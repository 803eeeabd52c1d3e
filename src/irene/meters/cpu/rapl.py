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
from functools import partial
from pathlib import Path

from irene.meters.channel import SensorMeter
from irene.meters.cpu.kernel_files import Roots, text_in
from irene.meters.cpu.zones import Zone, ZoneCounter, open_zones
from irene.meters.energy_counter import Clock

REGISTER_STEPS = 2**32
SMALLEST_RANGE_J = 65_536.0
"""Range of a register with the smallest unit in use, 2^-16 J."""
SMALLEST_BELIEVED_UJ = 1_000_000_000
"""A range below 1 kJ is none: no register with a unit in use is that small."""
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


def open_rapl(roots: Roots, clock: Clock = time.monotonic_ns) -> SensorMeter:
    """Open all RAPL zones that can be read."""
    return open_zones(
        "rapl",
        map(_counter, find_zones(roots.sysfs)),
        clock,
        called="zones",
        missing=(f"no RAPL zones in {roots.sysfs}/class/powercap", NO_ZONES),
        refused="none of the RAPL zones can be read: ",
        denied_remedy=REMEDY.format(root=roots.sysfs),
    )


def _counter(zone: Zone) -> ZoneCounter:
    return ZoneCounter(
        zone,
        f"{zone.path.name} ({zone.name})",
        partial(os.open, zone.path / "energy_uj", os.O_RDONLY),
        _microjoules,
        1e-6,
        _modulus(zone.path),
        SMALLEST_RANGE_J,
    )


def _microjoules(fd: int) -> int:
    text = os.pread(fd, 32, 0)
    if not text:
        raise OSError(errno.ENODATA, "empty")
    if not text.rstrip().isdigit():
        raise ValueError(f"not a count of microjoules: {text!r}")
    return int(text)


def find_zones(root: Path) -> list[Zone]:
    """All RAPL zones, readable or not, registers before their memory-mapped twins."""
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
    text = text_in(path / "name")
    return "".join(c for c in text if c.isascii() and (c.isalnum() or c in "-_"))


def _modulus(path: Path) -> int | None:
    """Microjoules after which a zone is at zero again: its range and one unit."""
    text = text_in(path / "max_energy_range_uj")
    range_uj = int(text) if text.isdecimal() and len(text) <= 20 else 0
    if range_uj < SMALLEST_BELIEVED_UJ:
        return None
    return -(-range_uj * REGISTER_STEPS // (REGISTER_STEPS - 1))
