"""Apple silicon and NVIDIA Jetson, through the package `zeus`.

Zeus knows how to ask these for energy (mJ). GPU cards are left to `nvml` and `amdsmi`,
and the CPUs that have RAPL to `rapl`: zeus's read just after their counter has wrapped
is wrong by the counter's whole range.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from irene.errors import IreneError, MeterError, library
from irene.meters.channel import NO_VALUE, Channel, Sensor, SensorMeter
from irene.meters.energy_counter import GrowingCounter

INSTALL = "pip install 'irene-energy[zeus]'"
NOTHING = (
    "zeus finds no Apple silicon or Jetson",
    "Apple needs zeus-apple-silicon",
)
UNKNOWN_ERROR = 0.1
"""Apple and NVIDIA (for Jetson) state no error of these counters: this is a guess, and
the channel says so."""
GUESSED = "the vendor states no error, 10 % is a guess"
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
    """Open the chip, if it is one that zeus can read."""
    try:
        meter = SensorMeter("zeus", [*_soc_sensors()])
        if meter.channels:
            meter.read()
    except IreneError:
        raise
    except Exception as error:
        raise MeterError(
            f"zeus cannot read its devices: {type(error).__name__}: {error}"
        ) from error
    if not meter.channels:
        raise MeterError(*NOTHING)
    return meter


def _soc_sensors() -> Iterator[Sensor]:
    missing = f"Apple and Jetson chips are read with zeus: {INSTALL}"
    zeus_soc = library("zeus.device.soc", missing)
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
