"""Sampling: the power side of a ledger that is recorded live."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irene.account.live.ranks import SAMPLES, Rank
from irene.account.readers.recorded import PROCESS_CPU
from irene.errors import MeterError, UsageError
from irene.meters.sampling.recording import Recording, read_recording
from irene.meters.sampling.sampler import Sampler
from irene.meters.sampling.sampler_process import SamplerProcess, open_sampler
from irene.meters.sampling.totals import GAP_PERIODS, SHORTEST_GAP_S, Snapshot, Window

if TYPE_CHECKING:
    from irene.meters.channel import Meter

USUAL_PERIOD_S = 0.01


class Sampling:
    """Samples meters, given by name or open, from `start` to `stop`.

    Without a period it is `USUAL_PERIOD_S`, or as often as the meters have something
    new if that is less. For `idle_s` the machine is watched before anything runs.
    """

    def __init__(
        self,
        meters: Sequence[str] | Sequence[Meter],
        period_s: float | None,
        idle_s: float,
    ) -> None:
        if len({isinstance(meter, str) for meter in meters}) != 1:
            raise UsageError(
                "meters are either all names or all open meters, at least one"
            )
        if not 0 <= idle_s < math.inf:
            raise UsageError(f"idle_s must be 0 s or more, got {idle_s}")
        self._meters, self._idle_s = meters, idle_s
        self._period_s, self._no_finer = period_s or USUAL_PERIOD_S, period_s is None
        self._idle_ns = (0, 0)
        self._sampler: Sampler | SamplerProcess | None = None
        self._begin: Snapshot | None = None
        self._first: Snapshot | None = None
        self._own_j = 0.0

    def start(self, rank: Rank, folder: Path | None) -> None:
        """Begin, if this is the process of its machine that does, and wait idly."""
        if rank.samples_power:
            self._sampler = open_sampler(
                self._meters,
                self._period_s,
                rank.home(folder) / SAMPLES if folder else None,
                rank.family,
                self._no_finer,
            ).start()
            self._begin = self._sampler.sample_now()
        self._wait_idly()

    def _wait_idly(self) -> None:
        """Every process waits: one that works is no idle machine."""
        begin_ns = time.monotonic_ns()
        if self._idle_s:
            try:
                time.sleep(self._idle_s)
            except BaseException:
                self.abandon()
                raise
        self._idle_ns = (begin_ns, time.monotonic_ns())

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """What is used meanwhile is our own, and not in `used_j`."""
        if self._first is None:
            yield
            return
        before_j = self.used_j()
        try:
            yield
        finally:
            own_j = self.used_j() - before_j
            self._own_j += own_j if math.isfinite(own_j) else 0.0

    def used_j(self) -> float:
        """Energy of the machine since the first call, J, less our own; NaN unknown."""
        if self._sampler is None:
            return math.nan
        now = self._sampler.sample_now()
        self._first = self._first or now
        windows = self._sampler.between(self._first, now)
        counted = [w for w in windows if w.channel.is_energy and w.channel.counted]
        used_j = sum(w.integral for w in counted) if counted else math.nan
        return used_j - self._own_j

    def stop(self) -> Recording | None:
        """End, and give what was sampled; None if another process samples."""
        if self._sampler is None:
            return None
        sampler, self._sampler = self._sampler, None
        windows, end_ns = tuple[Window, ...](), 0
        with suppress(MeterError):  # it may have ended before us
            end = sampler.sample_now()
            windows = sampler.between(self._begin or end, end)
            end_ns = end.time_ns
        sampler.stop()
        return _filled(read_recording(sampler.path), windows, end_ns)

    def abandon(self) -> None:
        """End, and forget what was sampled."""
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None

    def facts(self, recording: Recording) -> dict[str, Any]:
        """What else is known of this machine, by the names that `KeptEvents` has."""
        names = {channel.name for channel in recording.channels}
        cpus = os.cpu_count() if PROCESS_CPU in names else None
        return {"cpus": cpus, "idle_w": self._idle_w(recording)}

    def _idle_w(self, recording: Recording) -> dict[str, float]:
        if not self._idle_s:
            return {}
        found = {
            channel.name: recording.window(column, *self._idle_ns).mean
            for column, channel in enumerate(recording.channels)
            if channel.is_energy and channel.counted
        }
        return {name: watts for name, watts in found.items() if math.isfinite(watts)}


def _filled(recording: Recording, windows: Sequence[Window], end_ns: int) -> Recording:
    """The same up to its end: means, where a full disk had no room for samples."""
    last_ns = int(recording.time_ns[-1]) if len(recording) else end_ns
    gap_s = (end_ns - last_ns) * 1e-9
    if gap_s <= max(SHORTEST_GAP_S, GAP_PERIODS * recording.period_s):
        return recording
    times = np.append(np.arange(last_ns + 10**6, end_ns, 5 * 10**8), end_ns)
    columns = []
    for column, window in enumerate(windows):
        begin_ns = end_ns - window.duration_s * 1e9
        written = recording.window(column, begin_ns, last_ns).integral
        mean = (window.integral - written) / gap_s
        since_s = (times - last_ns) * 1e-9
        is_counter = window.channel.quantity == "energy_j"
        last = recording.values[-1, column]
        columns.append(last + mean * since_s if is_counter else mean + 0 * since_s)
    note = f"no room for the samples of the last {gap_s:.3g} s: their mean is taken"
    return replace(
        recording,
        time_ns=np.append(recording.time_ns, times),
        values=np.vstack((recording.values, np.column_stack(columns))),
        notes=(*recording.notes, note),
    )
