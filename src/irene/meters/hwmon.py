"""Power and energy that drivers show under `/sys/class/hwmon`.

NVIDIA's Grace tells its power through ACPI power meters, Intel's GPUs count energy
(`i915`, `xe`), AMD's tell their power (`amdgpu`). Units are the kernel's: µW, µJ, ms
(Documentation/hwmon/sysfs-interface). Sensors of drivers that say nothing of what they
cover are shown, and not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from irene.errors import MeterError
from irene.meters.channel import NO_VALUE, Channel, Finding, SensorLostError, probed
from irene.meters.cpu.kernel_files import KeptFile, Roots, number_in, text_in
from irene.meters.energy_counter import GrowingCounter

__all__ = ["HwmonMeter", "open_hwmon", "probe"]

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
class _Sensor:
    path: Path
    channel: Channel
    place: tuple[str, ...]  # sensors of one place are rivals


class HwmonMeter:
    """All hwmon sensors of power and energy; made by `open_hwmon`.

    Attributes:
        channels: What it gives, then what is missing in the total.
        remedy: What would help with those that cannot be read, or "".
    """

    name = "hwmon"

    def __init__(self, sensors: Sequence[_Sensor]) -> None:
        self.remedy = ""
        self._files: list[tuple[KeptFile, GrowingCounter | None]] = []
        opened: list[Channel] = []
        missing: list[Channel] = []
        for sensor in sensors:
            channel = sensor.channel
            try:
                file = KeptFile(sensor.path)
                int(file.read())
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                if isinstance(error, PermissionError):
                    self.remedy = REMEDY.format(path=sensor.path)
                if channel.counted:
                    missing.append(replace(channel, counted=False, missing=reason))
                continue
            counts = channel.quantity == "energy_j"
            self._files.append((file, GrowingCounter(1e-6) if counts else None))
            opened.append(channel)
        self.channels = (*opened, *missing)
        self._nothing = [NO_VALUE] * len(missing)

    def read(self) -> list[float]:
        """Joules or watts of each channel; `NO_VALUE` where one gives none.

        Raises:
            SensorLostError: None can be read any more.
        """
        values: list[float] = []
        lost = 0
        for file, counter in self._files:
            try:
                micro = int(file.read())
            except (OSError, ValueError):
                values.append(NO_VALUE)
                lost += 1
            else:
                values.append(counter.joules(micro) if counter else micro * 1e-6)
        if lost == len(self._files):
            raise SensorLostError("no sensor of hwmon can be read any more")
        return values + self._nothing

    def close(self) -> None:
        """Close the files; closing twice is fine."""
        files, self._files = self._files, []
        for file, _ in files:
            file.close()


def open_hwmon(roots: Roots) -> HwmonMeter:
    """Open all sensors of power and energy.

    Args:
        roots: Where the kernel shows the machine.

    Raises:
        MeterError: There are none, or none can be read.
    """
    folder = roots.sysfs / "class" / "hwmon"
    sensors = _each_joule_once(list(_sensors(folder)))
    if not sensors:
        raise MeterError(f"no sensor of power in {folder}", NOTHING)
    meter = HwmonMeter(sensors)
    if all(channel.missing for channel in meter.channels):
        meter.close()
        paths = ", ".join(str(sensor.path) for sensor in sensors)
        raise MeterError(f"no sensor can be read: {paths}", meter.remedy)
    return meter


def probe(roots: Roots) -> Finding:
    """What there is under hwmon; never raises."""
    return probed("hwmon", partial(open_hwmon, roots), _summary)


def _summary(meter: HwmonMeter) -> str:
    there = ", ".join(c.name for c in meter.channels if not c.missing)
    gone = [
        f"{c.name} cannot be read: {c.missing}" for c in meter.channels if c.missing
    ]
    return "; ".join((there, *gone))


def _sensors(folder: Path) -> Iterator[_Sensor]:
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


def _sensor(path: Path, driver: str, chip: str, label: str, device: str) -> _Sensor:
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
        return _Sensor(path, card, (device,))
    if grace and grace[1] == "Grace":
        socket = replace(channel, covers="cpu-package", counted=True, device="cpu")
        return _Sensor(path, socket, ("cpu", grace[2]))
    if driver == "amd_energy" and label.startswith("Esocket"):
        socket = replace(channel, covers="cpu-package", counted=True, device="cpu")
        return _Sensor(path, socket, ("cpu", label))
    return _Sensor(path, replace(channel, name=f"{channel.name}@{chip}"), ())


def _each_joule_once(sensors: Sequence[_Sensor]) -> list[_Sensor]:
    """Of each place the best counts: energy before power, the card before its parts."""
    best: dict[tuple[str, ...], _Sensor] = {}
    for sensor in sorted(sensors, key=_rank):
        if sensor.channel.counted:
            best.setdefault(sensor.place, sensor)
    kept = [s for s in sensors if not s.channel.counted or best[s.place] is s]
    return [
        s for s in kept if "Ecore" not in s.channel.name
    ]  # hundreds, in the sockets


def _rank(sensor: _Sensor) -> tuple[bool, bool, str]:
    name = sensor.path.name
    return not name.startswith("energy"), name.endswith("average"), name
