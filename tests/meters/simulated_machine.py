"""A machine with RAPL counters whose power is known: sysfs in a folder, time at will.

The files are as the kernel makes them: one folder per zone, nested, all linked from
`class/powercap`; a 32-bit register in units of energy, shown in microjoules. They are
written in place, so that an open descriptor sees every change, as with sysfs.

    machine = SimulatedMachine(tmp_path, laptop())
    meter = open_rapl(machine.root, clock=machine.clock_ns)
    machine.advance(10.0)
    assert meter.read()[0] == approx(machine.energy_j("intel-rapl:0", 0.0, 10.0))

A meter believes its clock: one that is left with the real clock must be driven in real
time, with `running()`.
"""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Self

UNIT_NJ = 61_035  # 2^-14 J as the kernel rounds it
SERVER_DRAM_UNIT_NJ = 15_300
REGISTER_STEPS = 2**32
PERF_STEPS_PER_J = 2**32
WIDTH = 20


@dataclass(frozen=True)
class Curve:
    """Power over time, and its exact integral from time zero, s -> W and s -> J."""

    power_w: Callable[[float], float]
    energy_j: Callable[[float], float]


def constant(power_w: float) -> Curve:
    return Curve(lambda t: power_w, lambda t: power_w * t)


def ramp(begin_w: float, end_w: float, duration_s: float) -> Curve:
    """Linear up to `duration_s`, then level."""
    slope = (end_w - begin_w) / duration_s

    def energy_j(t: float) -> float:
        inside = min(t, duration_s)
        level_j = end_w * max(0.0, t - duration_s)
        return begin_w * inside + 0.5 * slope * inside**2 + level_j

    return Curve(lambda t: begin_w + slope * min(t, duration_s), energy_j)


def sinus(mean_w: float, amplitude_w: float, period_s: float) -> Curve:
    turn = 2 * math.pi / period_s
    return Curve(
        lambda t: mean_w + amplitude_w * math.sin(turn * t),
        lambda t: mean_w * t + amplitude_w / turn * (1 - math.cos(turn * t)),
    )


def steps(*stretches: tuple[float, float]) -> Curve:
    """Stretches of (duration in s, power in W); the last one goes on."""
    ends_s = list(accumulate(duration for duration, _ in stretches))
    starts_s = [0.0, *ends_s[:-1]]
    powers_w = [power for _, power in stretches]
    pairs = list(zip(powers_w, ends_s, strict=True))

    def power_w(t: float) -> float:
        return next((p for p, e in pairs if t < e), powers_w[-1])

    def energy_j(t: float) -> float:
        ends = [*ends_s[:-1], math.inf]
        pieces = zip(powers_w, starts_s, ends, strict=True)
        return sum(p * max(0.0, min(t, end) - start) for p, start, end in pieces)

    return Curve(power_w, energy_j)


@dataclass(frozen=True)
class SimulatedZone:
    """One zone: its folder's name, what it says, its power, its register at time 0."""

    identity: str
    name: str
    curve: Curve
    register: int = 0
    unit_nj: int = UNIT_NJ
    has_range: bool = True

    @property
    def range_uj(self) -> int:
        return (REGISTER_STEPS - 1) * self.unit_nj // 1000

    def energy_uj(self, time_s: float) -> int:
        counted = math.floor(self.curve.energy_j(time_s) * 1e9 / self.unit_nj)
        return (self.register + counted) % REGISTER_STEPS * self.unit_nj // 1000


def just_before_the_wrap(joules: float, unit_nj: int = UNIT_NJ) -> int:
    """The register of a counter that wraps after that many joules."""
    return REGISTER_STEPS - math.ceil(joules * 1e9 / unit_nj)


def server() -> list[SimulatedZone]:
    """Two packages with memory and a unit of its own for it; the first soon wraps."""
    zones = []
    for package, watts in ((0, 150.0), (1, 90.0)):
        identity = f"intel-rapl:{package}"
        register = just_before_the_wrap(100.0) if package == 0 else 12_345
        load = sinus(watts, watts / 3, 2.0)
        memory = steps((1.0, 10.0), (2.0, 30.0), (1.0, 12.0))
        dram = SimulatedZone(
            f"{identity}:0", "dram", memory, unit_nj=SERVER_DRAM_UNIT_NJ
        )
        zones += [SimulatedZone(identity, f"package-{package}", load, register), dram]
    return zones


