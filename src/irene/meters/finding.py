"""Which meters there are, which work here, and which are the best.

Meters by name, the better ones first:

| name | what |
|---|---|
| `rapl` | energy counters of the CPU, as files |
| `perf` | the same through the kernel's perf events |
| `nvml` | NVIDIA GPUs |
| `zeus` | AMD GPUs, Apple and Jetson chips |
| `estimate` | the CPU from its load, where nothing measures it |
| `proc` | load, memory and clock; no energy |
| `serial:/dev/ttyUSB0?…` | a wall meter on a serial line |
| `replay:FILE` | samples that were recorded |
| `auto` | the best of those that need no address |
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from irene.errors import UsageError
from irene.meters.channel import Finding, Meter
from irene.meters.count_once import count_once, part_of
from irene.meters.cpu.cpu_load import proc_root
from irene.meters.cpu.zones import sysfs_root

__all__ = [
    "AUTO",
    "METERS",
    "Kind",
    "Places",
    "best_meters",
    "choose",
    "findings",
    "open_meters",
    "resolved",
]

AUTO = "auto"
AMD_GPU = "0x1002"
"""PCI vendor of AMD's GPUs."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a machine is looked at; None for where it usually is.

    Attributes:
        sysfs: Where sysfs is.
        proc: Where procfs is.
        pid: Process whose load is watched.
    """

    sysfs: Path | str | None = None
    proc: Path | str | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of meter.

    Attributes:
        about: What it reads, in words.
        module: Where it is; imported only when it is asked for.
        opens: Its function that opens one.
        needs: Arguments of `probe` and of `opens` as fields of `Places`.
    """

    about: str
    module: str
    opens: str
    needs: tuple[tuple[str, str], ...] = ()

    def find(self, places: Places) -> Finding:
        """What there is of it here."""
        module: Any = import_module(self.module)
        found: Finding = module.probe(**self._arguments(places))
        return found

    def open(self, places: Places) -> Meter:
        """Open it."""
        function: Callable[..., Meter] = getattr(import_module(self.module), self.opens)
        watched = {"pid": places.pid} if self.opens == "open_proc" else {}
        return function(**self._arguments(places), **watched)

    def _arguments(self, places: Places) -> dict[str, Any]:
        return {name: getattr(places, field) for name, field in self.needs}


SYSFS = (("root", "sysfs"),)
BOTH = (("root", "proc"), ("sysfs", "sysfs"))
METERS = {
    "rapl": Kind("counters of the CPU", "irene.meters.cpu.rapl", "open_rapl", SYSFS),
    "perf": Kind(
        "counters of the CPU, by perf", "irene.meters.cpu.perf", "open_perf", SYSFS
    ),
    "nvml": Kind("NVIDIA GPUs", "irene.meters.gpu.nvml", "open_nvml"),
    "zeus": Kind(
        "AMD GPUs, Apple and Jetson chips", "irene.meters.gpu.zeus_devices", "open_zeus"
    ),
    "estimate": Kind(
        "the CPU from its load",
        "irene.meters.estimate.cpu_estimate",
        "open_estimate",
        BOTH,
    ),
    "proc": Kind(
        "what Linux tells, no energy", "irene.meters.cpu.procfs", "open_proc", BOTH
    ),
}
"""Meters that need no address, the better ones first."""
ADDRESSED = {"serial": "serial:/dev/ttyUSB0?format=emonpi", "replay": "replay:FILE"}


def findings(places: Places | None = None) -> list[Finding]:
    """What there is of every meter that needs no address.

    Args:
        places: Where to look; this machine if None.
    """
    where = places or Places()
    return [_find(name, where) for name in METERS]


def _find(name: str, places: Places) -> Finding:
    if name == "zeus" and not _worth_zeus(places):
        # Importing zeus takes seconds, and most machines have nothing for it.
        return Finding("zeus", False, "no AMD GPU, Apple or Jetson chip here")
    return METERS[name].find(places)


def _worth_zeus(places: Places) -> bool:
    if platform.system() == "Darwin":
        return True
    cards = sysfs_root(places.sysfs).glob("class/drm/card*/device/vendor")
    if any(_text(card).strip() == AMD_GPU for card in cards):
        return True
    return "Jetson" in _text(proc_root(places.proc) / "device-tree" / "model")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def choose(found: Iterable[Finding]) -> list[str]:
    """The best meters: each device by the first that counts it, and always the load.

    Args:
        found: What there is, the better ones first.

    Returns:
        Names of meters. The estimate is among them only where nothing measures the CPU.
    """
    chosen: list[str] = []
    covered: set[str] = set()
    for finding in found:
        energies = [c for c in finding.channels if c.is_energy and c.counted]
        parts = {part_of(channel) for channel in energies}
        if finding.works and (parts - covered or not parts):
            chosen.append(finding.meter)
            covered |= parts
    return chosen


def best_meters(places: Places | None = None) -> list[Meter]:
    """The best meters of this machine, open.

    Args:
        places: Where to look; this machine if None.

    Raises:
        MeterError: One that was there a moment ago cannot be opened.
    """
    return _open_all([AUTO], places or Places())


def open_meters(
    specs: Sequence[str],
    *,
    pid: int | None = None,
    sysfs: Path | str | None = None,
    proc: Path | str | None = None,
) -> list[Meter]:
    """Open meters by name; see the table of this module.

    Of two that cover the same thing only the first counts; wall meters count alone.

    Args:
        specs: Names, in any order; repeated ones are opened once.
        pid: Process whose load `proc` watches.
        sysfs: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.
        proc: Where procfs is; else `IRENE_PROC_ROOT` or `/proc`.

    Raises:
        UsageError: There is no meter of that name.
        MeterError: One cannot be opened; the message says what helps.
        MissingExtraError: One needs a package that is not installed.
    """
    return _open_all(specs, Places(sysfs, proc, pid))


def resolved(specs: Sequence[str], places: Places | None = None) -> list[str]:
    """Names of meters with `auto` replaced by the best here, each once.

    Args:
        specs: As for `open_meters`.
        places: Where to look; this machine if None.

    Raises:
        UsageError: There is no meter of that name.
    """
    names: list[str] = []
    for spec in specs:
        best = _checked(spec) == AUTO
        names += choose(findings(places)) if best else [spec]
    return list(dict.fromkeys(names))


def _open_all(specs: Sequence[str], places: Places) -> list[Meter]:
    with ExitStack() as opened:
        meters = []
        for name in resolved(specs, places):
            meters.append(_open(name, places))
            opened.callback(meters[-1].close)
        opened.pop_all()  # all went well: they stay open
    return count_once(meters)


def _checked(spec: str) -> str:
    kind, colon, address = spec.partition(":")
    if spec in (AUTO, *METERS) or (kind in ADDRESSED and colon and address):
        return spec
    names = ", ".join((*METERS, AUTO, *ADDRESSED.values()))
    raise UsageError(f"no meter {spec!r}; there are {names}")


def _open(spec: str, places: Places) -> Meter:
    kind, _, address = spec.partition(":")
    if kind == "serial":
        from irene.meters.wall.serial_line import open_serial

        return open_serial(spec)
    if kind == "replay":
        from irene.meters.logs.replay import open_replay

        return open_replay(Path(address))
    return METERS[spec].open(places)
