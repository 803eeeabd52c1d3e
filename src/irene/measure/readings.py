"""Readings: what the channels of a sampler say about a stretch of time.

`window_energy` makes one energy of all channels that count, or says why there is none;
`Readings` gives a bench what it needs of them, round after round.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from irene.energy import Energy, source_of_sum
from irene.meters.channel import Channel, missing_notes, without
from irene.meters.sampling.totals import FROZEN_S, Window

GPU_FEATURES = {
    "gpu": "gpu",
    "gpu_mem": "gpu_mem",
    "sm_clock": "gpu_clk",
    "mem_clock": "gpu_mem_clk",
}
"""Last word of a GPU channel's name -> name of the feature in the paper's data."""
LATE_S = 0.02
"""How late a busy machine may take a sample at the end of a window, s."""
CPU_FEATURES = {"proc:cpu": "cpu", "proc:mem": "mem"}


class Readings:
    """Picks channels by what they are for; `device` is where the work is done.

    Attributes:
        counted: The energy channels that make up the total.
        resolution_s: The coarsest step of those, s.
        source: `estimated` as soon as one part of the total is.
        meters: Names of the meters that the total is from, and what is missing in it.
        notes: What is missing, and what the counted channels want a reader to know.
    """

    def __init__(self, channels: Sequence[Channel], device: str) -> None:
        self.counted = [channel for channel in channels if channel.in_total]
        self.resolution_s = max((c.resolution_s for c in self.counted), default=0.0)
        self.source = source_of_sum(c.source for c in self.counted)
        self.covers = " + ".join(_distinct(c.covers for c in self.counted))
        missing = {c.name: c.missing for c in channels if c.missing}
        self.meters = _meters(self.counted, missing)
        self.notes = _distinct(
            (*missing_notes(missing), *(c.note for c in self.counted))
        )
        gpus = {c.device for c in channels if c.device not in ("", "cpu")}
        self._gpus = {device} & gpus or gpus
        self._gpu_energy = self._energy_of_gpus(channels)
        self._on_gpu = device != "cpu"

    def _energy_of_gpus(self, channels: Sequence[Channel]) -> set[str]:
        """One energy channel per GPU: its counter, or else its power."""
        best: dict[str, Channel] = {}
        for channel in channels:
            if channel.is_energy and channel.device in self._gpus:
                known = best.get(channel.device)
                if known is None or known.quantity != "energy_j":
                    best[channel.device] = channel
        return {channel.name for channel in best.values()}

    def energy_j(self, windows: Sequence[Window]) -> float:
        """Energy of everything that counts, J; NaN where part of it is not known."""
        return sum(w.energy_j for w in windows if w.channel.in_total)

    def half_width_j(self, windows: Sequence[Window]) -> float:
        """Half the 90 % interval of the meters, J."""
        return sum(w.half_width_j for w in windows if w.channel.in_total)

    def power_w(self, windows: Sequence[Window]) -> float:
        """Mean power of everything that counts, W."""
        return sum(w.mean for w in windows if w.channel.in_total)

    def gpu_energy_j(self, windows: Sequence[Window]) -> float:
        """Energy of the GPU, J; NaN if it has no meter."""
        if not self._gpu_energy:
            return math.nan
        return sum(w.energy_j for w in windows if w.channel.name in self._gpu_energy)

    def load(self, windows: Sequence[Window]) -> float:
        """Load of the machine, % of all its CPUs; NaN if unknown."""
        return _mean(windows, "proc:cpu")

    def clock_mhz(self, windows: Sequence[Window]) -> float:
        """Clock of the device that works, MHz; NaN if unknown."""
        if self._on_gpu:
            return self._gpu_features(windows).get("gpu_clk", math.nan)
        return _mean(windows, "proc:cpu_clock")

    def features(self, windows: Sequence[Window]) -> dict[str, float]:
        """Mean load, memory and clocks, by their names in the paper's data."""
        cpu = {feature: _mean(windows, name) for name, feature in CPU_FEATURES.items()}
        return {**cpu, **self._gpu_features(windows)}

    def _gpu_features(self, windows: Sequence[Window]) -> dict[str, float]:
        found: dict[str, float] = {}
        for window in windows:
            channel = window.channel
            feature = GPU_FEATURES.get(channel.name.rpartition(":")[2])
            if feature and channel.device in self._gpus and not channel.is_energy:
                found.setdefault(feature, window.mean)
        return found


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, words)))


