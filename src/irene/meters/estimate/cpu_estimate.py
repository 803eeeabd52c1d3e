"""The CPU's power where nothing measures it: an estimate, and labelled so.

    power = cores · (idle + active_share · TDP per core · load)

Idle power grows with the number of cores and of what lies around them; the rest grows
with the TDP and with the busy share of all threads. How both were fitted and how wrong
they are on a processor they have not seen: docs/explanation/cpu-estimate.md.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from irene.meters.channel import Channel
from irene.meters.cpu.cpu_load import LOAD_STEP_S, CpuLoad
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


@cache
def load_model() -> LoadModel:
    """The model that ships with the package."""
    return LoadModel(**json.loads(FILE.read_text(encoding="utf-8"))["numbers"])


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
    holds_s = settles_s = LOAD_STEP_S
    summary = "no sensor, and a wide interval"

    def __init__(
        self,
        proc: Path,
        basis: Basis,
        model: LoadModel,
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
        load, basis = self._load.percent() / 100.0, self.basis
        return [self._model.power_w(basis.cores, basis.tdp_w_per_core, load)]

    def close(self) -> None:
        """Let go of the files; closing twice is fine."""
        self._load.close()


def open_estimate(roots: Roots) -> EstimateMeter:
    """Open the estimate.

    Raises:
        MeterError: The load is not known here.
        UsageError: `IRENE_CPU_TDP_W` is no number of watts.
    """
    return EstimateMeter(roots.proc, _basis(roots), load_model())


def _basis(roots: Roots) -> Basis:
    """What the machine is taken for."""
    stated = os.environ.get(TDP_VARIABLE, "")
    return basis_of(read_processor(roots), load_model(), stated)


def assumptions(roots: Roots) -> tuple[str, ...]:
    """What the estimate takes a machine for, in words."""
    return _basis(roots).assumptions
