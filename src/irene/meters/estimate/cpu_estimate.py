"""The CPU's power where nothing measures it: an estimate, and labelled so.

    power = cores · (idle + active_share · TDP per core · load)

Idle power grows with the number of cores and of what lies around them; the rest grows
with the TDP and with the busy share of all threads. How both were fitted and how wrong
they are on a processor they have not seen: docs/explanation/cpu-estimate.md.

`processors.json` holds names, cores, threads and TDP of common processors as their
makers publish them; each group of rows names its source. Of one that it does not have,
what is usual for its kind is taken.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, pstdev

from irene.errors import UsageError
from irene.human import human_error
from irene.meters.channel import Channel, Sensor, SensorMeter
from irene.meters.cpu.cpu_load import LOAD_STEP_S, CpuLoad
from irene.meters.cpu.kernel_files import Roots
from irene.meters.machine import Processor, read_processor

TDP_VARIABLE = "IRENE_CPU_TDP_W"
"""Environment variable: TDP of all CPUs that this machine sees, W."""
ARM = "ARM"
NORMAL_90 = 1.645  # standard deviations on either side that hold 90 %
NOT_COVERED = (
    "it covers the CPU package alone: no memory, GPU, disk, fan or power supply"
)
PROCESSORS = Path(__file__).with_name("processors.json")
FILE = Path(__file__).with_name("estimate_model.json")
NOTE = "estimated from the load of all CPUs; memory is not covered"
SERVER_WORDS = ("xeon", "epyc", "neoverse", "altra", "ampere", "graviton", "opteron")
LAPTOP_ENDING = re.compile(r"(core|ryzen).*\d(u|h|hs|hq|hk|hx|y|p|g\d)\b")
NOISE = re.compile(r"\((r|tm)\)|\b(cpu|processor)\b|@.*|\b\d+-core\b|\bwith\b.*")


@dataclass(frozen=True, slots=True)
class KnownProcessor:
    """A processor as its maker specifies it; named without the maker, `EPYC 7763`."""

    name: str
    vendor: str
    kind: str
    cores: int
    threads: int
    tdp_w: float

    @property
    def tdp_w_per_core(self) -> float:
        """Thermal design power of a core with its part of the rest, W."""
        return self.tdp_w / self.cores


@cache
def known_processors() -> tuple[KnownProcessor, ...]:
    """All processors of the table."""
    groups = json.loads(PROCESSORS.read_text(encoding="utf-8"))["groups"]
    return tuple(
        KnownProcessor(name, group["vendor"], group["class"], cores, threads, tdp_w)
        for group in groups
        for name, cores, threads, tdp_w in group["rows"]
    )


def find_known(name: str) -> KnownProcessor | None:
    """The processor of the table that a system means by its name in `/proc/cpuinfo`."""
    said = _words(name)
    found = [known for known in known_processors() if _names(said, known.name)]
    return max(found, key=lambda known: len(known.name), default=None)


def _words(name: str) -> str:
    return " ".join(NOISE.sub(" ", name.lower()).split())


def _names(said: str, name: str) -> bool:
    # An EPYC with a P is the same for one socket.
    single = "p?" if name.startswith("EPYC") else ""
    pattern = rf"(?<![\w-]){re.escape(_words(name))}{single}(?![\w+-])"
    return re.search(pattern, said) is not None


def usual_power(processor: Processor) -> tuple[str, list[float]]:
    """Which processors are of its kind, in words; TDP of each per core, W, in order.

    For one that the table does not have; a virtual machine is taken for a server.
    """
    kind = _kind(processor)
    vendor = "Ampere" if processor.vendor == ARM else processor.vendor
    alike = [known for known in known_processors() if known.kind == kind]
    own = [known for known in alike if known.vendor == vendor]
    group = f"{vendor} {kind}" if own else kind
    return group, sorted(known.tdp_w_per_core for known in own or alike)


def _kind(processor: Processor) -> str:
    said = _words(processor.name)
    if processor.virtual or any(word in said for word in SERVER_WORDS):
        return "server"
    return "laptop" if LAPTOP_ENDING.search(said) else "desktop"


@dataclass(frozen=True, slots=True)
class LoadModel:
    """What makes watts of a load.

    Idle power is at most `idle_share_limit` of the TDP; full load adds `active_share`
    of it. The error is half the 90 % interval, on a processor that nobody measured.
    """

    idle_w_per_core: float
    idle_share_limit: float
    active_share: float
    relative_error: float

    def power_w(self, cores: float, tdp_w_per_core: float, load: float) -> float:
        """Power, W, at a load from 0 to 1 of all threads."""
        idle = min(self.idle_w_per_core, self.idle_share_limit * tdp_w_per_core)
        return cores * (idle + self.active_share * tdp_w_per_core * load)

    def words(self, cores: float, tdp_w_per_core: float) -> str:
        """What it says of a machine."""
        idle, full = (self.power_w(cores, tdp_w_per_core, load) for load in (0.0, 1.0))
        return (
            f"model: {idle:.1f} W idle, {full:.1f} W at full load, a straight line "
            "between them"
        )


@dataclass(frozen=True, slots=True)
class Basis:
    """What the estimate takes this machine for, and what it took for granted, in words.

    The cores of a virtual machine are those its CPUs are worth.
    """

    cores: float
    tdp_w_per_core: float
    relative_error: float
    assumptions: tuple[str, ...]


def basis_of(processor: Processor, model: LoadModel, tdp_text: str = "") -> Basis:
    """What to take a machine for; the model's error is the least there is.

    Raises:
        UsageError: The stated TDP is no positive number.
    """
    known = find_known(processor.name)
    cores, core_width, core_lines = _cores(processor, known)
    power, power_width, power_line = _tdp(processor, known, tdp_text, cores)
    relative = math.hypot(model.relative_error, core_width, power_width)
    own = f"on {_count(processor.cores, 'core', 'cores')}"
    seen = _count(processor.threads, "CPU", "CPUs")
    seen += " " + ("of a virtual machine" if processor.virtual else own)
    lines = [
        f"processor: {processor.name or 'no name'}, {seen}",
        *core_lines,
        power_line,
        model.words(cores, power),
        f"90 % interval: {human_error(relative)}; from three measured processors, each "
        "estimated from the other two"
        + (", and what is unknown here" if relative > model.relative_error else ""),
        NOT_COVERED,
    ]
    return Basis(cores, power, relative, tuple(lines))


def _count(number: float, one: str, many: str) -> str:
    return f"{number:g} {one if number == 1 else many}"


def _cores(
    processor: Processor, known: KnownProcessor | None
) -> tuple[float, float, list[str]]:
    """Physical cores, the width that not knowing them adds, and how they were found."""
    if not processor.virtual or processor.cores < processor.threads:
        return float(processor.cores), 0.0, []
    per_core = 1 if processor.vendor == ARM else 2
    if known:
        per_core = max(1, known.threads // known.cores)
    if per_core == 1:
        line = "each virtual CPU is taken for a core"
        return float(processor.threads), 0.0, [line]
    cores = processor.threads / per_core
    line = (
        f"each virtual CPU is taken for one of {per_core} threads of a core: "
        f"{processor.threads} of them for "
        f"{_count(cores, 'core', 'cores')}; they may be whole cores, and then take "
        f"{per_core} times as much"
    )
    return cores, math.log(per_core), [line]


def _tdp(
    processor: Processor, known: KnownProcessor | None, tdp_text: str, cores: float
) -> tuple[float, float, str]:
    """TDP per core, the width that not knowing it adds, and how it was found."""
    if tdp_text:
        tdp_w = _positive(tdp_text)
        return tdp_w / cores, 0.0, f"TDP {tdp_w:g} W, as {TDP_VARIABLE} says"
    if known:
        line = f"TDP {known.tdp_w:g} W with {known.cores} cores, as {known.vendor} says"
        return known.tdp_w_per_core, 0.0, line
    group, usual_w = usual_power(processor)
    logs = list(map(math.log, usual_w))
    middle_w = math.exp(fmean(logs))
    line = (
        f"TDP unknown: {middle_w:.1f} W a core taken, the middle of {len(logs)} "
        f"{group} processors ({usual_w[0]:.1f} to {usual_w[-1]:.1f} W); "
        f"{TDP_VARIABLE}=WATTS states that of all CPUs seen here"
    )
    return middle_w, NORMAL_90 * pstdev(logs), line


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"{TDP_VARIABLE} is {text!r}; it has to be watts above 0")
    return value


@cache
def load_model() -> LoadModel:
    """The model that ships with the package."""
    return LoadModel(**json.loads(FILE.read_text(encoding="utf-8"))["numbers"])


def basis(roots: Roots) -> Basis:
    """What the machine is taken for; the environment may state its TDP.

    Raises:
        UsageError: `IRENE_CPU_TDP_W` is no number of watts.
    """
    stated = os.environ.get(TDP_VARIABLE, "")
    return basis_of(read_processor(roots), load_model(), stated)


def open_estimate(
    roots: Roots, clock: Callable[[], float] = time.monotonic
) -> SensorMeter:
    """A meter of the CPU package, by the load since the last reading.

    Raises:
        MeterError: The load is not known here.
        UsageError: `IRENE_CPU_TDP_W` is no number of watts.
    """
    model, taken_for = load_model(), basis(roots)
    load = CpuLoad(roots.proc, clock)
    channel = Channel(
        "estimate:cpu",
        "power_w",
        "cpu-package",
        source="estimated",
        device="cpu",
        resolution_s=LOAD_STEP_S,
        relative_error=taken_for.relative_error,
        note=NOTE,
    )

    def power_w() -> tuple[float]:
        busy = load.percent() / 100.0
        return (model.power_w(taken_for.cores, taken_for.tdp_w_per_core, busy),)

    return SensorMeter(
        "estimate",
        [Sensor((channel,), power_w)],
        let_go=load.close,
        summary="no sensor, and a wide interval",
        holds_s=LOAD_STEP_S,
        settles_s=LOAD_STEP_S,
    )
