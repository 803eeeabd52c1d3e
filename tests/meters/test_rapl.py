"""RAPL on a machine whose power is known, and on machines where something is wrong."""

from __future__ import annotations

import errno
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.errors import MeterError
from irene.meters.channel import SensorLostError, SensorMeter
from irene.meters.cpu.kernel_files import Roots
from irene.meters.cpu.rapl import open_rapl
from irene.meters.finding import METERS
from tests.meters.simulated_machine import (
    REGISTER_STEPS,
    UNIT_NJ,
    Curve,
    SimulatedMachine,
    SimulatedZone,
    amd,
    constant,
    just_before_the_wrap,
    laptop,
    ramp,
    server,
    sinus,
    steps,
)


def probe(roots):
    return METERS["rapl"].find("rapl", roots)


RESOLUTION_J = UNIT_NJ * 1e-9 + 2e-6
Build = Callable[[Sequence[SimulatedZone]], tuple[SimulatedMachine, SensorMeter]]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """A machine and its open meter."""
    opened: list[SimulatedMachine | SensorMeter] = []

    def build(zones: Sequence[SimulatedZone]) -> tuple[SimulatedMachine, SensorMeter]:
        machine = SimulatedMachine(tmp_path, zones)
        opened.append(machine)
        meter = open_rapl(Roots(machine.root), clock=machine.clock_ns)
        opened.append(meter)
        return machine, meter

    yield build
    for thing in opened:
        thing.close()


def counted(meter: SensorMeter) -> list[str]:
    return [channel.name for channel in meter.channels if channel.counted]


# Which zones there are, and which count ---------------------------------------------


def test_a_server_counts_packages_and_memory(build: Build) -> None:
    _, meter = build(server())
    assert counted(meter) == [
        "rapl:package-0",
        "rapl:package-0:dram",
        "rapl:package-1",
        "rapl:package-1:dram",
    ]
    covers = {c.name: c.covers for c in meter.channels}
    assert covers["rapl:package-1"] == "cpu-package"
    assert covers["rapl:package-1:dram"] == "dram"


def test_a_laptop_counts_no_joule_twice(build: Build) -> None:
    machine, meter = build(laptop())
    assert counted(meter) == ["rapl:package-0", "rapl:package-0:dram"]
    assert [c.name for c in meter.channels if not c.counted] == [
        "rapl:package-0:core",
        "rapl:package-0:uncore",
        "rapl:psys",
        "rapl:package-0@intel-rapl-mmio:0",
    ]
    machine.advance(10.0)
    total_j = sum(
        value
        for value, channel in zip(meter.read(), meter.channels, strict=True)
        if channel.counted
    )
    assert total_j == pytest.approx(250.0 + 25.0, abs=2 * RESOLUTION_J)


def test_amd_counts_its_package_and_shows_its_cores(build: Build) -> None:
    machine, meter = build(amd())
    assert counted(meter) == ["rapl:package-0"]
    machine.advance(2.0)
    assert meter.read() == pytest.approx([130.0, 40.0], abs=RESOLUTION_J)


def test_dies_of_a_package_are_different_zones(build: Build) -> None:
    _, meter = build(
        [
            SimulatedZone("intel-rapl:0", "package-0-die-0", constant(10.0)),
            SimulatedZone("intel-rapl:1", "package-0-die-1", constant(20.0)),
        ]
    )
    assert counted(meter) == ["rapl:package-0-die-0", "rapl:package-0-die-1"]


def test_the_memory_mapped_twin_counts_where_the_registers_cannot_be_read(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "intel-rapl:0/")
    _, meter = build(laptop())
    assert counted(meter) == ["rapl:package-0:dram", "rapl:package-0"]


def test_cores_count_where_their_package_cannot_be_read(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "intel-rapl:0/")
    _, meter = build(amd())
    assert counted(meter) == ["rapl:package-0:core"]


def test_twelve_packages_come_in_their_order(build: Build) -> None:
    zones = [
        SimulatedZone(f"intel-rapl:{n}", f"package-{n}", constant(n)) for n in range(12)
    ]
    machine, meter = build(zones)
    machine.advance(1.0)
    assert meter.read() == pytest.approx(list(range(12)), abs=RESOLUTION_J)


def test_a_zone_of_a_kind_nobody_knows_is_shown_and_not_counted(build: Build) -> None:
    _, meter = build([*amd(), SimulatedZone("intel-rapl:1", 'a,b"#', constant(1.0))])
    assert [c.name for c in meter.channels][-1] == "rapl:ab"
    assert counted(meter) == ["rapl:package-0"]