def laptop() -> list[SimulatedZone]:
    """A package with all its parts, psys, and the memory-mapped twin of the package."""
    package = ramp(5.0, 45.0, 10.0)
    return [
        SimulatedZone("intel-rapl:0", "package-0", package, 7_000_000),
        SimulatedZone("intel-rapl:0:0", "core", ramp(2.0, 30.0, 10.0)),
        SimulatedZone("intel-rapl:0:1", "uncore", constant(1.0)),
        SimulatedZone("intel-rapl:0:2", "dram", constant(2.5)),
        SimulatedZone("intel-rapl:1", "psys", constant(60.0)),
        SimulatedZone("intel-rapl-mmio:0", "package-0", package, 99),
    ]


def amd() -> list[SimulatedZone]:
    """AMD shows a package and its cores, under Intel's name."""
    return [
        SimulatedZone("intel-rapl:0", "package-0", constant(65.0)),
        SimulatedZone("intel-rapl:0:0", "core", constant(20.0)),
    ]


@dataclass
class SimulatedMachine:
    """Builds the tree and keeps its counters at what they would be at `time_s`."""

    folder: Path
    zones: Sequence[SimulatedZone]
    time_s: float = 0.0
    root: Path = field(init=False)
    _files: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.folder / "sys"
        for zone in sorted(self.zones, key=lambda zone: zone.identity):
            self._build(zone)
        self.at(0.0)

    def _build(self, zone: SimulatedZone) -> None:
        folder = self.path(zone.identity)
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{zone.name}\n")
        (folder / "enabled").write_text("1\n")
        if zone.has_range:
            (folder / "max_energy_range_uj").write_text(f"{zone.range_uj}\n")
        links = self.root / "class" / "powercap"
        links.mkdir(parents=True, exist_ok=True)
        control = zone.identity.partition(":")[0]
        for path in (folder, self.root / f"devices/virtual/powercap/{control}"):
            link = links / path.name
            if not link.exists():
                link.symlink_to(path, target_is_directory=True)
        flags = os.O_RDWR | os.O_CREAT
        self._files[zone.identity] = os.open(folder / "energy_uj", flags, 0o600)

    def path(self, identity: str) -> Path:
        """Folder of a zone, nested as in `/sys/devices`."""
        control, *numbers = identity.split(":")
        parts = [
            ":".join([control, *numbers[:depth]])
            for depth in range(1, len(numbers) + 1)
        ]
        return self.root.joinpath("devices/virtual/powercap", control, *parts)

    def at(self, time_s: float) -> None:
        """Go to a moment."""
        for zone in self.zones:
            if zone.identity in self._files:
                self._write(zone.identity, b"%d\n" % zone.energy_uj(time_s))
        self.time_s = time_s  # last: whoever sees it in another thread sees the files

    def advance(self, duration_s: float) -> None:
        """Let time pass."""
        self.at(self.time_s + duration_s)

    def clock_ns(self) -> int:
        """The machine's own clock."""
        return round(self.time_s * 1e9)

    def zone(self, identity: str) -> SimulatedZone:
        return next(zone for zone in self.zones if zone.identity == identity)

    def energy_j(self, identity: str, begin_s: float, end_s: float) -> float:
        """What a zone truly used between two moments."""
        curve = self.zone(identity).curve
        return curve.energy_j(end_s) - curve.energy_j(begin_s)

    def become(self, zone: SimulatedZone) -> None:
        """Begin anew at time 0 with a zone in the place of its namesake."""
        others = [z for z in self.zones if z.identity != zone.identity]
        self.zones = sorted([*others, zone], key=lambda z: z.identity)
        file = self.path(zone.identity) / "max_energy_range_uj"
        file.write_text(f"{zone.range_uj}\n")
        self.at(0.0)

    def garble(self, identity: str, text: bytes) -> None:
        """Let a counter say something else, until time passes."""
        self._write(identity, text)

    def _write(self, identity: str, text: bytes) -> None:
        # Always the same length: a reader never meets the rest of a longer number.
        os.pwrite(self._files[identity], text.ljust(WIDTH, b"\n"), 0)

    def remove(self, identity: str) -> None:
        """Take a zone's folder and link away."""
        os.close(self._files.pop(identity))
        shutil.rmtree(self.path(identity))
        (self.root / "class" / "powercap" / identity).unlink()

    @contextmanager
    def running(self, period_s: float = 0.001) -> Iterator[Self]:
        """Follow the real clock in a thread; `time_s` is the time since the start."""
        stop, begin_s = threading.Event(), time.monotonic() - self.time_s

        def follow() -> None:
            while not stop.wait(period_s):
                self.at(time.monotonic() - begin_s)

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])


