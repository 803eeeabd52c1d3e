"""Sampler, RAPL and a machine of known power: windows are right, over wraps too."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.meters.cpu.kernel_files import Roots
from irene.meters.cpu.rapl import open_rapl
from irene.meters.sampling import sample_file, sampler
from irene.meters.sampling.recording import read_recording
from irene.meters.sampling.sampler import Sampler
from irene.meters.sampling.totals import Window
from tests.meters.simulated_machine import (
    Curve,
    SimulatedMachine,
    SimulatedZone,
    constant,
    just_before_the_wrap,
    ramp,
    server,
    sinus,
    steps,
)

PACKAGE = "intel-rapl:0"
watts = st.floats(1.0, 400.0)
curves = st.one_of(
    st.builds(constant, watts),
    st.builds(ramp, watts, watts, st.floats(0.5, 20.0)),
    st.builds(lambda mean, share, s: sinus(mean, mean * share, s), watts,
              st.floats(0.0, 0.9), st.floats(0.2, 5.0)),
    st.builds(steps, st.tuples(st.floats(0.1, 3.0), watts),
              st.tuples(st.floats(0.1, 3.0), watts), st.tuples(st.just(1.0), watts)),
)  # fmt: skip


class _Clock:
    """The machine's clock in the place of `time`."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self.monotonic_ns = machine.clock_ns

    def time_ns(self) -> int:
        return self.monotonic_ns() + 1_700_000_000_000_000_000


def watch(
    folder: Path, curve: Curve, wrap_after_j: float, period_s: float, length_s: float
) -> tuple[Window, Window, float]:
    """Live window, window of the recording, and the truth, over one wrap or more."""
    zone = SimulatedZone(
        PACKAGE, "package-0", curve, just_before_the_wrap(wrap_after_j)
    )
    machine = SimulatedMachine(folder, [zone])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "time", _Clock(machine))
        patch.setattr(sample_file, "time", _Clock(machine))
        meter = open_rapl(Roots(machine.root), clock=machine.clock_ns)
        loop = Sampler([meter], period_s, folder / "samples.csv")
        machine.advance(0.3)
        begin = loop.sample_now()
        for _ in range(math.ceil(length_s / period_s)):
            machine.advance(period_s)
            loop.tick()
        end = loop.sample_now()
        (live,) = loop.between(begin, end)
        loop.stop()
    machine.close()
    recording = read_recording(folder / "samples.csv")
    later = recording.window(0, begin.time_ns, end.time_ns)
    begin_s, end_s = begin.time_ns * 1e-9, end.time_ns * 1e-9
    return live, later, machine.energy_j(PACKAGE, begin_s, end_s)


@settings(max_examples=150)
@given(
    curve=curves,
    wrap_after_j=st.floats(0.0, 400.0),
    period_s=st.sampled_from([0.01, 0.05, 0.17, 0.5]),
    length_s=st.floats(1.0, 6.0),
)
def test_a_window_of_a_second_and_more_is_right(
    curve: Curve, wrap_after_j: float, period_s: float, length_s: float
) -> None:
    with tempfile.TemporaryDirectory() as name:
        live, later, true_j = watch(Path(name), curve, wrap_after_j, period_s, length_s)
    assert live.energy_j == pytest.approx(true_j, rel=0.005)
    assert later.energy_j == pytest.approx(true_j, rel=0.005)


def test_many_wraps_in_one_run(tmp_path: Path) -> None:
    """65 kJ of range at 1.9 kW: a wrap every 35 s."""
    curve = sinus(1_900.0, 50.0, 3.0)
    zone = SimulatedZone(PACKAGE, "package-0", curve, unit_nj=15_258)
    machine = SimulatedMachine(tmp_path, [zone])
    meter = open_rapl(Roots(machine.root), clock=machine.clock_ns)
    last_j, wraps = 0.0, 0
    before_uj = zone.energy_uj(0.0)
    for _ in range(400):
        machine.advance(1.0)
        (now_j,) = meter.read()
        assert now_j > last_j
        last_j = now_j
        wraps += zone.energy_uj(machine.time_s) < before_uj
        before_uj = zone.energy_uj(machine.time_s)
    assert wraps > 10
    assert last_j == pytest.approx(curve.energy_j(400.0), rel=1e-6)
    meter.close()
    machine.close()


def test_a_frozen_counter_gives_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = SimulatedMachine(tmp_path, server())
    monkeypatch.setattr(sampler, "time", _Clock(machine))
    monkeypatch.setattr(sample_file, "time", _Clock(machine))
    meter = open_rapl(Roots(machine.root), clock=machine.clock_ns)
    loop = Sampler([meter], 0.1, tmp_path / "s.csv")
    begin = loop.sample_now()
    frozen = machine.zone(PACKAGE).energy_uj(machine.time_s)
    for _ in range(50):
        machine.advance(0.1)
        machine.garble(PACKAGE, b"%d\n" % frozen)
        loop.tick()
    windows = {w.channel.name: w for w in loop.between(begin, loop.sample_now())}
    loop.stop()
    machine.close()
    assert math.isnan(windows["rapl:package-0"].energy_j)
    true_j = machine.energy_j("intel-rapl:1", 0.0, machine.time_s)
    assert windows["rapl:package-1"].energy_j == pytest.approx(true_j, rel=0.005)
