"""Laptop batteries: what the whole machine draws while nothing else supplies it.

Under `/sys/class/power_supply` (Documentation/ABI/testing/sysfs-class-power): µW, or µA
and µV. On the mains a battery tells what it is charged with, which is not what the
machine draws: then there is no value.
"""

from __future__ import annotations

from pathlib import Path

from irene.errors import MeterError
from irene.meters.channel import NO_VALUE, Channel, Sensor, SensorLostError, SensorMeter
from irene.meters.cpu.kernel_files import Roots, text_in

UNKNOWN_ERROR = 0.1
NOTE = (
    "all that the machine draws, screen included; the gauge states no error, 10 % is "
    "a guess"
)
HOLDS_S = 0.5  # gauges give something new every second or slower
ON_MAINS = "pull the plug: on the mains a battery does not supply the machine"


def open_battery(roots: Roots) -> SensorMeter:
    """Open the batteries of this machine."""
    folder = roots.sysfs / "class" / "power_supply"
    found = [path for path in sorted(folder.glob("*")) if _supplies(path)]
    if not found:
        raise MeterError("no battery here")
    if all(value != value for value in map(_watts, found)):
        raise MeterError(f"{found[0].name}: {text_in(found[0] / 'status')}", ON_MAINS)
    return SensorMeter("battery", list(map(_sensor, found)), holds_s=HOLDS_S)


def _sensor(path: Path) -> Sensor:
    channel = Channel(
        f"battery:{path.name}:power",
        "power_w",
        covers="wall",
        relative_error=UNKNOWN_ERROR,
        note=NOTE,
    )

    def ask() -> list[float]:
        if not path.exists():
            raise SensorLostError("the battery is gone")
        return [_watts(path)]

    return Sensor((channel,), ask)


def _supplies(path: Path) -> bool:
    """Whether it is a battery of the machine, and not of a mouse."""
    return text_in(path / "type") == "Battery" and text_in(path / "scope") != "Device"


def _watts(path: Path) -> float:
    if text_in(path / "status") != "Discharging":
        return NO_VALUE
    power_w = _micro(path / "power_now") * 1e-6
    if not power_w:
        power_w = _micro(path / "current_now") * _micro(path / "voltage_now") * 1e-12
    return power_w or NO_VALUE


def _micro(path: Path) -> int:
    """A number in millionths; some drivers count what flows out as below zero."""
    text = text_in(path).removeprefix("-")
    return int(text) if text.isdecimal() else 0
