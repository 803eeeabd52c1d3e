"""The arithmetic of counters: exact over wraps, silent where it cannot know."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.meters.energy_counter import EnergyCounter
from tests.meters.simulated_machine import REGISTER_STEPS, SERVER_DRAM_UNIT_NJ, UNIT_NJ

MOST_W = 2_000.0
SECOND_NS = 1_000_000_000
UNITS_NJ = (UNIT_NJ, SERVER_DRAM_UNIT_NJ, 15_258, 32_000)


def modulus_uj(unit_nj: int) -> int:
    """Range and one unit, rounded up to a microjoule."""
    return -(-REGISTER_STEPS * unit_nj // 1000)


def counter(unit_nj: int = UNIT_NJ, first: int = 0, **changed: object) -> EnergyCounter:
    arguments = {
        "joules_per_step": 1e-6,
        "modulus": modulus_uj(unit_nj),
        "most_w": MOST_W,
        **changed,
    }
    return EnergyCounter(first, 0, **arguments)  # type: ignore[arg-type]


@settings(max_examples=2_500)
@given(st.integers(0, REGISTER_STEPS - 1), st.binary(min_size=2, max_size=32))
def test_joules_are_exact_over_any_number_of_wraps(
    register: int, stretches: bytes
) -> None:
    """Ten thousand runs: 2,500 with each of four units."""
    for unit_nj in UNITS_NJ:
        check_run(unit_nj, register, stretches)


def check_run(unit_nj: int, register: int, stretches: bytes) -> None:
    """Each pair of bytes: shares of the longest stretch and of the greatest power."""
    meter = counter(unit_nj, register * unit_nj // 1000)
    counted, time_ns, before_j = 0, 0, 0.0
    for length, power in zip(stretches[::2], stretches[1::2], strict=False):
        duration_ns = meter.longest_ns * length // 255
        time_ns += duration_ns
        used_nj = MOST_W * power / 255 * duration_ns
        counted += int(used_nj / unit_nj)
        reading = (register + counted) % REGISTER_STEPS * unit_nj // 1000
        joules = meter.advance(reading, time_ns, time_ns)
        wraps = (register + counted) // REGISTER_STEPS
        # A microjoule for each rounding: at both ends, and once a wrap.
        assert abs(joules - counted * unit_nj * 1e-9) <= (wraps + 1.01) * 1e-6
        assert joules >= before_j
        before_j = joules


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 1000)), min_size=1))
def test_whatever_a_counter_says_joules_never_shrink_and_power_stays_possible(
    readings: list[tuple[int, int]],
) -> None:
    meter = counter()
    time_ns, known_j = 0, 0.0
    for reading, length in readings:
        time_ns += length * SECOND_NS // 10
        joules = meter.advance(reading, time_ns, time_ns)
        if math.isnan(joules):
            continue
        assert joules >= known_j
        assert joules <= MOST_W * (time_ns * 1e-9 + 0.1 * len(readings))
        known_j = joules


def test_a_wrap_is_worth_the_range_and_one_unit() -> None:
    last_uj = (REGISTER_STEPS - 1) * UNIT_NJ // 1000
    meter = counter(first=last_uj)
    # One step of the register: from all ones to zero.
    assert meter.advance(0, SECOND_NS, SECOND_NS) == pytest.approx(61e-6, abs=1.1e-6)


def test_a_silence_in_which_it_may_have_wrapped_twice_has_no_value() -> None:
    meter = counter()
    assert meter.advance(1_000_000, SECOND_NS, SECOND_NS) == pytest.approx(1.0)
    late_ns = 2 * SECOND_NS + meter.longest_ns
    assert math.isnan(meter.advance(9_000_000, late_ns, late_ns))
    then_ns = late_ns + SECOND_NS
    assert meter.advance(9_500_000, then_ns, then_ns) == pytest.approx(1.5)


def test_the_longest_silence_is_short_enough_for_the_greatest_power() -> None:
    assert counter().longest_ns * 1e-9 * MOST_W < modulus_uj(UNIT_NJ) * 1e-6
    assert counter().longest_ns * 1e-9 == pytest.approx(131, abs=1)


def test_a_reset_is_not_taken_for_a_wrap() -> None:
    meter = counter(first=50_000_000_000)
    assert meter.advance(50_010_000_000, SECOND_NS, SECOND_NS) == pytest.approx(10.0)
    # After suspend the register begins anew: as a wrap that would be 212 kJ in 1 s.
    assert math.isnan(meter.advance(5, 2 * SECOND_NS, 2 * SECOND_NS))
    joules = meter.advance(20_000_005, 3 * SECOND_NS, 3 * SECOND_NS)
    assert joules == pytest.approx(30.0)


def test_a_count_beyond_the_range_is_ignored_and_nothing_is_lost() -> None:
    meter = counter()
    assert math.isnan(meter.advance(10**15, SECOND_NS, SECOND_NS))
    assert meter.advance(3_000_000, 2 * SECOND_NS, 2 * SECOND_NS) == pytest.approx(3.0)


def test_without_a_known_range_going_back_is_a_gap() -> None:
    meter = counter(modulus=None, unknown_range_j=65_536.0, first=7_000_000)
    assert meter.advance(8_000_000, SECOND_NS, SECOND_NS) == pytest.approx(1.0)
    assert math.isnan(meter.advance(500_000, 2 * SECOND_NS, 2 * SECOND_NS))
    assert meter.advance(750_000, 3 * SECOND_NS, 3 * SECOND_NS) == pytest.approx(1.25)
    assert meter.longest_ns * 1e-9 == pytest.approx(32.7, abs=0.1)
