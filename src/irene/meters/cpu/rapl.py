"""RAPL: energy counters of Intel and AMD CPUs, as files and by a system call.

Through powercap the kernel shows a 32-bit register times its unit:
`max_energy_range_uj` is the register full of ones, so the counter is at zero again
**one unit after** its range (`get_max_energy_counter` and `ENERGY_STATUS_MASK` in
drivers/powercap/intel_rapl_common.c). With a unit of 61 µJ, adding just the range loses
61 µJ a wrap.

Through perf, where the files are closed, the PMU `power` adds the registers up to 64
bits of 2^-32 J, so that nothing wraps, and asks for CAP_PERFMON instead of root
(arch/x86/events/rapl.c). It gives the same joules: open one of the two, not both.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
import time
from collections.abc import Callable, Iterator
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


OpenEvent = Callable[[int, int, int], int]
SYSCALLS = {"x86_64": 298, "AMD64": 298, "aarch64": 241}
ATTRIBUTES_BYTES = 64  # PERF_ATTR_SIZE_VER0, which every kernel takes
CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
COUNT_STEPS = 2**64
KINDS = {
    "energy-pkg": "package",
    "energy-ram": "dram",
    "energy-cores": "core",
    "energy-gpu": "uncore",
    "energy-psys": "psys",
}
NO_PMU = (
    "On the machine itself: sudo modprobe rapl. Virtual machines have no such counters."
)
PERF_REMEDY = """\
For this Python: sudo setcap cap_perfmon=ep {python} (all that it runs may then)
Or for everybody, until the next boot: sudo sysctl kernel.perf_event_paranoid=0 \
(for good: the line kernel.perf_event_paranoid=0 in /etc/sysctl.d/70-perf.conf)
In a container: docker run --cap-add PERFMON, on a machine that allows it."""


def event_count(fd: int) -> int:
    """The count of an event; the kernel refuses `pread` here."""
    count = os.read(fd, 8)
    if len(count) != 8:
        raise OSError(errno.ENODATA, "the event does not count any more")
    return int.from_bytes(count, sys.byteorder)


def open_event(pmu: int, config: int, cpu: int) -> int:
    """A counter of a whole CPU: a file descriptor that gives 8 bytes at every read.

    Raises:
        OSError: The kernel refuses, or we do not know how to ask.
    """
    number = SYSCALLS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"unknown architecture {platform.machine()}")
    attributes = struct.pack("=IIQ", pmu, ATTRIBUTES_BYTES, config)
    block = ctypes.create_string_buffer(attributes, ATTRIBUTES_BYTES)
    numbers = (-1, cpu, -1, CLOSE_ON_EXEC)  # all processes, no group
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    fd = libc.syscall(ctypes.c_long(number), block, *map(ctypes.c_long, numbers))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(fd)


def open_perf(
    roots: Roots,
    clock: Clock = time.monotonic_ns,
    open_event: OpenEvent = open_event,
) -> SensorMeter:
    """Open all energy events that the kernel lets us have."""
    # A capability must be given to the program itself: no link, no environment.
    python = Path(sys.executable or "python3").resolve()
    return open_zones(
        "perf",
        find_events(roots.sysfs, open_event),
        clock,
        called="events",
        missing=(f"no energy events in {_pmu_folder(roots.sysfs)}", NO_PMU),
        refused="the kernel refuses the energy events: ",
        denied_remedy=PERF_REMEDY.format(python=python),
    )


def _pmu_folder(root: Path) -> Path:
    return root / "bus" / "event_source" / "devices" / "power"


def find_events(root: Path, open_event: OpenEvent) -> list[ZoneCounter]:
    """Every energy event of every package, whether we may have it or not."""
    folder = _pmu_folder(root)
    try:
        pmu = int(text_in(folder / "type"))
        packages = _packages(root, _cpus(text_in(folder / "cpumask")))
    except ValueError:
        return []
    events: list[ZoneCounter] = []
    for cpu, package in packages.items():
        for file, kind in KINDS.items():
            path = folder / "events" / file
            name = package if kind == "package" else f"{package}:{kind}"
            try:
                config = _config(text_in(path))
                scale = float(text_in(path.with_name(f"{file}.scale")))
            except ValueError:
                continue
            if scale > 0:
                start = partial(open_event, pmu, config, cpu)
                how = (event_count, scale, COUNT_STEPS)
                events.append(ZoneCounter(Zone(path, name), file, start, *how))
    return events


def _config(text: str) -> int:
    """The number in `event=0x02`."""
    key, _, value = text.partition("=")
    if key != "event":
        raise ValueError(f"not an event of this PMU: {text!r}")
    return int(value, 0)


def _cpus(text: str) -> list[int]:
    """CPUs of a list as the kernel writes it: `0,28` or `0-1,4`."""
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def _packages(root: Path, cpus: list[int]) -> dict[int, str]:
    """Name of the package (or die, where a package has several) of each CPU."""
    packages = {cpu: _topology(root, cpu, "physical_package_id") for cpu in cpus}
    names = {}
    for cpu, package in packages.items():
        die = _topology(root, cpu, "die_id")
        if package is None:
            names[cpu] = f"package-of-cpu{cpu}"
        elif list(packages.values()).count(package) == 1:
            names[cpu] = f"package-{package}"
        else:
            names[cpu] = f"package-{package}-die-{cpu if die is None else die}"
    return names


def _topology(root: Path, cpu: int, file: str) -> int | None:
    folder = root / "devices" / "system" / "cpu" / f"cpu{cpu}" / "topology"
    try:
        return int(text_in(folder / file))
    except ValueError:
        return None
