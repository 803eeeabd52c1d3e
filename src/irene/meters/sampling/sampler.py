"""Sampler: asks all meters again and again, and lets nothing be lost or hidden."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp  # a process of its own needs none
from typing import Self

from irene.errors import UsageError
from irene.meters.channel import NO_VALUE, Channel, Meter
from irene.meters.sampling.sample_file import FLUSH_S, SampleFile, clock_pair
from irene.meters.sampling.totals import RunningTotals, Snapshot, Window

SHORTEST_PERIOD_S = 0.001
RETRY_NS = 1_000_000_000
"""A meter that failed is asked again after this time."""
MOST_TAKEN = 50
"""Samples digested at once: fewer cost more each, more would make some late."""
CLOCK_STEP_NS = 1_000_000
"""A change of the system clock against the monotonic one that is recorded."""


class Streaming(ABC):
    """What streams samples to a file from `start` (or `with`) to `stop`.

    Attributes:
        path: The file the samples are streamed to; without one given, a temporary one
            that is gone with this.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path or self._temporary()

    def _temporary(self) -> Path:
        folder = mkdtemp(prefix="irene-")
        weakref.finalize(self, _remove, folder, os.getpid())
        return Path(folder, "samples.csv")

    @abstractmethod
    def start(self) -> Self:
        """Begin."""

    @abstractmethod
    def stop(self) -> None:
        """Take the last sample and close everything; stopping twice is fine."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class Sampler(Streaming):
    """Samples meters in a thread of its own, from `start` (or `with`) to `stop`.

    Attributes:
        channels: Channels of all meters, in order.
        counts: Samples taken; those that began late, by more than half a period; times
            that were missed, without a sample at all.
        problems: What went wrong so far, in words.
    """

    def __init__(
        self,
        meters: Sequence[Meter],
        period_s: float = 0.05,
        path: Path | None = None,
    ) -> None:
        super().__init__(path)
        check_period(meters, period_s)
        self.period_s, self.period_ns = period_s, round(period_s * 1e9)
        self.channels: tuple[Channel, ...] = tuple(
            channel for meter in meters for channel in meter.channels
        )
        self._refuse_twins()
        self.counts = {"samples": 0, "late": 0, "missed": 0}
        self.problems: list[str] = []
        self._meters = tuple(meters)
        self._file = SampleFile(self.path, self.channels, period_s)
        self._totals = RunningTotals(self.channels, period_s)
        self._silent_until_ns = [0] * len(meters)
        self._lost = [False] * len(meters)
        self._nothing = [[NO_VALUE] * len(meter.channels) for meter in meters]
        # A reading of some meters is good for a while: they are not asked again before.
        self._holds_ns = [round(getattr(m, "holds_s", 0.0) * 1e9) for m in meters]
        self._held: list[Sequence[float]] = [*self._nothing]
        self._held_until_ns = [0] * len(meters)
        self._all_hold_until_ns = 0
        self._values: list[float] = []
        self._taken: list[tuple[int, list[float]]] = []
        self._offset_ns = _clock_offset_ns()
        self._next_ns = self._flush_ns = time.monotonic_ns()
        self._next_ns += self.period_ns
        self._lock = threading.Lock()
        self._running = threading.Lock()  # waiting for it is cheaper than for an event
        self._running.acquire()
        self._thread = threading.Thread(
            target=self._run, name="irene-sampler", daemon=True
        )

    def _refuse_twins(self) -> None:
        names = [channel.name for channel in self.channels]
        twins = {name for name in names if names.count(name) > 1}
        if twins:
            raise UsageError(f"two meters give the same: {', '.join(sorted(twins))}")

    def start(self) -> Self:
        """Begin."""
        self._next_ns = self.sample_now().time_ns + self.period_ns
        self._thread.start()
        return self

    def _run(self) -> None:
        while True:
            wait_s = (self._next_ns - time.monotonic_ns()) * 1e-9
            if self._running.acquire(timeout=max(0.0, wait_s)):
                self._running.release()
                return
            with self._lock:
                self.tick()

    def sample_now(self) -> Snapshot:
        """Take a sample at this moment and return the totals."""
        with self._lock:
            self._take(time.monotonic_ns())
            self._digest()
            return self._totals.snapshot()

    def between(self, begin: Snapshot, end: Snapshot) -> tuple[Window, ...]:
        """What every channel gave from one snapshot to a later one."""
        return self._totals.between(begin, end)

    def stop(self) -> None:
        """Take the last sample and close everything; stopping twice is fine."""
        if not self._running.locked():
            return
        self._running.release()
        if self._thread.ident is not None:
            self._thread.join()
        self.sample_now()
        with self._lock:
            self._file.event("end", **self.counts)
            self._file.close()
            if self._file.problem:
                self.problems.append(self._file.problem)
            for meter in self._meters:
                meter.close()

    def tick(self) -> None:
        """Take the sample that was due, and say when the next one is."""
        now_ns = time.monotonic_ns()
        self._take(now_ns)
        behind_ns = now_ns - self._next_ns
        if behind_ns > self.period_ns // 2:
            self.counts["late"] += 1
        skipped = max(0, behind_ns) // self.period_ns
        self.counts["missed"] += skipped
        self._next_ns += (skipped + 1) * self.period_ns

    def _take(self, now_ns: int) -> None:
        if now_ns >= self._all_hold_until_ns:
            self._values = self._read(now_ns)
            self._all_hold_until_ns = min(self._held_until_ns, default=0)
        self._taken.append((now_ns, self._values))
        self.counts["samples"] += 1
        if len(self._taken) >= MOST_TAKEN:
            self._digest()
        if now_ns >= self._flush_ns:
            self._digest()
            self._watch_clock()
            self._file.flush()
            self._flush_ns = now_ns + round(FLUSH_S * 1e9)

    def _read(self, now_ns: int) -> list[float]:
        values: list[float] = []
        for index, meter in enumerate(self._meters):
            if now_ns < self._held_until_ns[index]:
                values += self._held[index]
            elif now_ns < self._silent_until_ns[index]:
                values += self._nothing[index]
            else:
                values += self._ask(index, meter, now_ns)
        return values

    def _digest(self) -> None:
        """Add up and format what was taken.

        Many at once: done after every sample, with the caches cold, it costs several
        times as much.
        """
        for time_ns, values in self._taken:
            self._totals.add(time_ns, values)
            self._file.add(time_ns, values)
        self._taken.clear()

    def _ask(self, index: int, meter: Meter, now_ns: int) -> Sequence[float]:
        try:
            values = meter.read()
        except Exception as error:  # noqa: BLE001  a vendor's library may raise anything
            self._silent_until_ns[index] = now_ns + RETRY_NS
            if not self._lost[index]:
                self._lost[index] = True
                self.problems.append(f"{meter.name}: {error}")
                self._digest()  # events stand between the samples they are between
                self._file.event("sensor-lost", meter=meter.name, message=str(error))
            return self._nothing[index]
        if self._lost[index]:
            self._lost[index] = False
            self._digest()
            self._file.event("sensor-back", meter=meter.name)
        if self._holds_ns[index]:
            self._held[index] = values
            self._held_until_ns[index] = now_ns + self._holds_ns[index]
        return values

    def _watch_clock(self) -> None:
        offset_ns = _clock_offset_ns()
        step_ns = offset_ns - self._offset_ns
        if abs(step_ns) >= CLOCK_STEP_NS:
            self._offset_ns = offset_ns
            self._file.event("clock", clock=clock_pair(), step_s=step_ns * 1e-9)


def _remove(folder: str, owner: int) -> None:
    """Remove a folder; a forked child leaves that to the process that made it."""
    from shutil import rmtree

    if os.getpid() == owner:
        rmtree(folder, ignore_errors=True)


def check_period(meters: Sequence[Meter], period_s: float) -> None:
    """Refuse a period that no meter or counter can work with."""
    if not math.isfinite(period_s) or period_s < SHORTEST_PERIOD_S:
        raise UsageError(
            f"a sampling period of {period_s} s is too short; from 0.001 s on"
        )
    for meter in meters:
        longest_s = getattr(meter, "longest_interval_s", math.inf)
        if period_s > longest_s:
            raise UsageError(
                f"{meter.name} must be read every {longest_s:.3g} s, or its counter "
                f"wraps unseen: a period of {period_s} s is too long"
            )


def _clock_offset_ns() -> int:
    pair = clock_pair()
    return pair["epoch_ns"] - pair["time_ns"]
