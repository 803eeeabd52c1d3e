"""The CPU's power where nothing measures it: an estimate, and labelled so."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from irene.errors import MeterError, UsageError
from irene.meters.channel import Channel, Finding
from irene.meters.cpu_load import LOAD_STEP_S, CpuLoad, proc_root
from irene.meters.estimate_model import TDP_VARIABLE, Basis, Model, basis_of, load_model
from irene.meters.processor import read_processor

__all__ = ["EstimateMeter", "assumptions", "open_estimate", "probe"]

NOTE = "estimated from the load of all CPUs; memory is not covered"


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

    Raises:
        MeterError: The load is not known here.
    """

    name = "estimate"

    def __init__(
        self,
        proc: Path,
        basis: Basis,
        model: Model,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.basis = basis
        self._model = model
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
                note=NOTE,
            ),
        )

    def read(self) -> list[float]:
        """Power since the last reading, W; `NO_VALUE` until a load is known.

        Raises:
            SensorLostError: The load cannot be read any more.
        """
        load = self._load.percent() / 100.0
        basis = self.basis
        return [self._model.power_w(basis.cores, basis.tdp_w_per_core, load)]

    def interval_w(self, power_w: float) -> tuple[float, float]:
        """The 90 % interval of a power, W; it never goes below nothing."""
        half_w = power_w * self.basis.relative_error
        return max(0.0, power_w - half_w), power_w + half_w

    def close(self) -> None:
        """Let go of the file; closing twice is fine."""
        self._load.close()


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
    meter = EstimateMeter(proc_root(root), _basis(root, sysfs), load_model())
    time.sleep(LOAD_STEP_S)
    return meter


def _basis(root: Path | str | None, sysfs: Path | str | None) -> Basis:
    stated = os.environ.get(TDP_VARIABLE, "")
    return basis_of(read_processor(root, sysfs), load_model(), stated)


def assumptions(
    root: Path | str | None = None, sysfs: Path | str | None = None
) -> tuple[str, ...]:
    """What the estimate takes this machine for, in words.

    Args:
        root: Where procfs is; else `IRENE_PROC_ROOT` or `/proc`.
        sysfs: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.
    """
    return _basis(root, sysfs).assumptions


def probe(root: Path | str | None = None, sysfs: Path | str | None = None) -> Finding:
    """Whether an estimate can be made here.

    Args:
        root: Where procfs is; else `IRENE_PROC_ROOT` or `/proc`.
        sysfs: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.
    """
    try:
        basis = _basis(root, sysfs)
        meter = EstimateMeter(proc_root(root), basis, load_model())
    except (MeterError, UsageError) as error:
        return Finding("estimate", False, str(error))
    meter.close()
    detail = "no sensor, and a wide interval"
    return Finding("estimate", True, detail, channels=meter.channels)
