"""AMD GPUs through AMD's own library, `amdsmi`, which comes with ROCm.

An accumulator of energy times its resolution (µJ), or power (W) where there is none:
MI100 and older, and guests of virtual machines.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from irene.errors import MeterError, library
from irene.meters.channel import Channel, Sensor, SensorMeter
from irene.meters.energy_counter import GrowingCounter

INSTALL = "pip install /opt/rocm/share/amd_smi"
ACCUMULATORS = ("energy_accumulator", "power")
"""Names of the count in releases of ROCm 6 and before."""
POWERS = ("current_socket_power", "average_socket_power")
UNKNOWN_ERROR = 0.1
GUESSED = "AMD states no error; 10 % is a guess"
VISIBLE = "HIP_VISIBLE_DEVICES"
TWIN = "MI250"
TWO_CHIPLETS = "; of both chiplets of the card, the second one has no sensor"


def open_amdsmi() -> SensorMeter:
    """Open the AMD GPUs that the program sees, numbered as it numbers them."""
    smi = library("amdsmi", f"AMD GPUs are read with amdsmi: {INSTALL}")
    try:
        smi.amdsmi_init()
        handles = list(smi.amdsmi_get_processor_handles())
        if seen := os.environ.get(VISIBLE):
            handles = [handles[int(number)] for number in seen.split(",")]
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        remedy = f"try `amd-smi list`; {VISIBLE}, if set, must be numbers of these"
        raise MeterError(f"amdsmi finds no GPU: {what}", remedy) from error
    found = (_sensor(smi, each, number) for number, each in enumerate(handles))
    sensors = [sensor for sensor in found if sensor is not None]
    if not sensors:
        raise MeterError(f"none of {len(handles)} AMD GPUs tells its power")

    def let_go() -> None:
        with contextlib.suppress(Exception):  # it may be gone already
            smi.amdsmi_shut_down()

    return SensorMeter("amdsmi", sensors, let_go=let_go)


def _sensor(library: Any, handle: Any, number: int) -> Sensor | None:
    """The energy of a GPU, else its power, else nothing."""
    counter = GrowingCounter(1e-6)

    def energy_j() -> list[float]:
        answer = library.amdsmi_get_energy_count(handle)
        count = next(answer[name] for name in ACCUMULATORS if name in answer)
        return [counter.joules(float(count) * float(answer["counter_resolution"]))]

    def power_w() -> list[float]:
        answer = library.amdsmi_get_power_info(handle)
        known = (answer.get(name) for name in POWERS)
        # `N/A` for what it does not tell.
        return [float(next(w for w in known if isinstance(w, int | float) and w))]

    note = GUESSED
    with contextlib.suppress(Exception):  # older releases do not tell what it is
        if TWIN in library.amdsmi_get_gpu_asic_info(handle)["market_name"]:
            note += TWO_CHIPLETS
    for quantity, ask in (("energy", energy_j), ("power", power_w)):
        with contextlib.suppress(Exception):  # the library has errors of its own
            ask()
            channel = Channel(
                f"amdsmi:{number}:{quantity}",
                "energy_j" if quantity == "energy" else "power_w",
                covers="gpu-board",
                device=f"cuda:{number}",
                relative_error=UNKNOWN_ERROR,
                note=note,
            )
            return Sensor((channel,), ask)
    return None
