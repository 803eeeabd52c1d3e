"""Meters whose every value is known, and a clock that stands still until told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from irene.meters.channel import Channel, SensorLostError

COUNTER = Channel("rapl:package-0", "energy_j", "cpu-package", resolution_s=0.001)
POWER = Channel("wall:power", "power_w", "wall")
LOAD = Channel("proc:cpu", "percent", counted=False)


@dataclass
class ListMeter:
    """Gives rows of a list one after the other; the last one for ever."""

    channels: Sequence[Channel]
    rows: list[Sequence[float] | Exception]
    name: str = "list"
    closed: bool = False
    asked: int = field(default=0)

    def read(self) -> Sequence[float]:
        row = self.rows[min(self.asked, len(self.rows) - 1)]
        self.asked += 1
        if isinstance(row, Exception):
            raise row
        return row

    def close(self) -> None:
        self.closed = True


@dataclass
class CurveMeter:
    """A counter and a power that follow a curve of time exactly."""

    clock_ns: Callable[[], int]
    energy_j_at: Callable[[float], float]
    power_w_at: Callable[[float], float]
    channels: Sequence[Channel] = (COUNTER, POWER)
    name: str = "curve"
    lost: bool = False

    def read(self) -> Sequence[float]:
        if self.lost:
            raise SensorLostError("pulled out")
        now_s = self.clock_ns() * 1e-9
        return self.energy_j_at(now_s), self.power_w_at(now_s)

    def close(self) -> None:
        pass


NAN = math.nan
