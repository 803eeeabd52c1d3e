"""Which meters there are, which work here, and which are the best.

Each joule counts once, also when several meters see it.

Meters are known by name (`METERS`), or by what they are with an address (`ADDRESSED`);
`auto` is the best of the former but `ipmi` and `battery`.

A package may bring meters of its own: an entry point of the group `irene.meters` is a
function that takes the address (what follows `NAME:`, or "") and returns a `Meter`.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from irene.errors import IreneError, MeterError, UsageError
from irene.meters.channel import Channel, Finding, Meter, probed
from irene.meters.cpu.kernel_files import Roots, text_in

AUTO = "auto"
WALL = "wall"
BOARD = "board"  # of a Jetson, with its CPU
ALSO = "not counted: {} covers it"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of meter: what it reads; the module and function that opens it."""

    about: str
    module: str
    opens: str
    in_kernel: bool = True

    def find(self, name: str, roots: Roots) -> Finding:
        """What there is of it here, under a name; never raises."""
        install = getattr(self._home(), "INSTALL", "")
        return probed(name, partial(self._opened, roots, None), install)

    def open(self, roots: Roots, pid: int | None = None) -> Meter:
        """Open it, so that its first reading says something; `proc` watches a `pid`."""
        meter = self._opened(roots, pid)
        time.sleep(getattr(meter, "settles_s", 0.0))
        return meter

    def _opened(self, roots: Roots, pid: int | None) -> Meter:
        where = (roots,) if self.in_kernel else ()
        watched = {"pid": pid} if self.opens == "open_proc" else {}
        meter: Meter = getattr(self._home(), self.opens)(*where, **watched)
        return meter

    def _home(self) -> Any:
        return import_module(f"irene.meters.{self.module}")


METERS = {
    "rapl": Kind("counters of the CPU", "cpu.rapl", "open_rapl"),
    "perf": Kind("counters of the CPU, by perf", "cpu.rapl", "open_perf"),
    "nvml": Kind("NVIDIA GPUs", "gpu.nvml", "open_nvml", in_kernel=False),
    "amdsmi": Kind("AMD GPUs", "gpu.amd_smi", "open_amdsmi", in_kernel=False),
    "hwmon": Kind("NVIDIA Grace, Intel and AMD GPUs", "hwmon", "open_hwmon"),
    "zeus": Kind("Apple and Jetson chips", "gpu.zeus_devices", "open_zeus", False),
    "ipmi": Kind("the chassis, by its BMC", "wall.ipmi", "open_ipmi", in_kernel=False),
    "battery": Kind("a laptop off the mains", "wall.battery", "open_battery"),
    "estimate": Kind("the CPU from its load", "estimate.cpu_estimate", "open_estimate"),
    "proc": Kind("what Linux tells, no energy", "cpu.cpu_sensors", "open_proc"),
}
"""Meters that need no address, the better ones first."""
ADDRESSED = {
    "serial": "serial:/dev/ttyUSB0?format=emonpi",
    "http": "http://HOST/PATH#WHERE",
    "https": "https://HOST/PATH#WHERE",
    "prometheus": "prometheus:http://HOST:PORT/metrics",
    "replay": "replay:FILE",
}
"""Meters that need an address, and how it is written."""
OPENERS = {
    "serial": ("serial_line", "open_serial"),
    "http": ("http_json", "open_http"),
    "https": ("http_json", "open_http"),
    "prometheus": ("prometheus", "open_prometheus"),
}
PLUGINS = "irene.meters"


def plugins() -> dict[str, EntryPoint]:
    """Meters that other packages bring, by name."""
    return {point.name: point for point in entry_points(group=PLUGINS)}


def findings(roots: Roots | None = None) -> list[Finding]:
    """What there is of every meter that needs no address."""
    where = roots or Roots()
    found = {name: kind.find for name, kind in METERS.items()}
    if not _worth_zeus(where):
        # Importing zeus takes seconds, and most machines have nothing for it.
        nothing = Finding("zeus", False, "no Apple or Jetson chip here")
        found["zeus"] = lambda name, roots: nothing
    return [find(name, where) for name, find in found.items()]


def _worth_zeus(roots: Roots) -> bool:
    if platform.system() == "Darwin":
        return True
    return "Jetson" in text_in(roots.proc / "device-tree" / "model")


def choose(found: Iterable[Finding]) -> list[str]:
    """The best meters: each device by the first that counts it, and always the load.

    Returns:
        Names of meters. The estimate is among them only where nothing measures the CPU.
    """
    chosen: list[str] = []
    covered: set[str] = set()
    for finding in found:
        parts = {_part_of(channel) for channel in finding.channels if channel.in_total}
        if parts == {WALL}:
            continue  # slow, and would hide the quick ones: only by name
        if finding.works and (parts - covered or not parts):
            chosen.append(finding.meter)
            covered |= parts
    return chosen