# How much -------------------------------------------------------------------------


def test_every_zone_follows_its_power_over_the_wrap(build: Build) -> None:
    machine, meter = build(server())
    for _ in range(40):
        machine.advance(0.37)
        values = meter.read()
        for value, zone in zip(values, machine.zones, strict=True):
            true_j = machine.energy_j(zone.identity, 0.0, machine.time_s)
            assert abs(value - true_j) <= RESOLUTION_J
    package_0 = machine.zones[0]
    assert package_0.energy_uj(machine.time_s) < package_0.energy_uj(0.0)


CURVES = st.one_of(
    st.builds(constant, st.floats(0, 1000)),
    st.builds(ramp, st.floats(0, 1000), st.floats(0, 1000), st.floats(1, 1000)),
    st.builds(lambda m, p: sinus(m, m, p), st.floats(1, 1000), st.floats(0.1, 100)),
    st.builds(
        lambda pieces: steps(*pieces),
        st.lists(st.tuples(st.floats(0.1, 50), st.floats(0, 1000)), min_size=1),
    ),
)


def test_any_curve_through_real_files(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, [amd()[0]])

    @settings(max_examples=300)
    @given(
        curve=CURVES,
        register=st.integers(0, REGISTER_STEPS - 1),
        unit_nj=st.sampled_from([UNIT_NJ, 15_300, 15_258]),
        intervals_s=st.lists(st.floats(0.001, 32.0), min_size=1, max_size=12),
    )
    def follows(
        curve: Curve, register: int, unit_nj: int, intervals_s: list[float]
    ) -> None:
        zone = SimulatedZone("intel-rapl:0", "package-0", curve, register, unit_nj)
        machine.become(zone)
        meter = open_rapl(Roots(machine.root), clock=machine.clock_ns)
        before_j = 0.0
        for interval_s in intervals_s:
            machine.advance(interval_s)
            (value_j,) = meter.read()
            true_j = machine.energy_j("intel-rapl:0", 0.0, machine.time_s)
            # A unit of the register, and a microjoule of rounding a wrap.
            assert abs(value_j - true_j) <= unit_nj * 1e-9 + 8e-6
            assert value_j >= before_j
            before_j = value_j
        meter.close()

    follows()
    machine.close()


def test_a_machine_in_real_time_is_measured_with_the_real_clock(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, amd())
    meter = open_rapl(Roots(machine.root))
    begin_s = time.monotonic()
    with machine.running():
        while machine.time_s < 0.2:
            at_least_s = machine.time_s
            value_j = meter.read()[0]
            at_most_s = time.monotonic() - begin_s
            assert 65.0 * at_least_s - RESOLUTION_J <= value_j <= 65.0 * at_most_s
    meter.close()
    machine.close()


# What is not known is not said -------------------------------------------------------


def test_it_says_how_often_it_must_be_read(build: Build) -> None:
    machine, meter = build(server())
    # Memory: 65.7 kJ at 2 kW.
    assert meter.longest_interval_s == pytest.approx(32.8, abs=0.1)
    machine.advance(meter.longest_interval_s - 0.01)
    assert not any(map(math.isnan, meter.read()))


def test_after_too_long_a_silence_there_is_a_gap_and_no_wrong_number(
    build: Build,
) -> None:
    zone = SimulatedZone("intel-rapl:0", "package-0", constant(400.0))
    machine, meter = build([zone])
    machine.advance(1.0)
    assert meter.read() == pytest.approx([400.0], abs=RESOLUTION_J)
    machine.advance(3_600.0)  # five wraps
    assert math.isnan(meter.read()[0])
    machine.advance(1.0)
    assert meter.read() == pytest.approx([800.0], abs=RESOLUTION_J)


def test_without_a_range_it_counts_until_the_wrap_and_shows_a_gap_there(
    build: Build,
) -> None:
    zone = SimulatedZone(
        "intel-rapl:0",
        "package-0",
        constant(100.0),
        just_before_the_wrap(250.0),
        has_range=False,
    )
    machine, meter = build([zone])
    assert "range not readable" in meter.channels[0].note
    values = []
    for _ in range(5):
        machine.advance(1.0)
        values += meter.read()
    assert values[:2] == pytest.approx([100.0, 200.0], abs=2 * RESOLUTION_J)
    assert math.isnan(values[2])
    assert values[3:] == pytest.approx([300.0, 400.0], abs=2 * RESOLUTION_J)


