"""Power zones of a CPU: what each one covers, and which of them add up.

RAPL counts the same joule in several places. The rule here: **package and dram count,
the others are only shown.**

- A package contains its cores (`core`) and its graphics or caches (`uncore`).
- Memory (`dram`) lies outside the package and is added to it.
- `psys` contains them all, and on a laptop the display too; what it covers is up to the
  maker of the board, and many machines have none. There are machines on which it does
  not follow the load at all (CodeCarbon's notes tell of an i7-7600U whose psys stays at
  30 W while its package goes from 5 to 12 W). A total that means the same everywhere
  cannot be made of it, so it is never counted. Zeus reports package and dram too.
- A zone that is found twice (registers and their memory-mapped twin) counts once. Two
  of one control type are two zones, also where the firmware calls them alike.
- Dies of one package (`package-0-die-0`, `package-0-die-1`) are different zones.
- Cores count only where the package around them cannot be read.
- A package or memory that cannot be read is missing in the total, which names it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from irene.errors import MeterError
from irene.meters.channel import NO_VALUE, Channel, Sensor, SensorLostError, SensorMeter
from irene.meters.energy_counter import Clock, EnergyCounter

DENIED = (errno.EACCES, errno.EPERM)
RESOLUTION_S = 0.001
"""Intel SDM vol. 3B, 15.10: energy status registers are updated about every 1 ms."""


@dataclass(frozen=True, slots=True)
class Domain:
    """What is true of all zones of one kind; none reaches `most_w`."""

    covers: str
    counted: bool
    most_w: float
    relative_error: float
    device: str = "cpu"


# How good the counters are. No paper gives one 90 % interval for all CPUs; these are
# our own bounds, meant to be wide:
# - Package: measured at the voltage regulator since Haswell, with one curve against the
#   wall for all loads (Hackenberg et al., IPDPSW 2015, doi 10.1109/IPDPSW.2015.70), and
#   following plug power closely on later ones (Khan et al., TOMPECS 3(2) 2018, doi
#   10.1145/3177754). AMD's is a model with limits of its own (Schöne et al., CLUSTER
#   2021, arXiv 2108.00808). 10 % is for both.
# - Memory: off by a constant that differs from board to board and matters most at idle
#   (Desrochers et al., MEMSYS 2016, doi 10.1145/2989081.2989088; Alt et al., ICPE 2024,
#   doi 10.1145/3629526.3645052, who find more on mixed memory). 20 %.
# - Parts of a package and the platform: not validated anywhere we know of. 20 %.
# Most power: the largest packages are sold with 500 W; a platform may hold eight GPUs.
DOMAINS = {
    "package": Domain("cpu-package", True, 2_000.0, 0.10),
    "dram": Domain("dram", True, 2_000.0, 0.20),
    "core": Domain("cpu-cores", False, 2_000.0, 0.20),
    "uncore": Domain("cpu-uncore", False, 2_000.0, 0.20),
    "psys": Domain("platform", False, 20_000.0, 0.20, ""),
}
OTHER = Domain("cpu-other", False, 20_000.0, 0.20)


@dataclass(frozen=True, slots=True)
class Zone:
    """One counter, as `package-0:dram`.

    Of two of one name the last part of the path, a folder or event file, tells them
    apart. `range_known` is whether it is known where the counter wraps.
    """

    path: Path
    name: str
    range_known: bool = True

    @property
    def kind(self) -> str:
        """`package`, `dram`, `core`, `uncore`, `psys`, or whatever it is called."""
        return self.name.rpartition(":")[2].partition("-")[0]

    @property
    def control(self) -> str:
        """What shows it: `intel-rapl`, `intel-rapl-mmio`, an event of perf."""
        return self.path.name.partition(":")[0]

    @property
    def domain(self) -> Domain:
        """What is true of its kind."""
        return DOMAINS.get(self.kind, OTHER)


def channels_of(meter: str, zones: Sequence[Zone]) -> tuple[Channel, ...]:
    """One channel for each zone; of two with one name, the first counts its joules."""
    first: dict[str, Zone] = {}
    for zone in zones:
        first.setdefault(zone.name, zone)
    return tuple(_channel(meter, zone, first) for zone in zones)


def _channel(meter: str, zone: Zone, first: dict[str, Zone]) -> Channel:
    domain = zone.domain
    name, notes = f"{meter}:{zone.name}", []
    around = zone.name.rpartition(":")[0]
    counted = domain.counted or (
        zone.kind in ("core", "uncore") and around not in first
    )
    if first[zone.name] is not zone:
        twin = first[zone.name].control != zone.control
        kind = "the same as {}, found a second time" if twin else "called {} as well"
        notes.append(kind.format(name))
        name, counted = f"{name}@{zone.path.name}", counted and not twin
    elif zone.kind in ("core", "uncore"):
        notes.append("part of the package" if not counted else "package not readable")
    elif zone.kind == "psys":
        notes.append("contains package and memory; what else is up to the board")
    if not zone.range_known:
        notes.append("range not readable: a wrap of the counter is a gap")
    return Channel(
        name,
        "energy_j",
        domain.covers,
        counted=counted,
        device=domain.device,
        resolution_s=RESOLUTION_S,
        relative_error=domain.relative_error,
        note="; ".join(notes),
    )


def _missing(
    meter: str, zones: Sequence[Zone], failed: Iterable[tuple[Zone, str]]
) -> tuple[Channel, ...]:
    """What belongs in the total and cannot be read, nor its twin, with the reason."""
    read = {zone.name for zone in zones}
    lost = {z.name: (z, why) for z, why in failed if z.domain.counted}
    return tuple(
        replace(_channel(meter, zone, {name: zone}), counted=False, missing=why)
        for name, (zone, why) in lost.items()
        if name not in read
    )


@dataclass(frozen=True, slots=True)
class ZoneCounter:
    """How a zone is read, and what to call it where it cannot be.

    `open` gives a descriptor, or OSError; `fetch` its count, OSError where that is
    gone, and ValueError where it is no count. At `modulus` it is at zero again; where
    that is not known (None), it may be so after `unknown_range_j`.
    """

    zone: Zone
    label: str
    open: Callable[[], int]
    fetch: Callable[[int], int]
    joules_per_step: float
    modulus: int | None
    unknown_range_j: float = 0.0

    def begin(self, clock: Clock) -> tuple[int, EnergyCounter]:
        """A descriptor and a counter that begins now; closed where that fails."""
        fd = self.open()
        try:
            asked_ns = clock()
            first = self.fetch(fd)
            if self.modulus is not None and first >= self.modulus:
                raise ValueError(f"{first} µJ is beyond its range")
        except (OSError, ValueError):
            os.close(fd)
            raise
        return fd, EnergyCounter(
            first,
            asked_ns,
            joules_per_step=self.joules_per_step,
            modulus=self.modulus,
            most_w=self.zone.domain.most_w,
            unknown_range_j=self.unknown_range_j,
        )

    def asking(
        self, fd: int, counter: EnergyCounter, clock: Clock
    ) -> Callable[[], tuple[float]]:
        """What gives the joules since a counter began."""

        def ask() -> tuple[float]:
            asked_ns = clock()
            try:
                reading = self.fetch(fd)
            except ValueError:
                return (NO_VALUE,)
            except OSError as error:
                raise SensorLostError(error.strerror or str(error)) from error
            return (counter.advance(reading, asked_ns, clock()),)

        return ask


def open_zones(
    name: str,
    zones: Iterable[ZoneCounter],
    clock: Clock,
    *,
    called: str,
    missing: tuple[str, str],
    refused: str,
    denied_remedy: str,
) -> SensorMeter:
    """A meter of all counters that can be opened, of those that there are.

    Errors say what is `missing` where there are none, with what would help, that they
    are `refused` where none can be read, and what helps where we may not.
    """
    opened, problems, failed, denied = [], [], [], False
    for each in zones:
        try:
            opened.append((each, *each.begin(clock)))
        except (OSError, ValueError) as error:
            denied = denied or getattr(error, "errno", None) in DENIED
            why = str(getattr(error, "strerror", None) or error)
            failed.append((each.zone, why))
            problems.append(f"{each.label}: {why}")
    remedy = denied_remedy if denied else ""
    if not opened:
        told = (refused + "; ".join(problems), remedy) if problems else missing
        raise MeterError(*told)
    read = [each.zone for each, _, _ in opened]
    channels = channels_of(name, read)
    names = ", ".join(channel.name for channel in channels)
    files = ExitStack()
    for _, fd, _ in opened:
        files.callback(os.close, fd)
    return SensorMeter(
        name,
        [
            Sensor((channel,), each.asking(fd, counter, clock))
            for channel, (each, fd, counter) in zip(channels, opened, strict=True)
        ],
        _missing(name, read, failed),
        remedy,
        files.close,
        summary="; ".join((f"{len(channels)} {called}: {names}", *problems)),
        longest_interval_s=min(c.longest_ns for *_, c in opened) * 1e-9,
    )
