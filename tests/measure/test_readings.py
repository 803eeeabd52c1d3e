"""What a total holds, and what it says is missing in it."""

from __future__ import annotations

import pytest

from irene.measure.readings import Readings, window_energy
from irene.meters.channel import Channel
from irene.meters.energy_counter import GrowingCounter
from irene.meters.sampling.totals import RunningTotals, Window

PACKAGE = Channel("rapl:package-0", "energy_j", "cpu-package", resolution_s=0.001)
DRAM = Channel("rapl:package-0:dram", "energy_j", "dram", resolution_s=0.001)
LOST = Channel(
    "nvml:3:energy", "energy_j", "gpu-board", counted=False, missing="GPU is lost"
)


def test_a_zone_that_never_moves_leaves_the_sum_of_the_others() -> None:
    windows = [Window(PACKAGE, 10.0, 10.0, 500.0), Window(DRAM, 10.0, 0.0, 0.0)]
    energy, notes = window_energy(windows)
    assert energy is not None
    assert energy.joules == pytest.approx(500.0)
    assert energy.produced_by == "rapl without rapl:package-0:dram"
    assert "no new value in 10 s" in notes[0]


def test_what_is_lost_on_the_way_leaves_no_sum() -> None:
    windows = [Window(PACKAGE, 10.0, 10.0, 500.0), Window(DRAM, 10.0, 4.0, 8.0)]
    energy, notes = window_energy(windows)
    assert energy is None
    assert "known for 4 of 10 s" in notes[0]


def test_nothing_at_all_is_no_sum() -> None:
    energy, notes = window_energy([Window(PACKAGE, 10.0, 0.0, 0.0)])
    assert energy is None
    assert "known for 0 of 10 s" in notes[0]


def test_a_gpu_that_could_not_be_opened_is_named_by_a_bench() -> None:
    readings = Readings([PACKAGE, LOST], "cpu")
    assert readings.counted == [PACKAGE]
    assert readings.meters == "rapl without nvml:3:energy"
    assert "nvml:3:energy is missing in the total: GPU is lost" in readings.notes[0]


def test_a_counter_that_was_set_back_is_told_and_widens_the_sum() -> None:
    """300 W on a GPU whose counter starts again once: too short to leave it open."""
    gpu = Channel("nvml:0:energy", "energy_j", "gpu-board", resolution_s=0.1)
    counter, totals = GrowingCounter(1.0), RunningTotals([gpu], 0.1)
    raw_j = [30.0 * n - (3_000.0 if n > 100 else 0.0) for n in range(201)]
    totals.add(0, [counter.joules(raw_j[0])])
    begin = totals.snapshot()
    for n, count in enumerate(raw_j[1:], 1):
        totals.add(n * 100_000_000, [counter.joules(count)])
    energy, notes = window_energy(totals.between(begin, totals.snapshot()))
    assert energy is not None
    assert energy.joules == pytest.approx(6_000.0 - 60.0)
    assert energy.high == pytest.approx(6_000.0)
    assert "nvml:0:energy gave nothing for 0.2 s of 20 s" in notes[0]
