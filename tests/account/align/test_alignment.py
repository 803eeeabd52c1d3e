from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.account.align.alignment import align
from irene.account.align.nesting import nest, own_segments
from irene.account.align.power import PowerSeries


def depths(parent: np.ndarray) -> list[int]:
    return [_depth(parent, i) for i in range(len(parent))]


def _depth(parent: np.ndarray, row: int) -> int:
    return 0 if parent[row] < 0 else 1 + _depth(parent, int(parent[row]))


def plainly(
    power: PowerSeries,
    lane: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    parent: np.ndarray,
    weights: np.ndarray,
    window: tuple[int, int],
) -> tuple[list[float], float, float]:
    """The same by walking through every nanosecond: events, rest, unknown seconds."""
    energy, rest, unknown = [0.0] * len(start), 0.0, 0.0
    for moment in range(*window):
        watts = math.nan
        for k in range(len(power.time_ns) - 1):
            if power.time_ns[k] <= moment < power.time_ns[k + 1]:
                part = (moment + 0.5 - power.time_ns[k]) / (
                    power.time_ns[k + 1] - power.time_ns[k]
                )
                watts = power.begin_w[k] + (power.end_w[k] - power.begin_w[k]) * part
        if math.isnan(watts):
            unknown += 1e-9
            continue
        inner: dict[int, int] = {}
        for i in np.argsort(depths(parent)).tolist():
            if start[i] <= moment < end[i]:
                inner[int(lane[i])] = i
        total = sum(float(weights[i]) for i in inner.values())
        for i in inner.values():
            energy[i] += watts * 1e-9 * float(weights[i]) / total
        if not inner:
            rest += watts * 1e-9
    return energy, rest, unknown


spans = st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 40))
watts = st.one_of(st.just(math.nan), st.floats(0, 1e4))


@settings(max_examples=80)
@given(
    rows=st.lists(spans, min_size=1, max_size=12),
    samples=st.lists(st.integers(0, 120), min_size=2, max_size=12, unique=True),
    values=st.lists(watts, min_size=12, max_size=12),
    heavy=st.lists(st.integers(1, 2**30), min_size=12, max_size=12),
    equal=st.booleans(),
    between=st.sampled_from(["linear", "step"]),
)
def test_alignment_is_what_walking_through_every_nanosecond_gives(
    rows: list[tuple[int, int, int]],
    samples: list[int],
    values: list[float],
    heavy: list[int],
    equal: bool,
    between: str,
) -> None:
    lane, start, length = np.array(rows, dtype=np.int64).T
    found = nest(lane, start, start + length)
    times = np.array(sorted(samples), dtype=np.int64)
    # A sensor that resolves less than a sample is not sharpened.
    power = PowerSeries.from_power(
        "made up",
        times,
        np.array(values[: len(times)]),
        between=between,
        resolution_s=1.0,
    )
    weights = np.array(heavy[: len(rows)])
    window = (0, 110)
    segments = own_segments(start, found.end_ns, found.parent)
    got = align(power, [segments], len(rows), window, None if equal else weights)
    ones = np.ones(len(rows))
    energy, rest, unknown = plainly(
        power,
        lane,
        start,
        found.end_ns,
        found.parent,
        ones if equal else weights,
        window,
    )
    assert got.energy_j == pytest.approx(energy, rel=1e-9, abs=1e-18)
    assert got.account.unattributed_j == pytest.approx(rest, rel=1e-9, abs=1e-18)
    assert got.account.unknown_s == pytest.approx(unknown, abs=1e-15)


def test_a_group_comes_before_the_next() -> None:
    power = PowerSeries.from_power("p", np.array([0, 100]), np.array([1e9, 1e9]))
    none = np.array([-1])
    first = own_segments(np.array([20]), np.array([50]), none)
    second = own_segments(np.array([0, 30]), np.array([0, 80]), np.array([-1, -1]))
    got = align(power, [first, second], 2, (0, 100))
    # The event of the second group is charged from 50 to 80 alone.
    assert got.energy_j.tolist() == pytest.approx([30.0, 30.0])
    assert got.account.unattributed_j == pytest.approx(40.0)


def test_weights_of_very_different_size_keep_the_light_one_exact() -> None:
    count = 2_000
    start = np.arange(count, dtype=np.int64) * 1_000
    lane = np.zeros(count, dtype=np.int64)
    lane[1::2] = 1
    end = start + np.where(lane == 0, 1_500, 1_000)
    weights = np.where(lane == 0, 2**30, 1)
    found = nest(lane, start, end)
    segments = own_segments(start, found.end_ns, found.parent)
    power = PowerSeries.from_power("p", np.array([0, 10**7]), np.array([100.0, 100.0]))
    got = align(power, [segments], count, (0, int(end.max())), weights)
    shared_j = 100.0 * 500e-9 / (2**30 + 1)
    light_j = got.energy_j[1] - 100.0 * 500e-9
    assert light_j == pytest.approx(shared_j, rel=1e-3)
    assert got.energy_j.sum() + got.account.unattributed_j == pytest.approx(
        power.window_j(0, int(end.max())), rel=1e-12
    )
