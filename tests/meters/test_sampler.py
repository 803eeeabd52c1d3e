from __future__ import annotations

import gc
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irene.errors import UsageError
from irene.meters.channel import SensorLostError
from irene.meters.sampling import sample_file, sampler
from irene.meters.sampling.recording import ReplayMeter, read_recording
from irene.meters.sampling.sampler import Sampler
from tests.meters.made_up import COUNTER, LOAD, NAN, POWER, CurveMeter, ListMeter


class Clock:
    """Time that moves only when told; `time` as the sampler knows it."""

    def __init__(self) -> None:
        self.now_ns = 5_000_000_000
        self.offset_ns = 1_700_000_000_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def time_ns(self) -> int:
        return self.now_ns + self.offset_ns

    def forward(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sampler, "time", clock)
    monkeypatch.setattr(sample_file, "time", clock)
    return clock


def ramp(clock: Any) -> CurveMeter:
    """10 W at the start, 2 W more every second."""
    return CurveMeter(
        clock.monotonic_ns, lambda s: 10 * s + s * s, lambda s: 10 + 2 * s
    )


def run(loop: Sampler, clock: Clock, seconds: float) -> None:
    for _ in range(round(seconds / (loop.period_ns * 1e-9))):
        clock.forward(loop.period_ns * 1e-9)
        loop.tick()


def test_counter_and_power_of_a_curve_agree(tmp_path: Path, clock: Clock) -> None:
    loop = Sampler([ramp(clock)], 0.1, tmp_path / "s.csv")
    begin = loop.sample_now()
    run(loop, clock, 10)
    end = loop.sample_now()
    true_j = 10 * 10 + 15**2 - 5**2
    counter, power = loop.between(begin, end)
    assert counter.energy_j == pytest.approx(true_j)
    assert power.energy_j == pytest.approx(true_j)
    loop.stop()
    assert read_recording(tmp_path / "s.csv").window(0, 5e9, 15e9).energy_j == (
        pytest.approx(true_j)
    )


def test_late_and_missed_samples_are_counted(tmp_path: Path, clock: Clock) -> None:
    loop = Sampler([ramp(clock)], 0.1, tmp_path / "s.csv")
    run(loop, clock, 1)
    assert (loop.counts["late"], loop.counts["missed"]) == (0, 0)
    clock.forward(0.08)  # within the next one's time
    run(loop, clock, 0.1)
    assert (loop.counts["late"], loop.counts["missed"]) == (1, 0)
    clock.forward(1.0)
    run(loop, clock, 0.1)
    assert (loop.counts["late"], loop.counts["missed"]) == (2, 10)
    loop.stop()
    recording = read_recording(tmp_path / "s.csv")
    assert recording.events[-1]["missed"] == 10


def test_a_lost_sensor_is_recorded_and_the_others_go_on(
    tmp_path: Path, clock: Clock
) -> None:
    good = ListMeter([LOAD], [[50.0]], name="good")
    bad = ramp(clock)
    loop = Sampler([bad, good], 0.1, tmp_path / "s.csv")
    begin = loop.sample_now()
    run(loop, clock, 1)
    bad.lost = True
    run(loop, clock, 3)
    assert loop.problems == ["curve: pulled out"]
    bad.lost = False
    run(loop, clock, 2)
    counter, power, load = loop.between(begin, loop.sample_now())
    assert math.isnan(counter.energy_j)
    assert math.isnan(power.energy_j)
    assert 2.0 < counter.known_s < 3.1
    assert load.mean == pytest.approx(50.0)
    loop.stop()
    recording = read_recording(tmp_path / "s.csv")
    words = [event["event"] for event in recording.events]
    assert words == ["sensor-lost", "sensor-back", "end"]
    assert any("pulled out" in note for note in recording.notes)


def test_a_meter_whose_readings_hold_is_asked_no_oftener(
    tmp_path: Path, clock: Clock
) -> None:
    class Holding(ListMeter):
        holds_s = 0.05

    slow, quick = Holding([LOAD], [[50.0]]), ListMeter([POWER], [[1.0]])
    loop = Sampler([slow, quick], 0.01, tmp_path / "s.csv")
    begin = loop.sample_now()
    run(loop, clock, 1)
    load, power = loop.between(begin, loop.sample_now())
    assert quick.asked == 102
    assert slow.asked == 21
    assert load.known_s == power.known_s == pytest.approx(1.0)


def test_a_library_that_raises_anything_does_not_stop_the_sampler(
    tmp_path: Path, clock: Clock
) -> None:
    meter = ListMeter([POWER], [[1.0], RuntimeError("driver"), [1.0]])
    loop = Sampler([meter], 0.1, tmp_path / "s.csv")
    run(loop, clock, 3)
    assert loop.problems == ["list: driver"]


def test_a_step_of_the_clock_changes_no_energy_and_is_recorded(
    tmp_path: Path, clock: Clock
) -> None:
    loop = Sampler([ramp(clock)], 0.1, tmp_path / "s.csv")
    begin = loop.sample_now()
    run(loop, clock, 5)
    clock.offset_ns -= 3_600_000_000_000  # set back by an hour
    run(loop, clock, 5)
    counter, power = loop.between(begin, loop.sample_now())
    assert counter.energy_j == pytest.approx(300.0)
    assert power.energy_j == pytest.approx(300.0)
    assert counter.duration_s == pytest.approx(10.0)
    loop.stop()
    recording = read_recording(tmp_path / "s.csv")
    assert "the clock was set by -3600.000 s" in recording.notes
    before_ns, after_ns = recording.epoch_ns(np.array([6, 14]) * 1_000_000_000)
    assert after_ns - before_ns == (8 - 3600) * 1_000_000_000