def open_meters(
    specs: Sequence[str], roots: Roots | None = None, *, pid: int | None = None
) -> list[Meter]:
    """Open meters by name; see `METERS` and `ADDRESSED`.

    Of two that cover the same thing only the first counts; wall meters count alone.

    Args:
        specs: Names, in any order; repeated ones are opened once.
        roots: Where the kernel shows the machine; None for this one.
        pid: Process whose load `proc` watches.

    Raises:
        UsageError: There is no meter of that name.
        MeterError: One cannot be opened; the message says what helps.
        MissingExtraError: One needs a package that is not installed.
    """
    where = roots or Roots()
    with ExitStack() as opened:
        meters = []
        for name in resolved(specs, where):
            meters.append(_open(name, where, pid))
            opened.callback(meters[-1].close)
        opened.pop_all()  # all went well: they stay open
    return count_once(meters)


def names_in(text: str) -> list[str]:
    """Meters of a list with commas; an address may hold commas itself.

    A word that begins no meter belongs to the address before it, as in
    `rapl,serial:/dev/ttyUSB0?format=timestamp,volts,amps`.
    """
    names: list[str] = []
    for word in text.split(","):
        kind = word.strip().partition(":")[0]
        begins = kind in (AUTO, *METERS, *ADDRESSED) or kind in plugins()
        if begins or not names or ":" not in names[-1]:
            names.append(word.strip())
        else:
            names[-1] += f",{word}"
    return names


def resolved(specs: Sequence[str], roots: Roots | None = None) -> list[str]:
    """Names of meters with `auto` replaced by the best here, each once."""
    names: list[str] = []
    for spec in specs:
        best = _checked(spec) == AUTO
        names += choose(findings(roots)) if best else [spec]
    return list(dict.fromkeys(names))


def _checked(spec: str) -> str:
    kind, colon, address = spec.partition(":")
    if spec in (AUTO, *METERS) or (kind in ADDRESSED and colon and address):
        return spec
    own = plugins()
    if kind in own:
        return spec
    names = ", ".join((*METERS, AUTO, *ADDRESSED.values(), *own))
    raise UsageError(f"no meter {spec!r}; there are {names}")


def _open(spec: str, roots: Roots, pid: int | None) -> Meter:
    kind, _, address = spec.partition(":")
    if kind == "replay":
        from irene.meters.sampling.recording import ReplayMeter, read_recording

        return ReplayMeter(read_recording(Path(address)))
    if kind in OPENERS:
        module, name = OPENERS[kind]
        meter: Meter = getattr(import_module(f"irene.meters.wall.{module}"), name)(spec)
        return meter
    if spec in METERS:
        return METERS[spec].open(roots, pid)
    return _open_plugin(kind, address)


def _open_plugin(name: str, address: str) -> Meter:
    try:
        meter: Meter = plugins()[name].load()(address)
    except IreneError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise MeterError(f"the meter {name!r} of another package: {what}") from error
    return meter


class _Relabelled:
    """A meter whose channels say something else."""

    def __init__(self, meter: Meter, channels: Sequence[Channel]) -> None:
        self.channels = tuple(channels)
        self.name, self.read, self.close = meter.name, meter.read, meter.close
        self.longest_interval_s = getattr(meter, "longest_interval_s", math.inf)
        self.holds_s = getattr(meter, "holds_s", 0.0)


def count_once(meters: Sequence[Meter]) -> list[Meter]:
    """The same meters, the better ones first, none counting what another one does.

    Wall meters contain everything, so the others are only shown. Else what is covered
    twice counts where it comes first: the CPU by `rapl`, not again by `perf` or by an
    estimate.
    """
    wall = [
        m for m in meters if any(c.counted and c.covers == WALL for c in m.channels)
    ]
    seen: dict[str, str] = {}
    result: list[Meter] = []
    for meter in meters:
        by = wall[0].name if wall and meter not in wall else ""
        channels = [_counted(channel, by, seen) for channel in meter.channels]
        for channel in channels:
            if channel.in_total and channel.covers != WALL:
                seen.setdefault(_part_of(channel), meter.name)
        same = channels == list(meter.channels)
        result.append(meter if same else _Relabelled(meter, channels))
    return result


def _counted(channel: Channel, by: str, seen: dict[str, str]) -> Channel:
    if not (channel.in_total or channel.missing):
        return channel
    by = by or seen.get(_part_of(channel), "")
    if not by:
        return channel
    note = "; ".join(filter(None, (channel.note, ALSO.format(by))))
    return replace(channel, counted=False, missing="", note=note)


def _part_of(channel: Channel) -> str:
    """The part of a machine that a channel covers: the same for two that are rivals."""
    if channel.covers.startswith("cpu") or channel.covers in ("soc-cpu", BOARD):
        return "cpu"
    return f"{channel.covers} {channel.device}".strip()