@pytest.mark.parametrize("text", [b"", b"nothing", b"-5", b"1_000", b"999", b"\xff"])
def test_a_range_that_is_no_number_is_no_range(tmp_path: Path, text: bytes) -> None:
    machine = SimulatedMachine(tmp_path, amd())
    (machine.path("intel-rapl:0") / "max_energy_range_uj").write_bytes(text)
    meter = open_rapl(Roots(machine.root), clock=machine.clock_ns)
    assert "range not readable" in meter.channels[0].note
    assert "range not readable" not in meter.channels[1].note
    meter.close()
    machine.close()


@pytest.mark.parametrize(
    "text", [b"garbage", b"-1", b"12 34", b"1_000", b"nan", b"\0\0", b"9" * 20]
)
def test_garbage_has_no_value_and_the_others_go_on(build: Build, text: bytes) -> None:
    machine, meter = build(amd())
    machine.advance(1.0)
    machine.garble("intel-rapl:0", text)
    package_j, cores_j = meter.read()
    assert math.isnan(package_j)
    assert cores_j == pytest.approx(20.0, abs=RESOLUTION_J)
    machine.advance(1.0)
    assert meter.read() == pytest.approx([130.0, 40.0], abs=RESOLUTION_J)


@pytest.mark.parametrize("code", [errno.ENODEV, errno.EACCES, errno.EIO])
def test_a_zone_that_vanishes_has_no_value_and_the_others_go_on(
    build: Build, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    machine, meter = build(laptop())
    lose(monkeypatch, machine, ["intel-rapl:0"], code)
    machine.advance(1.0)
    values = meter.read()
    assert math.isnan(values[0])
    assert not any(map(math.isnan, values[1:]))


def test_an_empty_zone_is_a_lost_one(build: Build) -> None:
    machine, meter = build(amd())
    for zone in machine.zones:
        os.truncate(machine.path(zone.identity) / "energy_uj", 0)
    with pytest.raises(SensorLostError, match=r"rapl:package-0, rapl:package-0:core"):
        meter.read()


def test_when_all_zones_are_gone_the_sensor_is_lost_and_may_come_back(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, meter = build(amd())
    with monkeypatch.context() as patch:
        lose(patch, machine, [zone.identity for zone in machine.zones], errno.ENODEV)
        with pytest.raises(SensorLostError, match="No such device"):
            meter.read()
    machine.advance(1.0)
    assert meter.read() == pytest.approx([65.0, 20.0], abs=RESOLUTION_J)


def test_a_closed_meter_is_lost_and_closing_twice_is_fine(build: Build) -> None:
    _, meter = build(amd())
    meter.close()
    meter.close()
    with pytest.raises(SensorLostError, match="closed"):
        meter.read()


# Opening --------------------------------------------------------------------------


def test_without_permission_the_message_names_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = SimulatedMachine(tmp_path, laptop())
    machine.close()
    refuse(monkeypatch, "energy_uj")
    finding = probe(Roots(machine.root))
    assert not finding.works
    assert "intel-rapl:0 (package-0): Permission denied" in finding.detail
    files = f"{machine.root}/class/powercap/intel-rapl*/energy_uj"
    assert f"sudo chmod a+r {files}" in finding.remedy
    assert "/etc/udev/rules.d/" in finding.remedy
    assert "CAP_PERFMON" in finding.remedy
    with pytest.raises(MeterError, match="sudo chmod"):
        open_rapl(Roots(machine.root))


def test_the_command_reaches_every_counter(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, laptop())
    machine.close()
    command = f"chmod a+r {machine.root}/class/powercap/intel-rapl*/energy_uj"
    subprocess.run(["sh", "-c", command], check=True)
    modes = [
        (machine.path(zone.identity) / "energy_uj").stat().st_mode & 0o777
        for zone in machine.zones
    ]
    assert modes == [0o644] * 6


def test_one_package_without_permission_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = SimulatedMachine(tmp_path, server())
    machine.close()
    refuse(monkeypatch, "intel-rapl:1/energy_uj")
    finding = probe(Roots(machine.root))
    assert finding.works
    missing = {c.name: c.missing for c in finding.channels if c.missing}
    assert missing == {"rapl:package-1": "Permission denied"}
    assert "3 zones" in finding.detail
    assert "intel-rapl:1 (package-1): Permission denied" in finding.detail
    assert "chmod" in finding.remedy


def test_a_socket_that_cannot_be_read_is_missing_and_has_no_value(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "intel-rapl:1/energy_uj")
    machine, meter = build(server())
    machine.advance(1.0)
    values = dict(zip((c.name for c in meter.channels), meter.read(), strict=True))
    assert math.isnan(values.pop("rapl:package-1"))
    assert all(map(math.isfinite, values.values()))
    assert "rapl:package-1" not in counted(meter)


def test_a_twin_that_can_be_read_leaves_nothing_missing(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "intel-rapl:0/energy_uj")
    _, meter = build(laptop())
    assert not any(channel.missing for channel in meter.channels)


def test_two_packages_of_one_name_both_count(build: Build) -> None:
    machine, meter = build(
        [
            SimulatedZone("intel-rapl:0", "package-0", constant(90.0)),
            SimulatedZone("intel-rapl:1", "package-0", constant(170.0)),
        ]
    )
    assert counted(meter) == ["rapl:package-0", "rapl:package-0@intel-rapl:1"]
    machine.advance(2.0)
    assert sum(meter.read()) == pytest.approx(520.0, abs=2 * RESOLUTION_J)


def test_a_counter_that_is_a_folder_or_garbage_is_left_out(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, laptop())
    machine.garble("intel-rapl:0:0", b"garbage")
    machine.close()
    (machine.path("intel-rapl:0:1") / "energy_uj").unlink()
    (machine.path("intel-rapl:0:1") / "energy_uj").mkdir()
    (machine.path("intel-rapl:1") / "name").unlink()
    finding = probe(Roots(machine.root))
    assert finding.works
    assert len(finding.channels) == 3
    assert "intel-rapl:0:0 (package-0:core): not a count" in finding.detail
    assert "intel-rapl:0:1 (package-0:uncore): Is a directory" in finding.detail
    assert finding.remedy == ""


def test_a_counter_beyond_its_range_is_left_out(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, amd())
    machine.garble("intel-rapl:0", b"%d" % (machine.zones[0].range_uj + 100))
    machine.close()
    finding = probe(Roots(machine.root))
    core, package = finding.channels
    assert (core.name, core.counted) == ("rapl:package-0:core", True)
    assert "beyond its range" in package.missing
    assert "beyond its range" in finding.detail


def test_a_machine_without_zones_says_why(tmp_path: Path) -> None:
    finding = probe(Roots(tmp_path))
    assert not finding.works
    assert str(tmp_path / "class" / "powercap") in finding.detail
    assert "Virtual machines" in finding.remedy
    with pytest.raises(MeterError, match="no RAPL zones"):
        open_rapl(Roots(tmp_path))


def test_only_unreadable_garbage_is_an_error_without_commands(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, amd()[:1])
    machine.garble("intel-rapl:0", b"?")
    machine.close()
    finding = probe(Roots(machine.root))
    assert not finding.works
    assert "not a count" in finding.detail
    assert finding.remedy == ""


def test_the_root_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = SimulatedMachine(tmp_path, amd())
    machine.close()
    monkeypatch.setenv("IRENE_SYSFS_ROOT", str(machine.root))
    assert [c.name for c in probe(Roots()).channels] == [
        "rapl:package-0",
        "rapl:package-0:core",
    ]


def test_zones_that_are_nested_and_not_linked_are_found(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, laptop())
    machine.close()
    links = machine.root / "class" / "powercap"
    shutil.rmtree(links)
    (machine.root / "devices/virtual/powercap").rename(links)
    assert len(probe(Roots(machine.root)).channels) == 6


def test_probing_leaves_no_file_open(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, laptop())
    machine.garble("intel-rapl:0:0", b"garbage")
    before = len(list(Path("/proc/self/fd").iterdir()))
    probe(Roots(machine.root))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    machine.close()


def test_it_needs_neither_numpy_nor_torch() -> None:
    check = (
        "import sys, irene.meters.cpu.rapl, irene.meters.cpu.rapl; "
        "sys.exit(bool({'numpy', 'torch'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def refuse(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Deny opening: the tests may run as root, who may open everything."""
    real_open = os.open

    def denied(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR == 0 and part in f"{path}":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real_open(path, flags, mode)

    monkeypatch.setattr(os, "open", denied)


def lose(
    monkeypatch: pytest.MonkeyPatch,
    machine: SimulatedMachine,
    identities: Sequence[str],
    code: int,
) -> None:
    """Let open descriptors fail as those of a removed sysfs file do."""
    real_pread = os.pread
    files = [machine.path(i) / "energy_uj" for i in identities]
    nodes = {(file.stat().st_dev, file.stat().st_ino) for file in files}

    def gone(fd: int, length: int, offset: int) -> bytes:
        stat = os.fstat(fd)
        if (stat.st_dev, stat.st_ino) in nodes:
            raise OSError(code, os.strerror(code))
        return real_pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", gone)
