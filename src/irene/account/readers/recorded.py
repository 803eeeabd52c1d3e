"""Recorded files: a trace and a power log, whatever their formats.

Power is one series for each channel that counts, of a log or of a recording of meters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from irene.account.align.power import PowerSeries
from irene.account.events import CPU, Events, RecordedTrace
from irene.account.readers.kineto import read_kineto
from irene.account.readers.tensorflow.hlo import HloNames, read_hlo_text
from irene.account.readers.tensorflow.tf1_timeline import read_timeline
from irene.account.readers.tensorflow.wire import opening
from irene.account.readers.tensorflow.xplane import read_xspace
from irene.account.readers.tensorflow.xplane_events import (
    is_jax,
    jax_events,
    tensorflow_events,
)
from irene.arrays import Floats, Ints
from irene.errors import FormatError, UsageError
from irene.meters.logs.log_lines import PowerLog
from irene.meters.logs.power_log import read_power_logs
from irene.meters.sampling.recording import Recording, read_recording
from irene.whole_file import trying_to

RECORDING_MAGIC = b'#{"schema"'
UNKNOWN_ERROR = (
    "warning: the log does not say how exact its meter is, and intervals are without "
    "that error (--error-percent states it)"
)
Format = Literal["xplane", "tf1-timeline"]
LOOKED_AT = 2**16
TIMELINE_MARKS = (b'"Allocators"', b' Compute"')
XPLANE_SUFFIXES = (".xplane.pb", ".xplane.pb.gz")
XPLANE_BEGIN = b"\n"
"""Key of a plane, the first field of every such file."""
UNIX_NS = 10**17
"""Times beyond this (1973) are since 1970, and not since some begin."""
ZONES_H = range(-12, 15)
"""Offsets of the world's zones from UTC, h; those with half hours lie between."""
HOUR_NS = 3_600_000_000_000
JSON_MAGICS = (b"{", b"[", b"\x1f\x8b")


@dataclass(frozen=True, slots=True)
class RecordedPower:
    """Power that was read; `is_local` where nobody says of which zone its times are."""

    series: tuple[PowerSeries, ...]
    notes: tuple[str, ...] = ()
    is_local: bool = False

    def check_zone(self, window_ns: tuple[int, int]) -> None:
        """Refuse a log that would cover a trace in more than one zone."""
        begin = min(one.span_ns[0] for one in self.series)
        end = max(one.span_ns[1] for one in self.series)
        fits = [
            hours
            for hours in ZONES_H
            if begin - hours * HOUR_NS <= window_ns[0]
            and end - hours * HOUR_NS >= window_ns[1]
        ]
        if self.is_local and len(fits) > 1:
            raise UsageError(
                f"the times of the power log name no zone, and it covers the trace in "
                f"{len(fits)} of them, UTC{fits[0]:+d} to UTC{fits[-1]:+d}: say which "
                "with --tz, as --tz Europe/Berlin or --tz UTC"
            )


def read_trace(
    path: str | Path, hlo: Sequence[str | Path] = (), shapes: bool = False
) -> RecordedTrace:
    """Read a trace, known by its content.

    Args:
        path: Kineto JSON, an XPlane of TensorFlow or JAX, or a TensorFlow 1 timeline;
            each also gzipped.
        hlo: Texts of compiled modules, for a trace of JAX that has none itself.
        shapes: Whether ops of different shapes are different ops; of Kineto alone.

    Raises:
        UsageError: There is no such file.
        FormatError: It is of no format that we read, cut off or broken, or has no ops.
    """
    path = Path(path)
    begin = _first_bytes(path).lstrip()
    if not begin:
        raise FormatError(f"{path} is empty")
    kind = sniff(path)
    if kind is not None:
        events = read_timeline(path) if kind == "tf1-timeline" else _xplane(path, hlo)
        return RecordedTrace(events, events.span_ns[0] > UNIX_NS)
    if hlo:
        raise UsageError(f"--hlo is for traces of JAX; {path} is another one")
    if not begin.startswith(JSON_MAGICS):
        raise FormatError(
            f"{path} is no trace that we read: Kineto JSON of the PyTorch profiler, "
            "*.xplane.pb of TensorFlow or JAX, or timeline JSON of TensorFlow 1"
        )
    return read_kineto(path, shapes)


