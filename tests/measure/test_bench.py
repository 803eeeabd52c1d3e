"""Rounds under meters whose every value is known."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest

from irene.errors import MeterError, UsageError
from irene.measure.alone.bench import Bench
from irene.measure.alone.rounds import Round
from irene.measure.protocol import DEFAULT, PAPER, MeasureProtocol
from irene.measure.readings import Readings
from irene.meters.channel import Channel
from irene.meters.sampling.sampler import Sampler
from irene.meters.sampling.totals import Window

from .made_up_nodes import BRISK, WALL, WATTS, SteadyMeter


def wait() -> None:
    time.sleep(0.001)


@pytest.fixture
def bench():
    with Sampler([SteadyMeter()], 0.01) as sampler:
        yield Bench(sampler, replace(BRISK, idle_s=0.02), "cpu")


def test_energy_is_power_times_latency(bench):
    bench.watch_idle()
    one = bench.round(wait, 5)
    assert one.energy_j == pytest.approx(WATTS * one.latency_s, rel=1e-3)
    assert one.half_width_j == pytest.approx(0.02 * one.energy_j)
    assert one.power_w == pytest.approx(WATTS, rel=1e-3)
    assert one.standby_w == pytest.approx(WATTS)
    assert 0.001 <= one.latency_s <= one.mean_s * 1.0001
    assert one.repeats == 5


def test_a_round_takes_as_many_runs_as_it_needs(bench):
    assert 1 <= bench.calibrate(wait) <= 4  # of a millisecond at least


def test_few_moments_of_something_else_do_not_count(bench, monkeypatch):
    calls, now = iter(range(9)), [0.0]

    def sometimes_held_up() -> None:
        now[0] += 0.02 if next(calls) % 3 == 0 else 0.001

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    one = bench.round(sometimes_held_up, 9)
    assert one.latency_s == pytest.approx(0.001)
    assert one.mean_s == pytest.approx(0.066 / 9)


def test_the_device_is_waited_for_before_every_time_stamp():
    order: list[str] = []
    with Sampler([SteadyMeter()], 0.05) as sampler:
        bench = Bench(sampler, BRISK, "cuda:0", lambda: order.append("wait"))
        bench.round(lambda: order.append("run"), 4)
    assert order == ["wait", "run", "run", "run", "run", "wait"]


def test_standby_power_is_waited_for_but_not_for_ever():
    meter = SteadyMeter(values=[10.0])
    with Sampler([meter], 0.01) as sampler:
        bench = Bench(sampler, replace(BRISK, idle_s=0.02, cool_s=0.15), "cpu")
        assert bench.watch_idle().power_w == pytest.approx(10.0)
        meter.values = [30.0]
        hot = bench.round(wait, 1)
        meter.values = [10.0]
        cool = bench.round(wait, 1)
    assert hot.before_w > 1.1 * hot.standby_w
    assert cool.before_w <= 1.1 * cool.standby_w


def test_without_an_energy_that_counts_there_is_no_bench():
    load = Channel("proc:cpu", "percent", counted=False)
    with (
        Sampler([SteadyMeter([load], [50.0], "proc")], 0.05) as sampler,
        pytest.raises(MeterError, match="irene doctor"),
    ):
        Bench(sampler, BRISK, "cpu")


def test_a_round_survives_json():
    one = Round(
        3, 0.1, 0.01, 0.02, math.nan, 0.1, math.nan, 0.0, 1.0, 2.0, 3.0, math.nan
    )
    assert str(Round.from_dict(one.to_dict())) == str(one)


# Readings ---------------------------------------------------------------------

MACHINE = (
    Channel("rapl:package-0", "energy_j", "cpu-package", device="cpu"),
    Channel("rapl:core", "energy_j", "cpu-core", counted=False, device="cpu"),
    Channel("nvml:0:energy", "energy_j", "gpu-board", device="cuda:0"),
    Channel("nvml:0:power", "power_w", "gpu-board", counted=False, device="cuda:0"),
    Channel("nvml:0:gpu", "percent", counted=False, device="cuda:0"),
    Channel("nvml:0:sm_clock", "mhz", counted=False, device="cuda:0"),
    Channel("nvml:1:energy", "energy_j", "gpu-board", device="cuda:1"),
    Channel("nvml:1:gpu", "percent", counted=False, device="cuda:1"),
    Channel("nvml:1:gpu_mem", "percent", counted=False, device="cuda:1"),
    Channel("nvml:1:mem_clock", "mhz", counted=False, device="cuda:1"),
    Channel("proc:cpu", "percent", counted=False, device="cpu"),
    Channel("proc:mem", "percent", counted=False, device="cpu"),
    Channel("proc:cpu_clock", "mhz", counted=False, device="cpu"),
)
MEANS = (40, 30, 100, 99, 80, 1500, 200, 70, 60, 5000, 25, 12, 3000)
WINDOWS = [Window(c, 2.0, 2.0, 2.0 * m) for c, m in zip(MACHINE, MEANS, strict=True)]


def test_all_counted_channels_make_up_the_total():
    readings = Readings(MACHINE, "cuda:1")
    assert readings.energy_j(WINDOWS) == 2 * (40 + 100 + 200)
    assert readings.covers == "cpu-package + gpu-board"
    assert readings.meters == "rapl + nvml"
    assert readings.source == "measured"


def test_features_are_of_the_device_that_works():
    readings = Readings(MACHINE, "cuda:1")
    assert readings.features(WINDOWS) == {
        "cpu": 25, "mem": 12, "gpu": 70, "gpu_mem": 60, "gpu_mem_clk": 5000,
    }  # fmt: skip
    assert readings.gpu_energy_j(WINDOWS) == 400
    on_first = Readings(MACHINE, "cuda:0")
    assert on_first.gpu_energy_j(WINDOWS) == 200
    assert on_first.clock_mhz(WINDOWS) == 1500
    assert Readings(MACHINE, "cpu").clock_mhz(WINDOWS) == 3000


def test_one_estimated_part_makes_an_estimate_of_the_whole():
    guess = Channel("estimate:cpu", "power_w", "cpu-package", source="estimated")
    assert Readings([WALL, guess], "cpu").source == "estimated"


def test_without_a_gpu_its_energy_is_unknown():
    assert math.isnan(Readings([WALL], "cpu").gpu_energy_j(WINDOWS))


# Protocol ---------------------------------------------------------------------


def test_the_papers_protocol():
    assert (PAPER.rounds, PAPER.round_s, PAPER.period_s) == (5, 20.0, 0.17)


@pytest.mark.parametrize(
    "values",
    [
        {"rounds": 0},
        {"rounds": 10**9},
        {"round_s": 0.0},
        {"round_s": math.nan},
        {"idle_s": -1.0},
        {"cool_s": math.inf},
        {"extra_rounds": -1},
    ],
)
def test_an_impossible_protocol_is_refused(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        MeasureProtocol(**values)


def test_changed_values_leave_the_others():
    changed = DEFAULT.changed(rounds=7, round_s=None)
    assert (changed.rounds, changed.extra_rounds) == (7, 7)
    assert changed.round_s == DEFAULT.round_s