EVENTS = {
    "energy-cores": (1, "core"),
    "energy-pkg": (2, "package"),
    "energy-ram": (3, "dram"),
    "energy-gpu": (4, "uncore"),
    "energy-psys": (5, "psys"),
}


@dataclass
class SimulatedPmu:
    """The PMU `power` of a machine: its folder, and the counters the kernel gives.

    Attributes:
        root: Where sysfs is.
        powers: Power of each event of each CPU of the mask, (CPU, event) -> curve.
        packages: Package and die of each CPU of the mask.
        refusal: Error number that every opening ends with, if any.
    """

    root: Path
    powers: dict[tuple[int, str], Curve]
    packages: dict[int, tuple[int, int]] = field(default_factory=lambda: {0: (0, 0)})
    refusal: int = 0
    pmu: int = 24
    time_s: float = 0.0
    opened: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        folder = self.root / "bus/event_source/devices/power"
        (folder / "events").mkdir(parents=True)
        (folder / "type").write_text(f"{self.pmu}\n")
        (folder / "cpumask").write_text(",".join(map(str, self.packages)) + "\n")
        for event in {event for _, event in self.powers}:
            path = folder / "events" / event
            path.write_text(f"event=0x{EVENTS[event][0]:02x}\n")
            scale = path.with_name(f"{event}.scale")
            scale.write_text("2.3283064365386962890625e-10\n")
            path.with_name(f"{event}.unit").write_text("Joules\n")
        for cpu, (package, die) in self.packages.items():
            topology = self.root / f"devices/system/cpu/cpu{cpu}/topology"
            topology.mkdir(parents=True)
            (topology / "physical_package_id").write_text(f"{package}\n")
            (topology / "die_id").write_text(f"{die}\n")

    def open_event(self, pmu: int, config: int, cpu: int) -> int:
        """As the system call: a descriptor that gives the count at every read."""
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        event = next((e for e, (number, _) in EVENTS.items() if number == config), "")
        if pmu != self.pmu or (cpu, event) not in self.powers:
            raise FileNotFoundError(2, os.strerror(2))
        fd = os.memfd_create(event)
        begin = round(self.powers[cpu, event].energy_j(self.time_s) * PERF_STEPS_PER_J)
        self.opened[cpu, event] = (fd, begin)
        self._write(cpu, event)
        return fd

    def _write(self, cpu: int, event: str) -> None:
        begin = self.opened[cpu, event][1]
        now = round(self.powers[cpu, event].energy_j(self.time_s) * PERF_STEPS_PER_J)
        self.put(cpu, event, (now - begin).to_bytes(8, "little"))

    def put(self, cpu: int, event: str, count: bytes) -> None:
        """Let a counter say this at the next hundred reads."""
        fd = self.opened[cpu, event][0]
        os.ftruncate(fd, 0)
        os.pwrite(fd, count * 100, 0)
        os.lseek(fd, 0, os.SEEK_SET)

    def advance(self, duration_s: float) -> None:
        """Let time pass."""
        self.time_s += duration_s
        for cpu, event in self.opened:
            self._write(cpu, event)

    def clock_ns(self) -> int:
        """The machine's own clock."""
        return round(self.time_s * 1e9)
