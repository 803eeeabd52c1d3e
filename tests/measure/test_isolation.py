"""Rounds that something else had a hand in, and the figures of those that count."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from irene.measure.alone.rounds import NodeResult, Round, choose_rounds, flags_of, trend

CLEAN = Round(
    repeats=10,
    duration_s=1.0,
    latency_s=0.1,
    mean_s=0.101,
    energy_j=2.0,
    half_width_j=0.1,
    gpu_energy_j=math.nan,
    power_step=0.0,
    before_w=5.0,
    standby_w=5.0,
    others=1.0,
    clock_mhz=3000.0,
    features={"cpu": 90.0},
)


def timed(latency_s: float) -> Round:
    """A round of the same power."""
    scale = latency_s / CLEAN.latency_s
    return replace(
        CLEAN, latency_s=latency_s, mean_s=latency_s, energy_j=CLEAN.energy_j * scale
    )


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({}, None),
        ({"energy_j": math.nan}, "lost"),
        ({"others": 30.0}, "busy"),
        ({"others": math.nan}, None),
        ({"clock_mhz": 2500.0}, "throttled"),
        ({"clock_mhz": 2900.0}, None),
        ({"before_w": 5.6}, "hot"),
        ({"before_w": 5.4}, None),
        ({"before_w": math.nan}, None),
        ({"latency_s": 0.106, "energy_j": 2.12}, "drifting"),
        ({"latency_s": 0.104, "energy_j": 2.08}, None),
        ({"energy_j": 2.2}, "drifting"),
        ({"energy_j": 2.2, "power_step": 0.05}, None),
        ({"mean_s": 0.13}, "drifting"),
    ],
)
def test_a_disturbed_round_is_found(change, flag):
    flags = flags_of([CLEAN, CLEAN, replace(CLEAN, **change), CLEAN])
    assert flags == [(), (), (flag,) if flag else (), ()]


def test_short_rounds_forgive_the_steps_in_which_load_is_counted():
    short = replace(CLEAN, duration_s=0.1, others=18.0)
    assert flags_of([short]) == [()]


def test_rounds_without_a_flag_count_first_then_the_nearest():
    rounds = [timed(t) for t in (0.1, 0.2, 0.101, 0.12, 0.099)]
    flags = flags_of(rounds)
    assert choose_rounds(rounds, flags, 3) == [0, 2, 4]
    assert choose_rounds(rounds, flags, 4) == [0, 2, 3, 4]


def test_a_round_without_energy_counts_last():
    rounds = [replace(CLEAN, energy_j=math.nan), timed(0.1), timed(0.2)]
    assert choose_rounds(rounds, flags_of(rounds), 2) == [1, 2]


def test_a_steady_climb_is_a_trend():
    assert trend([timed(t) for t in (0.098, 0.100, 0.104)])
    assert not trend([timed(t) for t in (0.100, 0.098, 0.104)])
    assert not trend([timed(t) for t in (0.100, 0.101, 0.102)])


# Figures ----------------------------------------------------------------------


def result(*energies_j: float, **changes) -> NodeResult:
    rounds = tuple(replace(CLEAN, energy_j=e, **changes) for e in energies_j)
    return NodeResult("key", "label", rounds, len(rounds))


def test_the_interval_is_the_spread_of_the_rounds_and_the_meters_width():
    figures = result(2.0, 1.98, 2.02).figures()
    # Student's t with 2 degrees of freedom: 2.920 at 95 %; deviation 0.02, 3 rounds.
    half = 2.920 * 0.02 / math.sqrt(3) + 0.1
    assert figures.energy_j == 2.0
    assert figures.high_j - 2.0 == pytest.approx(half, rel=1e-3)
    assert 2.0 - figures.low_j == pytest.approx(half, rel=1e-3)
    assert figures.features["energy_spread"] == pytest.approx(0.01)


def test_gross_and_net_energy():
    figures = result(2.0, 2.0).figures()
    assert figures.features["net_energy_mean"] == pytest.approx(2.0 - 5.0 * 0.1)


def test_an_energy_is_never_below_nothing():
    assert result(2.0, 2.0, half_width_j=5.0).figures().low_j == 0.0


def test_the_latency_is_kept_when_the_meter_is_lost():
    lost = result(math.nan, math.nan)
    assert not lost.energy_known
    assert math.isnan(lost.figures().energy_j)
    assert lost.figures().features["times_mean"] == 0.1
    assert lost.remaining_flags == {"lost": 2}


def test_features_say_what_happened():
    rounds = (CLEAN, replace(CLEAN, others=50.0), timed(0.2), CLEAN)
    features = NodeResult("key", "label", rounds, 3).figures().features
    assert features["rounds_busy"] == 1
    assert features["rounds_repeated"] == 1
    assert features["rounds"] == 3
    assert features["cpu"] == 90.0


def test_a_result_survives_json():
    one = result(2.0, math.nan)
    again = NodeResult.from_dict(one.to_dict())
    assert str(again) == str(one)
    assert again.kept == one.kept