def sniff(path: Path) -> Format | None:
    """What a file is, by its name and its first bytes; None for none of these."""
    begin = opening(path, LOOKED_AT)
    if path.name.endswith(XPLANE_SUFFIXES):
        return "xplane"
    if begin.startswith(XPLANE_BEGIN) and (b"/host:" in begin or b"/device:" in begin):
        return "xplane"
    is_json = begin.lstrip()[:1] == b"{"
    if is_json and any(mark in begin for mark in TIMELINE_MARKS):
        return "tf1-timeline"
    return None


def _xplane(path: Path, hlo: Sequence[str | Path]) -> Events:
    space = read_xspace(path)
    if is_jax(space):
        names = HloNames()
        for text in hlo:
            names.add(read_hlo_text(Path(text)))
        events = jax_events(space, names)
    else:
        events = tensorflow_events(space)
    if not len(events):
        raise FormatError(
            f"{path} has no ops: was a model run while it recorded, and for TensorFlow "
            "with host_tracer_level=2 or above?"
        )
    return events


def read_power(
    path: str | Path,
    offset_s: float = 0.0,
    *,
    device: str | None = None,
    idle_w: float | None = None,
    cpus: int | None = None,
    error_percent: float | None = None,
    zone: str = "",
) -> RecordedPower:
    """Read power: our own recording, or a log of a meter or of another program.

    Args:
        path: The file.
        offset_s: What is added to its times, s.
        device: Device that a log of one series covers, as torch names it; None for the
            whole machine. A recording and a log of several devices say so themselves.
        idle_w: Power while nothing runs, W, if there is one channel; None unknown.
        cpus: CPUs of the machine; with the load of the process in the recording, only
            the process's share of CPU energy is charged.
        error_percent: Half the width of the 90 % interval of the meter behind a log, %;
            None unknown.
        zone: Zone of a log's times where they name none, as `Europe/Berlin`.

    Raises:
        UsageError: There is no such file, or an option does not fit it.
        FormatError: It is of no format that we read, damaged, or its clock went back.
    """
    path = Path(path)
    if _first_bytes(path).startswith(RECORDING_MAGIC):
        if device:
            raise UsageError(f"--device is for power logs; {path} names its devices")
        if error_percent is not None:
            raise UsageError(f"--error-percent is for power logs; {path} says its own")
        recording = read_recording(path)
        notes = tuple(f"power: {note}" for note in recording.notes)
        found = RecordedPower(power_of_recording(recording, cpus=cpus), notes)
    else:
        if cpus:
            raise UsageError(f"--cpus needs a recording of irene; {path} is a log")
        found = _power_of_log(path, device or "", error_percent, zone)
    moved = tuple(one.moved(round(offset_s * 1e9)) for one in found.series)
    is_local = found.is_local and not offset_s
    return RecordedPower(with_idle(moved, idle_w), found.notes, is_local)


def _first_bytes(path: Path) -> bytes:
    with trying_to("read", path), path.open("rb") as file:
        return file.read(256)


def _power_of_log(
    path: Path, device: str, error_percent: float | None, zone: str
) -> RecordedPower:
    if error_percent is not None and not 0 <= error_percent <= 100:
        raise UsageError(f"--error-percent must be 0 to 100, got {error_percent}")
    logs = read_power_logs(path, zone=zone)
    if device and len(logs) > 1:
        names = ", ".join(log.name for log in logs)
        raise UsageError(f"--device is for a log of one series; there are {names}")
    error = (error_percent or 0.0) / 100
    series = tuple(_series_of_log(log, device or log.device, error) for log in logs)
    notes = dict.fromkeys(note for log in logs for note in log.notes)
    if error_percent is None:
        notes[UNKNOWN_ERROR] = None
    is_local = any(log.is_local for log in logs)
    return RecordedPower(series, tuple(f"power: {note}" for note in notes), is_local)


def _series_of_log(log: PowerLog, device: str, relative_error: float) -> PowerSeries:
    at_least_two(len(log), log.name)
    make = PowerSeries.from_counter if log.is_counter else PowerSeries.from_power
    return make(
        log.name,
        log.time_ns,
        log.values,
        device=device,
        covers=log.covers or device or "wall",
        relative_error=relative_error,
    )


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

    Idle power is one number if there is one channel, or by name. With the CPUs of the
    machine and the load of the process in the recording, only its share of their energy
    counts.
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
