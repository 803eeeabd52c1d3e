"""The CPU's power where nothing measures it: an estimate, and labelled so.

    power = cores · (idle · clock + active_share · TDP per core · load)

Idle power grows with the number of cores and of what lies around them; the rest grows
with the TDP and with the busy share of all threads. Where the clock is not known to
vary, in most virtual machines, idle power is that of a mean clock. How both were fitted
and how wrong they are on a processor they have not seen:
docs/explanation/cpu-estimate.md.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from irene.errors import UsageError
from irene.meters.channel import Channel, SensorLostError
from irene.meters.cpu.cpu_load import LOAD_STEP_S, CpuLoad
from irene.meters.cpu.cpu_sensors import Sensors, open_clock_share
from irene.meters.cpu.kernel_files import Roots
from irene.meters.estimate.cpu_basis import (
    TDP_VARIABLE,
    Basis,
    LoadModel,
    basis_of,
)
from irene.meters.machine import read_processor

FILE = Path(__file__).with_name("estimate_model.json")
NOTE = "estimated from the load of all CPUs; memory is not covered"
NOTE_CLOCK = "estimated from load and clock of all CPUs; memory is not covered"
NO_CLOCK_IN_VM = "a virtual machine tells no clock to rely on"
CLOCK_FROM = "the clock is that of cpufreq"


@cache
def load_models() -> tuple[LoadModel, LoadModel]:
    """The models that ship with the package: with the clock, and without it."""
    told = json.loads(FILE.read_text(encoding="utf-8"))["models"]
    return (
        LoadModel(**told["with_clock"]["numbers"]),
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
    holds_s = settles_s = LOAD_STEP_S
    summary = "no sensor, and a wide interval"

    def __init__(
        self,
        proc: Path,
        basis: Basis,
        model: LoadModel,
        clock: Callable[[], float] = time.monotonic,
        clocks: Sensors | None = None,
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
        clock = self._clocks.value() if self._clocks else 1.0
        if clock != clock:  # NaN
            raise SensorLostError("no CPU tells its clock any more")
        basis = self.basis
        return [self._model.power_w(basis.cores, basis.tdp_w_per_core, load, clock)]

    def close(self) -> None:
        """Let go of the files; closing twice is fine."""
        self._load.close()
        if self._clocks:
            self._clocks.close()


def open_estimate(roots: Roots) -> EstimateMeter:
    """Open the estimate.

    Raises:
        MeterError: The load is not known here.
        UsageError: `IRENE_CPU_TDP_W` is no number of watts.
    """
    with ExitStack() as stack:
        basis, model, clocks = _prepare(roots)
        if clocks:
            stack.callback(clocks.close)
        meter = EstimateMeter(roots.proc, basis, model, clocks=clocks)
        stack.pop_all()  # the meter closes them now
    return meter


def _prepare(roots: Roots) -> tuple[Basis, LoadModel, Sensors | None]:
    """What the machine is taken for, and what can be known of its clock."""
    processor, (with_clock, without_clock) = read_processor(roots), load_models()
    stated = os.environ.get(TDP_VARIABLE, "")
    if processor.virtual:
        clocks, why_not = None, NO_CLOCK_IN_VM
    else:
        clocks, why_not = open_clock_share(roots)
    model = with_clock if clocks else without_clock
    try:
        basis = basis_of(processor, model, stated, why_not or CLOCK_FROM)
    except UsageError:
        if clocks:
            clocks.close()
        raise
    return basis, model, clocks


def assumptions(roots: Roots) -> tuple[str, ...]:
    """What the estimate takes a machine for and which model it uses, in words."""
    basis, _, clocks = _prepare(roots)
    if clocks:
        clocks.close()
    return basis.assumptions