def test_a_full_disk_does_not_stop_the_totals(clock: Clock) -> None:
    loop = Sampler([ramp(clock)], 0.1, Path("/dev/full"))
    begin = loop.sample_now()
    run(loop, clock, 10)
    counter, _ = loop.between(begin, loop.sample_now())
    assert counter.energy_j == pytest.approx(300.0)
    loop.stop()
    assert "No space left" in loop.problems[0]


@pytest.mark.parametrize("period_s", [0.0005, 0.0, -1.0, math.nan, math.inf])
def test_an_impossible_period_is_refused(tmp_path: Path, period_s: float) -> None:
    with pytest.raises(UsageError, match="period"):
        Sampler([ListMeter([POWER], [[1.0]])], period_s, tmp_path / "s.csv")


def test_a_period_in_which_a_counter_could_wrap_is_refused(tmp_path: Path) -> None:
    class Wrapping(ListMeter):
        longest_interval_s = 60.0

    with pytest.raises(UsageError, match="every 60 s"):
        Sampler([Wrapping([COUNTER], [[1.0]])], 61.0, tmp_path / "s.csv")


def test_the_same_channel_twice_is_refused(tmp_path: Path) -> None:
    meters = [ListMeter([POWER], [[1.0]]), ListMeter([POWER], [[1.0]])]
    with pytest.raises(UsageError, match="wall:power"):
        Sampler(meters, 0.1, tmp_path / "s.csv")


def test_the_thread_samples_by_itself_and_ends(tmp_path: Path) -> None:
    meter = ramp(time)
    with Sampler([meter], 0.005, tmp_path / "s.csv") as thread:
        begin = thread.sample_now()
        while thread.counts["samples"] < 12:
            time.sleep(0.001)
        end = thread.sample_now()
        counter, power = thread.between(begin, end)
    seconds = begin.time_ns * 1e-9, end.time_ns * 1e-9
    true_j = 10 * (seconds[1] - seconds[0]) + seconds[1] ** 2 - seconds[0] ** 2
    assert counter.energy_j == pytest.approx(true_j, rel=1e-3)
    assert power.energy_j == pytest.approx(true_j, rel=1e-3)
    thread.stop()  # a second time
    recording = read_recording(tmp_path / "s.csv")
    assert len(recording) == thread.counts["samples"] > 10
    assert recording.notes == ()


def test_without_a_path_the_samples_go_to_a_file_that_vanishes() -> None:
    with Sampler([ListMeter([POWER], [[1.0]])]) as thread:
        assert thread.path.exists()
        path = thread.path
        thread.sample_now()
    assert path.exists()
    del thread
    gc.collect()
    assert not path.exists()


FORKED = """
import os, sys
from irene.meters.sampling.sampler import Sampler
from tests.meters.made_up import POWER, ListMeter

with Sampler([ListMeter([POWER], [[1.0]])]) as thread:
    child = os.fork()
    if not child:
        sys.exit(0)
    os.waitpid(child, 0)
sys.exit(0 if thread.path.exists() else 1)
"""


def test_a_forked_child_that_exits_leaves_the_samples_to_its_parent() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    assert subprocess.run(command, check=False, timeout=240).returncode == 0


def test_replay_gives_what_was_recorded(tmp_path: Path, clock: Clock) -> None:
    loop = Sampler([ramp(clock)], 0.1, tmp_path / "s.csv")
    loop.sample_now()
    run(loop, clock, 10)
    loop.stop()
    meter = ReplayMeter(read_recording(tmp_path / "s.csv"), clock.monotonic_ns)
    again = Sampler([meter], 0.03, tmp_path / "again.csv")
    begin = again.sample_now()
    run(again, clock, 9)
    counter, power = again.between(begin, again.sample_now())
    assert counter.energy_j == pytest.approx(10 * 9 + 14**2 - 5**2, rel=1e-4)
    assert power.energy_j == pytest.approx(10 * 9 + 14**2 - 5**2, rel=2e-2)
    clock.forward(2)
    with pytest.raises(SensorLostError, match="over"):
        meter.read()


def test_a_recording_without_samples_cannot_be_replayed(tmp_path: Path) -> None:
    sample_file.SampleFile(tmp_path / "s.csv", [POWER], 0.1).close()
    with pytest.raises(UsageError, match="no samples"):
        ReplayMeter(read_recording(tmp_path / "s.csv"))


def test_values_that_are_missing_stay_missing(tmp_path: Path, clock: Clock) -> None:
    meter = ListMeter([POWER, LOAD], [[NAN, 1.0]])
    loop = Sampler([meter], 0.1, tmp_path / "s.csv")
    begin = loop.sample_now()
    run(loop, clock, 1)
    power, load = loop.between(begin, loop.sample_now())
    assert math.isnan(power.mean)
    assert load.mean == pytest.approx(1.0)
    loop.stop()
    assert meter.closed
