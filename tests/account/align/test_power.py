from __future__ import annotations

import numpy as np
import pytest

from irene.account import PowerSeries
from irene.errors import FormatError, UsageError

S = 1_000_000_000


def test_samples_that_go_back_are_refused_with_numbers() -> None:
    times = np.array([0, 2 * S, S, 3 * S])
    with pytest.raises(FormatError, match=r"1 go back and 0 repeat.*sample 2.*-1\.0"):
        PowerSeries.from_power("log", times, np.ones(4))


def test_samples_of_the_same_time_are_refused_with_numbers() -> None:
    with pytest.raises(FormatError, match=r"0 go back and 2 repeat.*sample 1"):
        PowerSeries.from_power("log", np.array([0, 0, S, S]), np.ones(4))


def test_power_below_zero_is_refused() -> None:
    with pytest.raises(FormatError, match="-3"):
        PowerSeries.from_power("log", np.array([0, S]), np.array([1.0, -3.0]))


def test_a_silence_is_a_gap_for_power_and_not_for_a_counter() -> None:
    times = np.array([0, 1, 2, 3, 20, 21]) * S
    power = PowerSeries.from_power("log", times, np.full(6, 10.0))
    assert power.window_j(0, 21 * S) == pytest.approx(40.0)
    counter = PowerSeries.from_counter("counter", times, times / S * 10.0)
    assert counter.window_j(0, 21 * S) == pytest.approx(210.0)


def test_what_a_sensor_resolves_is_its_step_or_the_spacing() -> None:
    times = np.array([0, 1, 2, 3, 20, 21]) * S
    counter = PowerSeries.from_counter("c", times, times / S, resolution_s=2.0)
    at = np.array([0, 5 * S, 20 * S])
    assert counter.spacing_s(at).tolist() == [2.0, 17.0, 2.0]


def test_a_step_holds_and_a_line_does_not() -> None:
    times = np.array([0, S, 2 * S])
    watts = np.array([0.0, 10.0, 0.0])
    line = PowerSeries.from_power("log", times, watts)
    step = PowerSeries.from_power("log", times, watts, between="step")
    assert line.window_j(0, S // 2) == pytest.approx(1.25)
    assert step.window_j(0, S // 2) == 0.0
    assert step.window_j(S, 2 * S) == pytest.approx(10.0)


def test_unknown_ways_between_samples_and_idle_powers_are_refused() -> None:
    with pytest.raises(UsageError, match="cubic"):
        PowerSeries.from_power("x", np.array([0, S]), np.ones(2), between="cubic")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="-1"):
        PowerSeries.from_power("x", np.array([0, S]), np.ones(2), idle_w=-1.0)
