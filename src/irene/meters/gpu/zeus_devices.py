"""AMD GPUs, Apple silicon and NVIDIA Jetson, through the package `zeus`.

Zeus knows how to ask these for energy (mJ) and power (mW). NVIDIA cards are left to
`nvml`, and the CPUs that have RAPL to `rapl`: zeus's read just after their counter has
wrapped is wrong by the counter's whole range.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from irene.errors import IreneError, MeterError, library
from irene.meters.channel import NO_VALUE, Channel
from irene.meters.energy_counter import GrowingCounter
from irene.meters.sensors import Sensor, SensorMeter

INSTALL = "pip install 'irene-energy[zeus]'"
NOTHING = (
    "zeus finds no AMD GPU, Apple silicon or Jetson",
    "AMD needs ROCm 6.2 or newer and its amdsmi; Apple needs zeus-apple-silicon",
)
UNKNOWN_ERROR = 0.1
"""AMD, Apple and NVIDIA (for Jetson) state no error of these counters. Zeus itself only
rejects those of AMD that are off by a factor of ten against power; this is a guess, and
the channel says so."""
GUESSED = "the vendor states no error, 10 % is a guess"
TWIN = "MI250"
TWO_CHIPLETS = "; of both chiplets of the card, the second one has no sensor"
JETSON_S = 0.1  # zeus adds its power up ten times a second, or when it is asked

SOC_FIELDS = {
    "cpu_total_mj": ("cpu", "soc-cpu", "cpu"),
    "gpu_mj": ("gpu", "soc-gpu", "mps"),
    "gpu_sram_mj": ("gpu_sram", "soc-gpu", "mps"),
    "dram_mj": ("dram", "dram", ""),
    "ane_mj": ("ane", "soc-neural-engine", ""),
    "total_energy_mj": ("total", "board", ""),
    "cpu_energy_mj": ("cpu", "soc-cpu", "cpu"),
    "gpu_energy_mj": ("gpu", "soc-gpu", "cuda:0"),
}
"""Fields of a SoC's measurement: our name, what it covers, device. Apple's come first,
Jetson's after; single cores and clusters of Apple's are parts of `cpu_total_mj`."""
TOTAL = "total_energy_mj"
PERHAPS_INSIDE = "gpu_sram_mj"  # nobody says whether Apple's gpu_mj contains it


def open_zeus() -> SensorMeter:
    """Open all devices that zeus can read, other than NVIDIA GPUs and CPUs.

    Raises:
        MeterError: There is none.
        MissingExtraError: zeus is not installed.
    """
    try:
        meter = SensorMeter("zeus", [*_amd_sensors(), *_soc_sensors()])
        if meter.channels:
            meter.read()
    except IreneError:
        raise
    except Exception as error:
        raise MeterError(
            f"zeus cannot read its devices: {type(error).__name__}: {error}",
            "try `amd-smi list`; HIP_VISIBLE_DEVICES, if set, must be numbers",
        ) from error
    if not meter.channels:
        raise MeterError(*NOTHING)
    return meter


def _zeus(module: str) -> Any:
    missing = f"AMD, Apple and Jetson devices are read with zeus: {INSTALL}"
    return library(f"zeus.device.{module}", missing)


def _amd_sensors() -> Iterator[Sensor]:
    zeus_gpu = _zeus("gpu")
    # Not get_gpus(): it stops at the first vendor, and there may be cards of both.
    if not zeus_gpu.amdsmi_is_available():
        return
    gpus = zeus_gpu.AMDGPUs()
    for number, gpu in enumerate(gpus.gpus):
        # zeus follows HIP_VISIBLE_DEVICES, so that its order is the one torch sees.
        sensor = _gpu_sensor(gpu, f"zeus:amd:{gpu.gpu_index}", f"cuda:{number}")
        if sensor is not None:
            # What is kept shuts the vendor's library down when it is collected.
            yield replace(sensor, ask=partial(_asked, sensor, gpus))


def _asked(sensor: Sensor, kept: Any) -> Sequence[float]:
    return sensor.ask()


def _gpu_sensor(gpu: Any, name: str, device: str) -> Sensor | None:
    shared: dict[str, Any] = {
        "covers": "gpu-board",
        "device": device,
        "relative_error": UNKNOWN_ERROR,
    }
    model = gpu.get_name()
    note = f"{model}; {GUESSED}" + (TWO_CHIPLETS if TWIN in model else "")
    if gpu.supports_get_total_energy_consumption():
        counter = GrowingCounter(1e-3)
        return Sensor(
            (Channel(f"{name}:energy", "energy_j", note=note, **shared),),
            lambda: (counter.joules(gpu.get_total_energy_consumption()),),
        )
    for kind in ("instant", "average"):
        ask = getattr(gpu, f"get_{kind}_power_usage")
        with contextlib.suppress(Exception):  # not supported, by any of its errors
            ask()
            note = f"{kind} power; {note}"
            channel = Channel(f"{name}:power", "power_w", note=note, **shared)
            return Sensor((channel,), partial(_watts, ask))
    return None


def _watts(milliwatts: Callable[[], float]) -> tuple[float]:
    return (milliwatts() * 1e-3,)


def _soc_sensors() -> Iterator[Sensor]:
    zeus_soc = _zeus("soc")
    with contextlib.suppress(zeus_soc.ZeusSoCInitError):
        soc = zeus_soc.get_soc()
        known = soc.get_available_metrics()
        names = [name for name in SOC_FIELDS if name in known]
        if names:
            yield _soc_sensor(soc, names)


def _soc_sensor(soc: Any, names: Sequence[str]) -> Sensor:
    kind = type(soc).__name__.lower()
    counters = {name: GrowingCounter(1e-3) for name in names}

    def ask() -> list[float]:
        energies_mj = asdict(soc.get_total_energy_consumption())
        return [
            NO_VALUE if energies_mj[name] is None else counter.joules(energies_mj[name])
            for name, counter in counters.items()
        ]

    return Sensor(
        tuple(_soc_channel(kind, name, TOTAL in names) for name in names), ask
    )


def _soc_channel(kind: str, field: str, has_total: bool) -> Channel:
    name, covers, device = SOC_FIELDS[field]
    return Channel(
        f"zeus:{kind}:{name}",
        "energy_j",
        covers=covers,
        counted=field == TOTAL or not (has_total or field == PERHAPS_INSIDE),
        device=device,
        resolution_s=JETSON_S if kind == "jetson" else 0.0,
        relative_error=UNKNOWN_ERROR,
        note=GUESSED,
    )
