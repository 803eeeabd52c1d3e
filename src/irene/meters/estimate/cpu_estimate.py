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

from irene.meters.channel import Channel, Sensor, SensorMeter
from irene.meters.cpu.cpu_load import LOAD_STEP_S, CpuLoad
from irene.meters.cpu.kernel_files import Roots
from irene.meters.estimate.cpu_basis import TDP_VARIABLE, Basis, LoadModel, basis_of
from irene.meters.machine import read_processor

FILE = Path(__file__).with_name("estimate_model.json")
NOTE = "estimated from the load of all CPUs; memory is not covered"


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
