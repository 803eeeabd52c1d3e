"""The CPU's power where nothing measures it: an estimate, and labelled so.

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
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from irene.errors import UsageError
from irene.meters.channel import Channel, Finding, probed
from irene.meters.cpu.cpu_load import LOAD_STEP_S, CpuLoad
from irene.meters.cpu.cpu_sensors import ClockShare, open_clock_share
from irene.meters.cpu.kernel_files import Roots
from irene.meters.estimate.cpu_basis import TDP_VARIABLE, Basis, Model, basis_of
from irene.meters.machine import read_processor

__all__ = [
    "ClockModel",
    "EstimateMeter",
    "LoadModel",
    "assumptions",
    "load_models",
    "open_estimate",
    "probe",
]

FILE = Path(__file__).with_name("estimate_model.json")
SCALE_W = 8.0  # makes base_share a plain number; any other would do
NOTE = "estimated from the load of all CPUs; memory is not covered"
NOTE_CLOCK = "estimated from load and clock of all CPUs; memory is not covered"
NO_CLOCK_IN_VM = "a virtual machine tells no clock to rely on"
CLOCK_FROM = "the clock is that of cpufreq"


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
        """Power at a load and a clock, W; at most the TDP."""
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
        """Power at a load, W."""
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


@cache
def load_models() -> tuple[ClockModel, LoadModel]:
    """The models that ship with the package: with the clock, and without it."""
    told = json.loads(FILE.read_text(encoding="utf-8"))["models"]
    return (
        ClockModel(**told["with_clock"]["numbers"]),
        LoadModel(**told["without_clock"]["numbers"]),
    )


class EstimateMeter:
    """Power of the CPU package, estimated from the load since the last reading.

    Attributes:
        basis: What the machine is taken for.
        channels: `estimate:cpu`, W.

    Args:
        proc: Where procfs is.
        basis: What the machine is taken for.
        model: The fitted numbers.
        clock: Tells the time, s.
        clocks: The clock of the CPUs, for a model that uses it; closed with the meter.

    Raises:
        MeterError: The load is not known here.
    """

    name = "estimate"
    holds_s = LOAD_STEP_S

    def __init__(
        self,
        proc: Path,
        basis: Basis,
        model: Model,
        clock: Callable[[], float] = time.monotonic,
        clocks: ClockShare | None = None,
    ) -> None:
        self.basis = basis
        self._model, self._clocks = model, clocks
        self._load = CpuLoad(proc, clock)
        self.channels = (
            Channel(
                "estimate:cpu",
                "power_w",
                "cpu-package",
                source="estimated",
                device="cpu",
                resolution_s=LOAD_STEP_S,
                relative_error=basis.relative_error,
                note=NOTE_CLOCK if clocks else NOTE,
            ),
        )

    def read(self) -> list[float]:
        """Power since the last reading, W; `NO_VALUE` until a load is known.

        Raises:
            SensorLostError: The load or the clock cannot be read any more.
        """
        load = self._load.percent() / 100.0
        clock = self._clocks.share() if self._clocks else 1.0
        basis = self.basis
        return [self._model.power_w(basis.cores, basis.tdp_w_per_core, load, clock)]

    def close(self) -> None:
        """Let go of the files; closing twice is fine."""
        self._load.close()
        if self._clocks:
            self._clocks.close()


def open_estimate(roots: Roots) -> EstimateMeter:
    """Open the estimate; the first reading already has a value.

    Args:
        roots: Where the kernel shows the machine.

    Raises:
        MeterError: The load is not known here.
        UsageError: `IRENE_CPU_TDP_W` is no number of watts.
    """
    meter = _open(roots)
    time.sleep(LOAD_STEP_S)
    return meter


def _open(roots: Roots) -> EstimateMeter:
    with ExitStack() as stack:
        basis, model, clocks = _prepare(roots)
        if clocks:
            stack.callback(clocks.close)
        meter = EstimateMeter(roots.proc, basis, model, clocks=clocks)
        stack.pop_all()  # the meter closes them now
    return meter


def _prepare(roots: Roots) -> tuple[Basis, Model, ClockShare | None]:
    """What the machine is taken for, and what can be known of its clock."""
    processor, (with_clock, without_clock) = read_processor(roots), load_models()
    stated = os.environ.get(TDP_VARIABLE, "")
    if processor.virtual:
        clocks, why_not = None, NO_CLOCK_IN_VM
    else:
        clocks, why_not = open_clock_share(roots)
    model: Model = with_clock if clocks else without_clock
    try:
        basis = basis_of(processor, model, stated, why_not or CLOCK_FROM)
    except UsageError:
        if clocks:
            clocks.close()
        raise
    return basis, model, clocks


def assumptions(roots: Roots) -> tuple[str, ...]:
    """What the estimate takes a machine for and which model it uses, in words.

    Args:
        roots: Where the kernel shows the machine.
    """
    basis, _, clocks = _prepare(roots)
    if clocks:
        clocks.close()
    return basis.assumptions


def probe(roots: Roots) -> Finding:
    """Whether an estimate can be made on a machine."""
    return probed(
        "estimate", lambda: _open(roots), lambda meter: "no sensor, and a wide interval"
    )
