"""Bench: runs a function under the meters, one round after the other."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, repeat
from statistics import mean, median
from typing import Any

from irene.errors import MeterError
from irene.measure.alone.rounds import HOT, Round
from irene.measure.alone.target import exclusively
from irene.measure.protocol import MeasureProtocol
from irene.measure.readings import Readings
from irene.meters.sampling.sampler import Sampler
from irene.meters.sampling.sampler_process import SamplerProcess

PIECE_S = {"cpu": 0.0005}
LONG_PIECE_S = 0.02
"""Length of the pieces of a round that are timed one by one, s. A device that has to be
waited for at the end of each gets longer ones."""
IDLE_PIECE_S = 0.25
FEWEST_PIECES_S = 0.1


@dataclass(frozen=True, slots=True)
class Idle:
    """The machine doing nothing: median power, W, and its spread as a part of that."""

    power_w: float = math.nan
    spread: float = math.nan


class Bench:
    """Runs functions in rounds under a sampler that runs already.

    `synchronise` waits until the device has done all its work; if it is `exclusive`,
    other processes are kept off the CPUs during rounds.
    """

    def __init__(
        self,
        sampler: Sampler | SamplerProcess,
        protocol: MeasureProtocol,
        device: str,
        synchronise: Callable[[], None] = lambda: None,
        exclusive: bool = False,
    ) -> None:
        self.sampler = sampler
        self.protocol = protocol
        self.synchronise = synchronise
        self.readings = Readings(sampler.channels, device)
        self.piece_s = PIECE_S.get(device, LONG_PIECE_S)
        self.idle = Idle()
        self.exclusive = exclusive
        if not self.readings.counted:
            raise MeterError(
                "no meter here gives an energy that counts",
                "`irene doctor` says which meters work and what would help",
            )

    def watch_idle(self) -> Idle:
        """Watch the machine doing nothing, and keep its power as standby."""
        powers: list[float] = []
        end_s = time.monotonic() + self.protocol.idle_s
        while time.monotonic() < end_s:
            power = self._power_while_waiting(IDLE_PIECE_S)
            if math.isfinite(power):
                powers.append(power)
        if powers:
            middle = median(powers)
            spread = math.dist(powers, [middle] * len(powers)) / len(powers) ** 0.5
            self.idle = Idle(middle, spread / middle if middle else math.nan)
        return self.idle

    def cool_down(self) -> float:
        """Wait for standby power, not for ever; the power at the end, W."""
        if not self.protocol.cool_s or not math.isfinite(self.idle.power_w):
            return math.nan
        end_s = time.monotonic() + self.protocol.cool_s
        while True:
            power = self._power_while_waiting(FEWEST_PIECES_S)
            if not power > HOT * self.idle.power_w or time.monotonic() >= end_s:
                return power

    def _power_while_waiting(self, seconds: float) -> float:
        begin = self.sampler.sample_now()
        time.sleep(max(seconds, 2 * self.readings.resolution_s))
        windows = self.sampler.between(begin, self.sampler.sample_now())
        return self.readings.power_w(windows)

    def calibrate(self, run: Callable[[], Any]) -> int:
        """Warm up, and find how many runs a round takes."""
        count, spent_s = 1, 0.0
        enough_s = self.protocol.round_s / 4
        while True:
            with exclusively(self.exclusive):
                begin, end = self._run_pieces(run, [count])
            elapsed_s = end - begin
            spent_s += elapsed_s
            each_s = max(elapsed_s / count, 1e-8)
            if elapsed_s >= enough_s and spent_s >= self.protocol.warm_up_s:
                return max(1, math.ceil(self.protocol.round_s / each_s))
            count = max(count, min(10 * count, math.ceil(1.1 * enough_s / each_s)))

    def round(self, run: Callable[[], Any], repeats: int) -> Round:
        """One round of a function: cool down, then run it under the meters."""
        before_w = self.cool_down()
        sizes = self._pieces(repeats)
        self.synchronise()
        with exclusively(self.exclusive):
            own_s = time.process_time()
            begin = self.sampler.sample_now()
            stamps = self._run_pieces(run, sizes)
            end = self.sampler.sample_now()
            own_s = time.process_time() - own_s
        windows = self.sampler.between(begin, end)
        waited_s = (end.time_ns - begin.time_ns) * 1e-9
        latency_s = _faster_half(stamps, sizes)
        share = latency_s / waited_s  # of the round's energy
        readings, cores = self.readings, os.cpu_count() or 1
        return Round(
            repeats=repeats,
            duration_s=waited_s,
            latency_s=latency_s,
            mean_s=(stamps[-1] - stamps[0]) / repeats,
            energy_j=readings.energy_j(windows) * share,
            half_width_j=readings.half_width_j(windows) * share,
            gpu_energy_j=readings.gpu_energy_j(windows) * share,
            power_step=readings.resolution_s / waited_s,
            before_w=before_w,
            standby_w=self.idle.power_w,
            others=readings.load(windows) - 100 * own_s / (waited_s * cores),
            clock_mhz=readings.clock_mhz(windows),
            features=readings.features(windows),
        )

    def _pieces(self, repeats: int) -> list[int]:
        """How many runs are timed together, piece by piece."""
        wanted = max(1, round(self.protocol.round_s / self.piece_s))
        size = max(1, repeats // wanted)
        return [size] * (repeats // size) + [repeats % size] * bool(repeats % size)

    def _run_pieces(self, run: Callable[[], Any], sizes: list[int]) -> list[float]:
        """Run all pieces; the moments between them, s."""
        stamps = [time.perf_counter()]
        for count in sizes:
            for _ in repeat(None, count):
                run()
            self.synchronise()
            stamps.append(time.perf_counter())
        return stamps


def _faster_half(stamps: list[float], sizes: list[int]) -> float:
    """Mean time of a run over the faster half of some pieces, s."""
    pieces = zip(pairwise(stamps), sizes, strict=True)
    each_s = sorted((after - before) / count for (before, after), count in pieces)
    return mean(each_s[: (len(each_s) + 1) // 2])


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection in the block: it would hit some rounds and not others."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
