from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.meters.channel import Channel
from irene.meters.sampling.totals import FROZEN_S, RunningTotals, Window
from tests.meters.made_up import COUNTER, LOAD, NAN, POWER

SECOND = 1_000_000_000


def window_of(
    channel: Channel, samples: list[tuple[float, float]], period_s: float = 0.1
) -> Window:
    """The window from the first to the last of (second, value)."""
    totals = RunningTotals([channel], period_s)
    totals.add(round(samples[0][0] * SECOND), [samples[0][1]])
    begin = totals.snapshot()
    for at_s, value in samples[1:]:
        totals.add(round(at_s * SECOND), [value])
    (window,) = totals.between(begin, totals.snapshot())
    return window


def test_a_counter_gives_its_difference() -> None:
    window = window_of(COUNTER, [(10, 5.0), (11, 25.0), (12, 47.0)])
    assert window.energy_j == pytest.approx(42.0)
    assert window.mean == pytest.approx(21.0)
    assert window.duration_s == pytest.approx(2.0)


def test_power_is_integrated_over_the_time_between_samples() -> None:
    window = window_of(POWER, [(0, 10.0), (0.1, 10.0), (0.4, 30.0)])
    assert window.energy_j == pytest.approx(10 * 0.1 + 20 * 0.3)


def test_a_gauge_has_a_mean_and_no_energy() -> None:
    window = window_of(LOAD, [(0, 0.0), (1, 100.0), (3, 100.0)], period_s=1.0)
    assert window.mean == pytest.approx((50 + 200) / 3)
    assert math.isnan(window.energy_j)


@pytest.mark.parametrize("channel", [COUNTER, POWER])
def test_a_stretch_without_value_is_not_known(channel: Channel) -> None:
    window = window_of(channel, [(0, 1.0), (0.1, NAN), (0.2, 2.0), (0.3, 3.0)])
    assert not window.complete
    assert window.known_s == pytest.approx(0.1)
    assert math.isnan(window.energy_j)


def test_a_counter_that_goes_back_gives_no_negative_energy() -> None:
    window = window_of(COUNTER, [(0, 100.0), (1, 101.0), (2, 3.0), (3, 4.0)])
    assert math.isnan(window.energy_j)
    assert window.integral == pytest.approx(2.0)


def test_a_counter_is_known_over_a_silence_and_a_power_is_not() -> None:
    silence = [(0.0, 10.0), (0.1, 11.0), (60.0, 600.0)]
    assert window_of(COUNTER, silence).energy_j == pytest.approx(590.0)
    assert math.isnan(window_of(POWER, silence).energy_j)


def test_a_counter_that_stands_still_too_long_has_stopped() -> None:
    still = [(t * 0.1, 5.0) for t in range(1, 40)]
    frozen = window_of(COUNTER, [(0, 4.0), *still])
    assert not frozen.complete
    resumed = window_of(COUNTER, [(0, 4.0), *still, (4.0, 400.0), (4.1, 401.0)])
    assert math.isnan(resumed.energy_j)
    assert resumed.integral == pytest.approx(1.0 + 1.0)


def test_a_slow_counter_is_not_taken_for_a_stopped_one() -> None:
    slow = Channel("nvml:0:energy", "energy_j", "gpu-board", resolution_s=0.1)
    samples = [(t * 0.004, 20.0 * math.floor(t / 25)) for t in range(501)]
    window = window_of(slow, samples, period_s=0.004)
    assert window.complete
    assert window.energy_j == pytest.approx(400.0)
    assert window.half_width_j == pytest.approx(200 * 0.1, rel=0.01)


def test_a_wall_meter_that_counts_every_five_seconds_is_believed() -> None:
    wall = Channel("serial:energy", "energy_j", "wall", resolution_s=5.0)
    samples = [(t * 0.5, 500.0 * math.floor(t / 10)) for t in range(121)]
    window = window_of(wall, samples, period_s=0.5)
    assert window.energy_j == pytest.approx(6000.0)


def test_an_idle_nested_zone_may_stand_still() -> None:
    uncore = Channel("rapl:uncore", "energy_j", "uncore", counted=False)
    window = window_of(uncore, [(float(t), 7.0) for t in range(10)])
    assert window.complete
    assert window.energy_j == 0.0
    assert window.duration_s > FROZEN_S


finite = st.floats(0, 1e6)
values = st.one_of(finite, st.just(NAN))


@given(
    rows=st.lists(st.tuples(st.floats(0.001, 5.0), values, values), max_size=40),
    cut=st.integers(0, 40),
)
def test_windows_add_up_and_are_never_negative(
    rows: list[tuple[float, float, float]], cut: int
) -> None:
    totals = RunningTotals([COUNTER, POWER], 0.1)
    totals.add(0, [0.0, 0.0])
    begin = middle = totals.snapshot()
    time_ns = 0
    for number, (step_s, counter, power) in enumerate(rows):
        time_ns += round(step_s * SECOND)
        totals.add(time_ns, [counter, power])
        if number == cut:
            middle = totals.snapshot()
    end = totals.snapshot()
    whole = totals.between(begin, end)
    parts = zip(totals.between(begin, middle), totals.between(middle, end), strict=True)
    for window, (first, second) in zip(whole, parts, strict=True):
        assert window.integral == pytest.approx(first.integral + second.integral)
        assert first.integral >= 0
        assert second.integral >= 0
        assert window.known_s <= window.duration_s + 1e-9
