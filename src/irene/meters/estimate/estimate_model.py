"""What a CPU takes at a load, where nothing measures it: two numbers and a TDP.

Where the clock is known to vary:

    power = a · √(TDP · 8 W · cores) · (clock / highest clock)² + b · TDP · load

What a CPU takes without work goes with the square of its voltage, and that with the
clock. A clock that is low says that a processor saves power, which a load does not.

Where it is not, in most virtual machines:

    power = cores · (idle + active_share · TDP per core · (1 − (1 − load)²))

Idle power grows with the number of cores and of what lies around them; the rest grows
with the TDP. Load is a share of threads: a core with two of them is idle only if both
are, which is what the square says. How both were fitted, what else was tried and how
wrong they are on a processor they have not seen: docs/explanation/cpu-estimate.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from irene.errors import UsageError
from irene.meters.cpu.processor import Processor
from irene.meters.estimate.processor_table import (
    KnownProcessor,
    find_known,
    usual_power,
)

__all__ = [
    "TDP_VARIABLE",
    "Basis",
    "ClockModel",
    "LoadModel",
    "Model",
    "Models",
    "basis_of",
    "load_models",
]

TDP_VARIABLE = "IRENE_CPU_TDP_W"
"""Environment variable: TDP of all CPUs that this machine sees, W."""
FILE = Path(__file__).with_name("estimate_model.json")
ARM = "ARM"
SCALE_W = 8.0  # makes base_share a plain number; any other would do
NORMAL_90 = 1.645  # standard deviations on either side that hold 90 %
NOT_COVERED = (
    "it covers the CPU package alone: no memory, GPU, disk, fan or power supply"
)


class Model(Protocol):
    """What makes watts of a load."""

    @property
    def relative_error(self) -> float:
        """Half the 90 % interval as a share of the value, on a processor left out."""

    def power_w(
        self, cores: float, tdp_w_per_core: float, load: float, clock: float = 1.0
    ) -> float:
        """Power at a load, W."""

    def words(self, cores: float, tdp_w_per_core: float) -> str:
        """What it says of a machine."""


@dataclass(frozen=True, slots=True)
class ClockModel:
    """The numbers for machines whose clock is known to vary.

    Attributes:
        base_share: Power without load at the highest clock, as a share of the
            geometric mean of the TDP and 8 W per core.
        active_share: Share of the TDP that full load adds.
        relative_error: Half the 90 % interval as a share of the value, on a processor
            that was left out.
    """

    base_share: float
    active_share: float
    relative_error: float

    def power_w(
        self, cores: float, tdp_w_per_core: float, load: float, clock: float = 1.0
    ) -> float:
        """Power at a load and a clock, W; at most the TDP.

        Args:
            cores: Physical cores.
            tdp_w_per_core: Thermal design power per core, W.
            load: Busy share of all threads, 0 to 1.
            clock: Mean clock as a share of the highest, 0 to 1.
        """
        base = self.base_share * math.sqrt(tdp_w_per_core * SCALE_W) * clock**2
        active = self.active_share * tdp_w_per_core * load
        return cores * min(base + active, tdp_w_per_core)

    def words(self, cores: float, tdp_w_per_core: float) -> str:
        """What it says of a machine."""
        low, idle, full = (
            self.power_w(cores, tdp_w_per_core, load, clock)
            for load, clock in ((0.0, 0.4), (0.0, 1.0), (1.0, 1.0))
        )
        return (
            f"model with the clock: {low:.1f} W idle at 40 % of the highest clock, "
            f"{idle:.1f} W at the highest; {full:.1f} W at full load and highest clock"
        )


@dataclass(frozen=True, slots=True)
class LoadModel:
    """The numbers for machines whose clock is not known.

    Attributes:
        idle_w_per_core: Power of an idle machine per core, W.
        idle_share_limit: Idle power is at most this share of the TDP.
        active_share: Share of the TDP that full load adds.
        relative_error: Half the 90 % interval as a share of the value, on a processor
            that was left out.
    """

    idle_w_per_core: float
    idle_share_limit: float
    active_share: float
    relative_error: float

    def power_w(
        self, cores: float, tdp_w_per_core: float, load: float, clock: float = 1.0
    ) -> float:
        """Power at a load, W.

        Args:
            cores: Physical cores.
            tdp_w_per_core: Thermal design power per core, W.
            load: Busy share of all threads, 0 to 1.
            clock: Not used.
        """
        del clock
        idle = min(self.idle_w_per_core, self.idle_share_limit * tdp_w_per_core)
        busy = 1.0 - (1.0 - load) ** 2
        return cores * (idle + self.active_share * tdp_w_per_core * busy)

    def words(self, cores: float, tdp_w_per_core: float) -> str:
        """What it says of a machine."""
        idle, full = (self.power_w(cores, tdp_w_per_core, load) for load in (0.0, 1.0))
        return (
            f"model without the clock: {idle:.1f} W idle, {full:.1f} W at full load, "
            "three quarters of the rise at half load"
        )


@dataclass(frozen=True, slots=True)
class Models:
    """Both.

    Attributes:
        with_clock: Where the clock is known to vary.
        without_clock: Elsewhere.
    """

    with_clock: ClockModel
    without_clock: LoadModel


@cache
def load_models() -> Models:
    """The models that ship with the package."""
    told = json.loads(FILE.read_text(encoding="utf-8"))["models"]
    return Models(
        ClockModel(**told["with_clock"]["numbers"]),
        LoadModel(**told["without_clock"]["numbers"]),
    )


@dataclass(frozen=True, slots=True)
class Basis:
    """What the estimate takes this machine for.

    Attributes:
        cores: Physical cores; of a virtual machine, those its CPUs are worth.
        tdp_w_per_core: Thermal design power per core, W.
        relative_error: Half the 90 % interval as a share of the value.
        assumptions: What was taken for granted, in words.
    """

    cores: float
    tdp_w_per_core: float
    relative_error: float
    assumptions: tuple[str, ...]


def basis_of(
    processor: Processor, model: Model, tdp_text: str = "", clock_note: str = ""
) -> Basis:
    """What to take a machine for.

    Args:
        processor: What it tells of itself.
        model: What makes watts of it; its error is the least there is.
        tdp_text: TDP as the user states it, W; "" if not.
        clock_note: Where the clock is from, or why there is none; "" to say nothing.

    Raises:
        UsageError: The stated TDP is no positive number.
    """
    known = find_known(processor.name)
    cores, core_width, core_lines = _cores(processor, known)
    power, power_width, power_line = _tdp(processor, known, tdp_text, cores)
    relative = math.hypot(model.relative_error, core_width, power_width)
    lines = [
        f"processor: {processor.name or 'no name'}, {_seen(processor)}",
        *core_lines,
        power_line,
        model.words(cores, power) + (f"; {clock_note}" if clock_note else ""),
        f"90 % interval: {_width(relative)}; from three measured processors, each "
        "estimated from the other two"
        + (", and what is unknown here" if relative > model.relative_error else ""),
        NOT_COVERED,
    ]
    return Basis(cores, power, relative, tuple(lines))


def _seen(processor: Processor) -> str:
    what = _count(processor.threads, "CPU", "CPUs")
    if processor.virtual:
        return f"{what} of a virtual machine"
    return f"{what} on {_count(processor.cores, 'core', 'cores')}"


def _count(number: float, one: str, many: str) -> str:
    return f"{number:g} {one if number == 1 else many}"


def _width(relative: float) -> str:
    if relative < 1:
        return f"± {relative:.0%}".replace("%", " %")
    return f"from nothing to {1 + relative:.1f} times the value"


def _cores(
    processor: Processor, known: KnownProcessor | None
) -> tuple[float, float, Iterator[str]]:
    """Physical cores, the width that not knowing them adds, and how they were found."""
    if not processor.virtual or processor.cores < processor.threads:
        return float(processor.cores), 0.0, iter(())
    per_core = 1 if processor.vendor == ARM else 2
    if known:
        per_core = max(1, known.threads // known.cores)
    if per_core == 1:
        line = "each virtual CPU is taken for a core"
        return float(processor.threads), 0.0, iter((line,))
    cores = processor.threads / per_core
    line = (
        f"each virtual CPU is taken for one of {per_core} threads of a core: "
        f"{processor.threads} of them for "
        f"{_count(cores, 'core', 'cores')}; they may be whole cores, and then take "
        f"{per_core} times as much"
    )
    return cores, math.log(per_core), iter((line,))


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
    usual = usual_power(processor)
    line = (
        f"TDP unknown: {usual.tdp_w_per_core:.1f} W a core taken, the middle of "
        f"{usual.count} {usual.group} processors ({usual.low_w:.1f} to "
        f"{usual.high_w:.1f} W); {TDP_VARIABLE}=WATTS states that of all CPUs seen here"
    )
    return usual.tdp_w_per_core, NORMAL_90 * usual.log_deviation, line


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"{TDP_VARIABLE} is {text!r}; it has to be watts above 0")
    return value
