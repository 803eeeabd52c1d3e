"""SensorMeter: sensors that are asked one after the other, each for itself.

One that fails gives nothing, and the others go on; a meter is lost when all fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from irene.meters.channel import NO_VALUE, Channel, SensorLostError


@dataclass(frozen=True, slots=True)
class Sensor:
    """Something that can be asked.

    Attributes:
        channels: What it gives.
        ask: Gives a value for each of them; may raise anything.
    """

    channels: tuple[Channel, ...]
    ask: Callable[[], Sequence[float]]


class SensorMeter:
    """A meter made of sensors.

    Args:
        name: Short name.
        sensors: What is asked, in order.
        missing: Channels of what belongs in the total and cannot be read.
        remedy: What would help with these, or "".
        let_go: Called once when it is closed.
        holds_s: How long a reading is good for, s.
    """

    def __init__(
        self,
        name: str,
        sensors: Sequence[Sensor],
        missing: Sequence[Channel] = (),
        remedy: str = "",
        let_go: Callable[[], object] = lambda: None,
        holds_s: float = 0.0,
    ) -> None:
        self.name, self.remedy, self.holds_s = name, remedy, holds_s
        self.channels = (*(c for sensor in sensors for c in sensor.channels), *missing)
        self._sensors, self._let_go = tuple(sensors), let_go
        self._nothing = [NO_VALUE] * len(missing)

    def read(self) -> list[float]:
        """One value for each channel; `NO_VALUE` for those of a sensor that fails.

        Raises:
            SensorLostError: All fail, or the meter is closed.
        """
        values: list[float] = []
        problems: list[str] = []
        for sensor in self._sensors:
            try:
                values += sensor.ask()
            except Exception as error:  # noqa: BLE001  every vendor has errors of its own
                values += [NO_VALUE] * len(sensor.channels)
                name = sensor.channels[0].name
                problems.append(f"{name}: {type(error).__name__}: {error}")
        if len(problems) == len(self._sensors):
            raise SensorLostError("; ".join(problems) or f"{self.name} is closed")
        return values + self._nothing

    def close(self) -> None:
        """Let go of the sensors; closing twice is fine."""
        sensors, self._sensors = self._sensors, ()
        if sensors:
            self._let_go()
