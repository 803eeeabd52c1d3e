"""Readings: what the channels of a sampler say about a stretch of time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irene.energy import Source
from irene.meters.channel import Channel
from irene.meters.sampling.totals import Window

__all__ = ["Readings"]

GPU_FEATURES = {
    "gpu": "gpu",
    "gpu_mem": "gpu_mem",
    "sm_clock": "gpu_clk",
    "mem_clock": "gpu_mem_clk",
}
"""Last word of a GPU channel's name -> name of the feature in the paper's data."""
CPU_FEATURES = {"proc:cpu": "cpu", "proc:mem": "mem"}


class Readings:
    """Picks channels by what they are for.

    Args:
        channels: All channels of a sampler, in its order.
        device: Where the work is done, as torch names it (`cpu`, `cuda:0`).

    Attributes:
        counted: Places of the energy channels that make up the total.
        resolution_s: The coarsest step of those, s.
    """

    def __init__(self, channels: Sequence[Channel], device: str) -> None:
        self.channels = tuple(channels)
        self.counted = [
            place for place, c in enumerate(channels) if c.is_energy and c.counted
        ]
        steps = [channels[place].resolution_s for place in self.counted]
        self.resolution_s = max(steps, default=0.0)
        gpus = {c.device for c in channels if c.device not in ("", "cpu")}
        self._gpus = {device} & gpus or gpus
        self._gpu_energy = self._energy_of_gpus()
        self._places = {c.name: place for place, c in enumerate(channels)}
        self._on_gpu = device != "cpu"

    def _energy_of_gpus(self) -> list[int]:
        """One energy channel per GPU: its counter, or else its power."""
        best: dict[str, int] = {}
        for place, channel in enumerate(self.channels):
            if not channel.is_energy or channel.device not in self._gpus:
                continue
            known = best.get(channel.device)
            if known is None or self.channels[known].quantity != "energy_j":
                best[channel.device] = place
        return list(best.values())

    # What the energy is -------------------------------------------------------

    @property
    def source(self) -> Source:
        """`estimated` as soon as one part of the total is."""
        parts = {self.channels[place].source for place in self.counted}
        return "estimated" if "estimated" in parts else "measured"

    @property
    def covers(self) -> str:
        """What the total covers, joined."""
        parts = (self.channels[place].covers for place in self.counted)
        return " + ".join(dict.fromkeys(filter(None, parts)))

    @property
    def meters(self) -> str:
        """Names of the meters that the total is from."""
        names = (self.channels[place].name.partition(":")[0] for place in self.counted)
        return " + ".join(dict.fromkeys(names))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the counted channels want a reader to know."""
        notes = (self.channels[place].note for place in self.counted)
        return tuple(dict.fromkeys(filter(None, notes)))

    # What a stretch of time used ----------------------------------------------

    def energy_j(self, windows: Sequence[Window]) -> float:
        """Energy of everything that counts, J; NaN where part of it is not known."""
        return sum(windows[place].energy_j for place in self.counted)

    def half_width_j(self, windows: Sequence[Window]) -> float:
        """Half the 90 % interval of the meters, J."""
        return sum(windows[place].half_width_j for place in self.counted)

    def power_w(self, windows: Sequence[Window]) -> float:
        """Mean power of everything that counts, W."""
        return sum(windows[place].mean for place in self.counted)

    def gpu_energy_j(self, windows: Sequence[Window]) -> float:
        """Energy of the GPU, J; NaN if it has no meter."""
        if not self._gpu_energy:
            return math.nan
        return sum(windows[place].energy_j for place in self._gpu_energy)

    def load(self, windows: Sequence[Window]) -> float:
        """Load of the machine, % of all its CPUs; NaN if unknown."""
        return self._mean(windows, "proc:cpu")

    def clock_mhz(self, windows: Sequence[Window]) -> float:
        """Clock of the device that works, MHz; NaN if unknown."""
        if self._on_gpu:
            return self._gpu_features(windows).get("gpu_clk", math.nan)
        return self._mean(windows, "proc:cpu_clock")

    def features(self, windows: Sequence[Window]) -> dict[str, float]:
        """Mean load, memory and clocks, by their names in the paper's data."""
        cpu = {
            feature: self._mean(windows, name) for name, feature in CPU_FEATURES.items()
        }
        return {**cpu, **self._gpu_features(windows)}

    def _gpu_features(self, windows: Sequence[Window]) -> dict[str, float]:
        found: dict[str, float] = {}
        for place, channel in enumerate(self.channels):
            feature = GPU_FEATURES.get(channel.name.rpartition(":")[2])
            if feature and channel.device in self._gpus and not channel.is_energy:
                found.setdefault(feature, windows[place].mean)
        return found

    def _mean(self, windows: Sequence[Window], name: str) -> float:
        place = self._places.get(name)
        return math.nan if place is None else windows[place].mean
