"""Power and energy that drivers show under `/sys/class/hwmon`.

NVIDIA's Grace tells its power through ACPI power meters, Intel's GPUs count energy
(`i915`, `xe`), AMD's tell their power (`amdgpu`). Units are the kernel's: µW, µJ, ms
(Documentation/hwmon/sysfs-interface). Sensors of drivers that say nothing of what they
cover are shown, and not counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from irene.errors import MeterError
from irene.meters.channel import Channel, Sensor, SensorMeter
from irene.meters.cpu.kernel_files import KeptFile, Roots, number_in, text_in
from irene.meters.energy_counter import GrowingCounter

SENSOR = re.compile(r"(energy|power)(\d+)_(input|average)")
GPUS = {"amdgpu": "cuda", "i915": "xpu", "xe": "xpu"}
"""Drivers of whole cards, and what torch calls their devices."""
GRACE = re.compile(r"(Module|Grace|CPU|SysIO) Power Socket (\d+)")
"""What the ACPI power meters of NVIDIA's Grace say they are (`power1_oem_info`): the
Grace socket holds the CPU and SysIO rails and its memory; the module of a Grace Hopper
holds its GPU as well, which `nvml` counts (NVIDIA Grace Performance Tuning Guide)."""
UNKNOWN_ERROR = 0.1
GUESSED = "the driver states no error, 10 % is a guess"
REMEDY = "sudo chmod a+r {path}, or run as root"
NOTHING = "On machines with NVIDIA Grace or an Intel or AMD GPU the kernel shows some."


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    channel: Channel
    place: tuple[str, ...]  # sensors of one place are rivals


def open_hwmon(roots: Roots) -> SensorMeter:
    """Open all sensors of power and energy."""
    folder = roots.sysfs / "class" / "hwmon"
    sensors = _each_joule_once(list(_sensors(folder)))
    if not sensors:
        raise MeterError(f"no sensor of power in {folder}", NOTHING)
    opened: list[Sensor] = []
    missing: list[Channel] = []
    files = ExitStack()
    remedy = ""
    for sensor in sensors:
        channel = sensor.channel
        try:
            with ExitStack() as opening:
                file = KeptFile(sensor.path)
                opening.callback(file.close)
                int(file.read())
                files.push(opening.pop_all())
        except (OSError, ValueError) as error:
            if isinstance(error, PermissionError):
                remedy = REMEDY.format(path=sensor.path)
            if channel.counted:
                reason = getattr(error, "strerror", None) or str(error)
                missing.append(replace(channel, counted=False, missing=reason))
        else:
            opened.append(Sensor((channel,), _asking(file, channel)))
    if not opened:
        paths = ", ".join(str(sensor.path) for sensor in sensors)
        raise MeterError(f"no sensor can be read: {paths}", remedy)
    return SensorMeter("hwmon", opened, missing, remedy, files.close)


def _asking(file: KeptFile, channel: Channel) -> Callable[[], list[float]]:
    if channel.quantity == "power_w":
        return lambda: [int(file.read()) * 1e-6]
    counter = GrowingCounter(1e-6)
    return lambda: [counter.joules(int(file.read()))]


def _sensors(folder: Path) -> Iterator[_Found]:
    numbers: dict[str, int] = {}
    for chip in sorted(folder.glob("hwmon*"), key=_bus_place):
        driver = text_in(chip / "name")
        kind = GPUS.get(driver, "")
        number = numbers.get(kind, 0)
        numbers[kind] = number + 1
        # ACPI power meters have their files beside the chip, not in it.
        for path in sorted({*chip.glob("*_*"), *chip.glob("device/*_*")}):
            match = SENSOR.fullmatch(path.name)
            if match:
                quantity, index, _ = match.groups()
                label = _label(path.parent, quantity, index)
                device = f"{kind}:{number}" if kind else ""
                yield _sensor(
                    path, driver, chip.name, label or quantity + index, device
                )


def _bus_place(chip: Path) -> tuple[str, int]:
    """Cards by their place on the bus, as torch counts them; else as numbered."""
    number = re.sub(r"\D", "", chip.name)
    return (chip / "device").resolve().name, int(number or 0)


def _label(folder: Path, quantity: str, index: str) -> str:
    names = (f"{quantity}{index}_label", f"{quantity}{index}_oem_info")
    text = next(filter(None, (text_in(folder / name) for name in names)), "")
    return "".join("_" if c in ',"#\n\r' else c for c in text)


def _sensor(path: Path, driver: str, chip: str, label: str, device: str) -> _Found:
    energy = path.name.startswith("energy")
    interval_ms = number_in(
        path.parent / f"{path.name.partition('_')[0]}_average_interval"
    )
    channel = Channel(
        f"hwmon:{device or driver}:{label}",
        "energy_j" if energy else "power_w",
        covers="rail",
        counted=False,
        device=device,
        resolution_s=interval_ms * 1e-3,
        relative_error=UNKNOWN_ERROR,
        note=f"{driver} {label}; {GUESSED}",
    )
    grace = GRACE.fullmatch(label)
    if device:
        card = replace(channel, covers="gpu-board", counted=True)
        return _Found(path, card, (device,))
    if grace and grace[1] == "Grace":
        socket = replace(channel, covers="cpu-package", counted=True, device="cpu")
        return _Found(path, socket, ("cpu", grace[2]))
    if driver == "amd_energy" and label.startswith("Esocket"):
        socket = replace(channel, covers="cpu-package", counted=True, device="cpu")
        return _Found(path, socket, ("cpu", label))
    return _Found(path, replace(channel, name=f"{channel.name}@{chip}"), ())


def _each_joule_once(sensors: Sequence[_Found]) -> list[_Found]:
    """Of each place the best counts: energy before power, the card before its parts."""
    best: dict[tuple[str, ...], _Found] = {}
    for sensor in sorted(sensors, key=_rank):
        if sensor.channel.counted:
            best.setdefault(sensor.place, sensor)
    kept = [s for s in sensors if not s.channel.counted or best[s.place] is s]
    return [
        s for s in kept if "Ecore" not in s.channel.name
    ]  # hundreds, in the sockets


def _rank(sensor: _Found) -> tuple[bool, bool, str]:
    name = sensor.path.name
    return not name.startswith("energy"), name.endswith("average"), name
