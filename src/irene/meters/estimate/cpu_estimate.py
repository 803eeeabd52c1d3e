"""The CPU's power where nothing measures it: an estimate, and labelled so."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from irene.errors import MeterError, UsageError
from irene.meters.channel import Channel, Finding
from irene.meters.cpu.clock_share import ClockShare, open_clock_share
from irene.meters.cpu.cpu_load import LOAD_STEP_S, CpuLoad, proc_root
from irene.meters.cpu.processor import read_processor
from irene.meters.cpu.zones import sysfs_root
from irene.meters.estimate.estimate_model import (
    TDP_VARIABLE,
    Basis,
    Model,
    basis_of,
    load_models,
)

__all__ = ["EstimateMeter", "assumptions", "open_estimate", "probe"]

NOTE = "estimated from the load of all CPUs; memory is not covered"
NOTE_CLOCK = "estimated from load and clock of all CPUs; memory is not covered"
NO_CLOCK_IN_VM = "a virtual machine tells no clock to rely on"
CLOCK_FROM = "the clock is that of cpufreq"


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

    def interval_w(self, power_w: float) -> tuple[float, float]:
        """The 90 % interval of a power, W; it never goes below nothing."""
        half_w = power_w * self.basis.relative_error
        return max(0.0, power_w - half_w), power_w + half_w

    def close(self) -> None:
        """Let go of the files; closing twice is fine."""
        self._load.close()
        if self._clocks:
            self._clocks.close()


def open_estimate(
    root: Path | str | None = None, sysfs: Path | str | None = None
) -> EstimateMeter:
    """Open the estimate; the first reading already has a value.

    Args:
        root: Where procfs is; else `IRENE_PROC_ROOT` or `/proc`.
        sysfs: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.

    Raises:
        MeterError: The load is not known here.
        UsageError: `IRENE_CPU_TDP_W` is no number of watts.
    """
    meter = _open(root, sysfs)
    time.sleep(LOAD_STEP_S)
    return meter


def _open(root: Path | str | None, sysfs: Path | str | None) -> EstimateMeter:
    with ExitStack() as stack:
        basis, model, clocks = _prepare(root, sysfs)
        if clocks:
            stack.callback(clocks.close)
        meter = EstimateMeter(proc_root(root), basis, model, clocks=clocks)
        stack.pop_all()  # the meter closes them now
    return meter


def _prepare(
    root: Path | str | None, sysfs: Path | str | None
) -> tuple[Basis, Model, ClockShare | None]:
    """What the machine is taken for, and what can be known of its clock."""
    processor, models = read_processor(root, sysfs), load_models()
    stated = os.environ.get(TDP_VARIABLE, "")
    if processor.virtual:
        clocks, why_not = None, NO_CLOCK_IN_VM
    else:
        clocks, why_not = open_clock_share(sysfs_root(sysfs))
    model: Model = models.with_clock if clocks else models.without_clock
    try:
        basis = basis_of(processor, model, stated, why_not or CLOCK_FROM)
    except UsageError:
        if clocks:
            clocks.close()
        raise
    return basis, model, clocks


def assumptions(
    root: Path | str | None = None, sysfs: Path | str | None = None
) -> tuple[str, ...]:
    """What the estimate takes this machine for and which model it uses, in words.

    Args:
        root: Where procfs is; else `IRENE_PROC_ROOT` or `/proc`.
        sysfs: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.
    """
    basis, _, clocks = _prepare(root, sysfs)
    if clocks:
        clocks.close()
    return basis.assumptions


def probe(root: Path | str | None = None, sysfs: Path | str | None = None) -> Finding:
    """Whether an estimate can be made here.

    Args:
        root: Where procfs is; else `IRENE_PROC_ROOT` or `/proc`.
        sysfs: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.
    """
    try:
        meter = _open(root, sysfs)
    except (MeterError, UsageError) as error:
        return Finding("estimate", False, str(error))
    meter.close()
    detail = "no sensor, and a wide interval"
    return Finding("estimate", True, detail, channels=meter.channels)