def _mean(windows: Sequence[Window], name: str) -> float:
    return next((w.mean for w in windows if w.channel.name == name), math.nan)


def _meters(counted: Iterable[Channel], missing: Mapping[str, str]) -> str:
    """Names of the meters that a total is from; a part says what it is without."""
    names = _distinct(channel.name.partition(":")[0] for channel in counted)
    return " + ".join(names) + without(missing)


def _silent(windows: Sequence[Window]) -> dict[str, str]:
    """What gave nothing at all, for longer than any sensor rests, and why."""
    return {
        w.channel.name: f"no new value in {w.duration_s:.3g} s"
        for w in windows
        if w.known_s <= 0 and w.duration_s > max(FROZEN_S, 3 * w.channel.resolution_s)
    }


def window_energy(
    channels: Sequence[Window],
) -> tuple[Energy | None, tuple[str, ...]]:
    """Add up what counts.

    The ends of the interval add up too: two meters of one machine may err alike. Where
    a part of the machine cannot be read, or its counter never moves, the sum of the
    others names it as missing. What was lost on the way leaves no sum.

    Returns:
        The energy, None where part of it is not known; and what a reader should know.
    """
    counted = [w for w in channels if w.channel.in_total]
    if not counted:
        return None, ("no meter gives energy here: try `irene doctor`",)
    missing = {w.channel.name: w.channel.missing for w in channels if w.channel.missing}
    silent = _silent(counted)
    if len(silent) < len(counted):
        missing |= silent
        counted = [w for w in counted if w.channel.name not in silent]
    unknown = [w for w in counted if not w.complete]
    if unknown:
        return None, (*map(_unknown, unknown), *missing_notes(missing))
    joules = sum(w.energy_j for w in counted)
    half_j = sum(w.half_width_j for w in counted)
    energy = Energy(
        joules,
        min(joules, max(0.0, joules - half_j)),
        joules + half_j,
        source_of_sum(w.channel.source for w in counted),
        _meters((w.channel for w in counted), missing),
    )
    notes = missing_notes(missing)
    notes += [_short(w) for w in counted if w.duration_s < w.channel.resolution_s]
    notes += [_gap(w) for w in counted if w.unknown_s > w.channel.resolution_s + LATE_S]
    notes += [w.channel.note for w in counted if w.channel.note]
    return energy, tuple(dict.fromkeys(notes))


def _unknown(window: Window) -> str:
    name, step_s = window.channel.name, window.channel.resolution_s
    if window.duration_s < 2 * step_s:
        return (
            f"{name} had nothing new: it changes every {step_s:g} s, and the window "
            f"was {window.duration_s:.3g} s long"
        )
    return (
        f"{name} was known for {max(window.known_s, 0.0):.3g} of "
        f"{window.duration_s:.3g} s, in which it gave {window.integral:.4g} J: "
        "no energy of the whole"
    )


def _gap(window: Window) -> str:
    return (
        f"{window.channel.name} gave nothing for {window.unknown_s:.3g} s of "
        f"{window.duration_s:.3g} s, as if its counter had been set back: what was "
        "used just then is in no sum, and the interval is so much wider"
    )


def _short(window: Window) -> str:
    return (
        f"shorter ({window.duration_s:.3g} s) than a step of {window.channel.name} "
        f"({window.channel.resolution_s:g} s): see the interval"
    )
