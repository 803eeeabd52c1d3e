"""The PMU `power`: what is parsed, what is counted, what the kernel itself says."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from irene.errors import MeterError
from irene.meters.channel import SensorLostError, SensorMeter, probed
from irene.meters.cpu import rapl
from irene.meters.cpu.kernel_files import Roots
from irene.meters.cpu.rapl import event_count, find_events, open_event, open_perf
from tests.meters.simulated_machine import (
    Curve,
    SimulatedMachine,
    SimulatedPmu,
    constant,
    laptop,
    sinus,
)


def probe(roots, open_event=open_event):
    return probed("perf", lambda: open_perf(roots, open_event=open_event))


SOFTWARE, CPU_CLOCK = 1, 0  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK
EVENTS: dict[str, Curve] = {
    "energy-pkg": sinus(100.0, 50.0, 3.0),
    "energy-ram": constant(20.0),
    "energy-cores": constant(60.0),
    "energy-gpu": constant(5.0),
    "energy-psys": constant(200.0),
}


@pytest.fixture
def pmu(tmp_path: Path) -> SimulatedPmu:
    """One package with all events."""
    return SimulatedPmu(tmp_path, {(0, event): EVENTS[event] for event in EVENTS})


@pytest.fixture
def meter(pmu: SimulatedPmu) -> Iterator[SensorMeter]:
    """Its open meter."""
    meter = open_perf(Roots(pmu.root), clock=pmu.clock_ns, open_event=pmu.open_event)
    yield meter
    meter.close()


def test_package_and_memory_count(meter: SensorMeter) -> None:
    assert {c.name: c.counted for c in meter.channels} == {
        "perf:package-0": True,
        "perf:package-0:dram": True,
        "perf:package-0:core": False,
        "perf:package-0:uncore": False,
        "perf:package-0:psys": False,
    }


def test_joules_follow_the_power(pmu: SimulatedPmu, meter: SensorMeter) -> None:
    # 400 kJ in all: the register below would have wrapped.
    for _ in range(40):
        pmu.advance(100.0)
        curves = [EVENTS[f"energy-{e}"] for e in ("pkg", "ram", "cores", "gpu", "psys")]
        true_j = [curve.energy_j(pmu.time_s) for curve in curves]
        assert meter.read() == pytest.approx(true_j, abs=1e-6)


def test_it_may_be_read_seldom(meter: SensorMeter) -> None:
    assert meter.longest_interval_s > 86_400


def test_two_packages_and_two_dies_have_names_of_their_own(tmp_path: Path) -> None:
    packages = {0: (0, 0), 28: (0, 1), 56: (1, 0)}
    powers = {(cpu, "energy-pkg"): constant(cpu) for cpu in packages}
    pmu = SimulatedPmu(tmp_path, powers, packages)
    meter = open_perf(Roots(pmu.root), clock=pmu.clock_ns, open_event=pmu.open_event)
    assert [c.name for c in meter.channels if c.counted] == [
        "perf:package-0-die-0",
        "perf:package-0-die-1",
        "perf:package-1",
    ]
    pmu.advance(2.0)
    assert meter.read() == pytest.approx([0.0, 56.0, 112.0])
    meter.close()


def test_cpus_are_read_as_the_kernel_writes_them(pmu: SimulatedPmu) -> None:
    (pmu.root / "bus/event_source/devices/power/cpumask").write_text("0-1,4\n")
    asked: set[int] = set()

    def open_event(pmu: int, config: int, cpu: int) -> int:
        asked.add(cpu)
        return -1

    for event in find_events(pmu.root, open_event):
        event.open()
    assert asked == {0, 1, 4}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("type", "power"),
        ("cpumask", "none"),
        ("cpumask", ""),
        ("events/energy-pkg", "config=0x02"),
        ("events/energy-pkg", "event=two"),
        ("events/energy-pkg.scale", "much"),
        ("events/energy-pkg.scale", "0"),
    ],
)
def test_what_cannot_be_parsed_is_left_out(
    tmp_path: Path, file: str, text: str
) -> None:
    pmu = SimulatedPmu(tmp_path, {(0, "energy-pkg"): constant(1.0)})
    (pmu.root / "bus/event_source/devices/power" / file).write_text(text)
    finding = probe(Roots(pmu.root), open_event=pmu.open_event)
    assert not finding.works
    assert "no energy events" in finding.detail


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_without_permission_the_message_names_the_commands(
    pmu: SimulatedPmu, code: int
) -> None:
    pmu.refusal = code
    finding = probe(Roots(pmu.root), open_event=pmu.open_event)
    assert not finding.works
    assert f"energy-pkg: {os.strerror(code)}" in finding.detail
    assert "sudo setcap cap_perfmon=ep /" in finding.remedy
    assert "sudo sysctl kernel.perf_event_paranoid=0" in finding.remedy
    with pytest.raises(MeterError, match="setcap"):
        open_perf(Roots(pmu.root), open_event=pmu.open_event)


def test_an_event_that_is_refused_is_told_and_the_others_count(
    pmu: SimulatedPmu,
) -> None:
    del pmu.powers[0, "energy-psys"]
    finding = probe(Roots(pmu.root), open_event=pmu.open_event)
    assert finding.works
    assert len(finding.channels) == 4
    assert "energy-psys: No such file or directory" in finding.detail


def test_an_event_that_ends_has_no_value_and_the_others_go_on(
    pmu: SimulatedPmu, meter: SensorMeter
) -> None:
    pmu.advance(1.0)
    pmu.put(0, "energy-pkg", b"")
    values = meter.read()
    assert math.isnan(values[0])
    assert values[1:] == pytest.approx([20.0, 60.0, 5.0, 200.0])
    for event in EVENTS:
        pmu.put(0, event, b"")
    with pytest.raises(SensorLostError, match="does not count any more"):
        meter.read()


def test_a_count_that_goes_back_is_a_gap(pmu: SimulatedPmu, meter: SensorMeter) -> None:
    """As after suspend, when the register below begins anew."""
    pmu.advance(1.0)
    assert meter.read()[1] == pytest.approx(20.0)
    pmu.put(0, "energy-ram", (2**64 - 2**40).to_bytes(8, "little"))
    assert math.isnan(meter.read()[1])


def test_both_ways_to_the_same_counters_agree_on_names(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, laptop())
    powers = {(0, "energy-pkg"): constant(1.0), (0, "energy-ram"): constant(1.0)}
    pmu = SimulatedPmu(machine.root, powers)
    from irene.meters.cpu.rapl import open_rapl

    files = {c.name.partition(":")[2] for c in open_rapl(Roots(machine.root)).channels}
    events = {
        c.name.partition(":")[2]
        for c in probe(Roots(machine.root), open_event=pmu.open_event).channels
    }
    assert events == {"package-0", "package-0:dram"}
    assert events <= files
    machine.close()


# The real system call ----------------------------------------------------------------


def test_a_machine_without_the_pmu_says_so(tmp_path: Path) -> None:
    finding = probe(Roots(tmp_path))
    assert not finding.works
    assert "bus/event_source/devices/power" in finding.detail
    assert "modprobe rapl" in finding.remedy


def test_the_kernel_refuses_a_pmu_it_does_not_have(tmp_path: Path) -> None:
    SimulatedPmu(tmp_path, {(0, "energy-pkg"): constant(1.0)}, pmu=99_999)
    finding = probe(Roots(tmp_path))  # with the real system call
    assert not finding.works
    assert "the kernel refuses the energy events: energy-pkg: " in finding.detail


def test_the_kernel_counts_for_us() -> None:
    """Any counter of a whole CPU shows that the call is made the right way."""
    try:
        fd = open_event(SOFTWARE, CPU_CLOCK, 0)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.ENOSYS):
            pytest.skip(f"not allowed here: {error.strerror}")
        raise
    first = event_count(fd)
    second = event_count(fd)
    assert not os.get_inheritable(fd)
    os.close(fd)
    assert 0 <= first < second


def test_an_architecture_we_do_not_know_is_an_error_not_a_guess(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rapl.platform, "machine", lambda: "vax")
    with pytest.raises(OSError, match="unknown architecture vax"):
        open_event(SOFTWARE, CPU_CLOCK, 0)
