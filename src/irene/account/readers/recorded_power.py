"""Power from a recording of meters: one series for each channel that counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from irene.account.align.power import PowerSeries
from irene.account.events import CPU
from irene.arrays import Floats, Ints
from irene.errors import FormatError, UsageError
from irene.meters.sampling.recording import Recording

PROCESS_CPU, MACHINE_CPU = "proc:process_cpu", "proc:cpu"
SHARE_S = 0.5
"""Time over which the share of a process is taken, s. The kernel counts CPU time in
steps of 10 ms: over 50 ms one step is a fifth of a CPU, over this a fiftieth."""


def power_of_recording(
    recording: Recording,
    idle_w: float | Mapping[str, float] | None = None,
    *,
    cpus: int | None = None,
) -> tuple[PowerSeries, ...]:
    """Every channel of a recording that counts.

    Args:
        recording: Samples of any meters.
        idle_w: Power while nothing runs, W, if there is one channel, or by the names of
            channels; None unknown.
        cpus: Number of CPUs; with the load of the process in the recording, only its
            share of their energy counts.

    Raises:
        UsageError: No channel gives energy, or the load of the process is missing.
        FormatError: The clock was set back meanwhile.
    """
    at_least_two(len(recording), "the recording")
    share = _recorded_share(recording, cpus) if cpus else None
    times = recording.epoch_ns(recording.time_ns)
    _refuse_overlap(times)
    series = tuple(
        _channel_series(recording, column, times, share)
        for column, channel in enumerate(recording.channels)
        if channel.is_energy and channel.counted
    )
    if not series:
        names = ", ".join(channel.name for channel in recording.channels) or "none"
        raise UsageError(f"no channel of the recording gives energy; it has {names}")
    return with_idle(series, idle_w)


def with_idle(
    series: tuple[PowerSeries, ...], idle_w: float | Mapping[str, float] | None
) -> tuple[PowerSeries, ...]:
    """The same series with a known idle power."""
    if idle_w is None:
        return series
    if isinstance(idle_w, Mapping):
        return tuple(replace(one, idle_w=idle_w.get(one.name)) for one in series)
    if len(series) > 1:
        names = ", ".join(one.name for one in series)
        raise UsageError(f"an idle power is for one channel, and there are {names}")
    return tuple(replace(one, idle_w=idle_w) for one in series)


def at_least_two(samples: int, name: str) -> None:
    """Refuse what is too short for any energy."""
    if samples < 2:
        raise UsageError(f"{name} has {samples} samples; energy needs at least two")


def _refuse_overlap(times: Ints) -> None:
    """Refuse a clock that was set back: the same moment would be there twice."""
    steps = np.diff(times)
    if steps.min() > 0:
        return
    where = int(np.argmin(steps))
    raise FormatError(
        f"the clock was set back by {-steps[where] * 1e-9:.6f} s after sample {where}: "
        "times before and after overlap, and no op can be placed"
    )


def _channel_series(
    recording: Recording,
    column: int,
    times: Ints,
    share: Floats | None,
) -> PowerSeries:
    channel = recording.channels[column]
    mean_w = recording.power(column)  # not known where a counter stood still, and so on
    begin = end = mean_w
    if channel.quantity == "power_w":
        values = recording.values[:, column]
        begin = np.where(np.isfinite(mean_w), values[:-1], np.nan)
        end = np.where(np.isfinite(mean_w), values[1:], np.nan)
    facts: dict[str, Any] = {
        "device": channel.device,
        "covers": channel.covers,
        "source": channel.source,
        "relative_error": channel.relative_error,
        "resolution_s": channel.resolution_s,
        "share": share if channel.device == CPU else None,
        "without": tuple(each.name for each in recording.channels if each.missing),
    }
    return PowerSeries(channel.name, times, begin, end, **facts)


def _recorded_share(recording: Recording, cpus: int) -> Floats:
    """Share of the process in all CPU time between samples, from recorded loads."""
    names = [channel.name for channel in recording.channels]
    missing = [name for name in (PROCESS_CPU, MACHINE_CPU) if name not in names]
    if missing:
        raise UsageError(f"--cpus: the recording has no channel {', '.join(missing)}")
    process, machine = (
        recording.values[1:, recording.index(name)]
        for name in (PROCESS_CPU, MACHINE_CPU)
    )
    steps_s = np.diff(recording.time_ns) * 1e-9
    width = max(1, round(SHARE_S / float(np.median(steps_s))))
    used = _moving_sum(process * steps_s, width)
    busy = _moving_sum(machine * cpus * steps_s, width)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(busy > 0, used / busy, 0.0)
    found: Floats = np.clip(share, 0.0, 1.0)
    return found


def _moving_sum(values: Floats, width: int) -> Floats:
    """Sums over `width` values around each; what is not known adds nothing."""
    sums = np.concatenate(([0.0], np.cumsum(np.nan_to_num(values, nan=0.0))))
    places = np.arange(len(values))
    begin = np.maximum(places - width // 2, 0)
    end = np.minimum(places - width // 2 + width, len(values))
    moving: Floats = sums[end] - sums[begin]
    return moving
