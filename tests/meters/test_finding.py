"""Which meters are chosen, and what counts when several see the same joule."""

from __future__ import annotations

from pathlib import Path

import pytest

from irene.errors import MeterError, UsageError
from irene.meters.channel import Channel, Finding
from irene.meters.finding import (
    METERS,
    choose,
    count_once,
    findings,
    names_in,
    open_meters,
)
from irene.meters.machine import describe_machine
from irene.meters.sampling.sampler import check_period
from tests.meters.made_up import ListMeter
from tests.meters.made_up_proc import FakeProc

PACKAGE = Channel("rapl:package-0", "energy_j", "cpu-package", device="cpu")
DRAM = Channel("rapl:package-0:dram", "energy_j", "dram", device="cpu")
PERF = Channel("perf:package-0", "energy_j", "cpu-package", device="cpu")
GPU = Channel("nvml:0:energy", "energy_j", "gpu-board", device="cuda:0")
GUESS = Channel("estimate:cpu", "power_w", "cpu-package", source="estimated")
LOAD = Channel("proc:cpu", "percent", counted=False)
WALL = Channel("serial:a", "energy_j", "wall")
BOARD = Channel("zeus:jetson:total", "energy_j", "board")


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def zone(fake: FakeProc, number: int, name: str, energy_uj: int = 1000) -> Path:
    folder = f"class/powercap/intel-rapl:{number}"
    fake.sysfs_file(f"{folder}/name", f"{name}\n")
    fake.sysfs_file(f"{folder}/max_energy_range_uj", "262143328850\n")
    fake.sysfs_file(f"{folder}/energy_uj", f"{energy_uj}\n")
    return fake.sysfs / folder / "energy_uj"


def works(name: str, *channels: Channel) -> Finding:
    return Finding(name, True, "", channels=channels)


def fails(name: str) -> Finding:
    return Finding(name, False, "")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("auto", ["auto"]),
        ("rapl, nvml", ["rapl", "nvml"]),
        (
            "serial:/dev/ttyUSB0?format=timestamp,volts,amps,rapl",
            ["serial:/dev/ttyUSB0?format=timestamp,volts,amps", "rapl"],
        ),
        ("rapl,volts", ["rapl", "volts"]),
    ],
)
def test_an_address_may_hold_commas(text: str, names: list[str]) -> None:
    assert names_in(text) == names


def test_counters_are_better_than_an_estimate():
    found = [works("rapl", PACKAGE, DRAM), works("perf", PERF), works("nvml", GPU)]
    found += [works("estimate", GUESS), works("proc", LOAD)]
    assert choose(found) == ["rapl", "nvml", "proc"]


def test_perf_comes_in_where_rapl_cannot_be_read():
    found = [fails("rapl"), works("perf", PERF), works("estimate", GUESS)]
    assert choose(found) == ["perf"]


def test_a_gpu_alone_leaves_the_cpu_to_the_estimate():
    found = [fails("rapl"), works("nvml", GPU), works("estimate", GUESS)]
    assert choose(found) == ["nvml", "estimate"]


def test_a_board_with_its_cpu_needs_no_estimate():
    assert choose([works("zeus", BOARD), works("estimate", GUESS)]) == ["zeus"]


def test_memory_alone_is_no_cpu():
    assert choose([works("rapl", DRAM), works("estimate", GUESS)]) == [
        "rapl",
        "estimate",
    ]


def test_there_may_be_nothing():
    assert choose([fails(name) for name in METERS]) == []


def test_here_every_kind_is_looked_for(fake):
    found = findings(fake.roots)
    assert [finding.meter for finding in found] == list(METERS)
    assert {f.meter for f in found if f.works} >= {"estimate", "proc"}


def test_the_best_meters_of_a_machine_with_counters(fake):
    zone(fake, 0, "package-0")
    meters = open_meters(["auto"], fake.roots)
    names = [meter.name for meter in meters]
    for meter in meters:
        assert len(meter.read()) == len(meter.channels)
        meter.close()
    assert names[0] == "rapl"
    assert names[-1] == "proc"
    assert "estimate" not in names
    assert "perf" not in names


def test_auto_is_the_estimate_where_there_is_nothing_else(fake):
    meters = open_meters(["auto"], roots=fake.roots)
    cpu = [c for meter in meters for c in meter.channels if c.counted and c.is_energy]
    for meter in meters:
        meter.close()
    assert "estimated" in {c.source for c in cpu if c.device == "cpu"}


def test_the_process_reaches_the_load(fake):
    fake.process(7, (0, 0, 0, 0))
    (meter,) = open_meters(["proc"], pid=7, roots=fake.roots)
    meter.close()
    assert "proc:process_cpu" in [channel.name for channel in meter.channels]


def test_a_name_twice_is_opened_once(fake):
    meters = open_meters(["proc", "proc"], roots=fake.roots)
    for meter in meters:
        meter.close()
    assert len(meters) == 1


@pytest.mark.parametrize("spec", ["watts", "", "serial", "serial:", "replay", "rapl:0"])
def test_an_unknown_meter_names_the_known_ones(spec):
    with pytest.raises(UsageError) as caught:
        open_meters([spec])
    assert all(name in str(caught.value) for name in (*METERS, "auto", "serial:/dev"))


def test_a_meter_that_is_not_there_says_what_helps(fake):
    with pytest.raises(MeterError, match="modprobe"):
        open_meters(["rapl"], roots=fake.roots)


def test_those_already_open_are_closed_when_one_fails(fake, monkeypatch):
    opened = ListMeter([LOAD], [[1.0]], "proc")
    monkeypatch.setattr(
        "irene.meters.cpu.cpu_sensors.open_proc", lambda *_, **__: opened
    )
    with pytest.raises(MeterError):
        open_meters(["proc", "rapl"], roots=fake.roots)
    assert opened.closed


def test_a_recording_is_opened_by_its_file(tmp_path):
    with pytest.raises(UsageError, match=r"no-such-file"):
        open_meters([f"replay:{tmp_path / 'no-such-file'}"])


def counted(*channels: tuple[Channel, ...]) -> list[str]:
    meters = [
        ListMeter(row, [[1.0] * len(row)], f"m{i}") for i, row in enumerate(channels)
    ]
    result = count_once(meters)
    assert [list(m.read()) for m in result] == [[1.0] * len(row) for row in channels]
    assert [m.name for m in result] == [m.name for m in meters]
    for meter in result:
        meter.close()
    assert all(meter.closed for meter in meters)
    return [c.name for m in result for c in m.channels if c.counted]


def test_an_estimate_beside_a_counter_is_only_shown():
    assert counted((PACKAGE, DRAM), (GUESS,)) == [PACKAGE.name, DRAM.name]


def test_two_packages_of_one_meter_both_count():
    second = Channel("rapl:package-1", "energy_j", "cpu-package", device="cpu")
    assert counted((PACKAGE, second)) == [PACKAGE.name, second.name]


def test_a_gpu_counts_beside_a_cpu():
    assert counted((PACKAGE,), (GPU,)) == [PACKAGE.name, GPU.name]


def test_a_wall_meter_counts_alone_and_two_of_them_together():
    second = Channel("serial:b", "energy_j", "wall")
    assert counted((PACKAGE,), (GPU,), (WALL,)) == [WALL.name]
    assert counted((WALL,), (second,), (GPU,)) == [WALL.name, second.name]


def test_what_is_not_counted_says_why():
    meters = [
        ListMeter([PACKAGE], [[1.0]], "rapl"),
        ListMeter([GUESS], [[1.0]], "guess"),
    ]
    (channel,) = count_once(meters)[1].channels
    assert channel.note == "not counted: rapl covers it"


def test_the_machine_in_words(fake):
    fake.cpuinfo("AMD EPYC 7763 64-Core Processor", cores=2, threads=4, sockets=2)
    fake.memory(total_kib=16 * 1024 * 1024, available_kib=1)
    fake.sysfs_file("devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    fake.sysfs_file("devices/system/cpu/cpufreq/boost", "0\n")
    words = describe_machine(fake.roots)
    assert words["cpu"] == "AMD EPYC 7763 64-Core Processor"
    assert (words["cores"], words["cpus"], words["sockets"]) == ("4", "8", "2")
    assert words["memory"] == "16.0 GiB"
    assert (words["governor"], words["turbo"]) == ("performance", "off")
    assert words["virtual"] == "no"
    assert words["kernel"]


def test_intel_says_turbo_the_other_way_round(fake):
    fake.sysfs_file("devices/system/cpu/intel_pstate/no_turbo", "0\n")
    assert describe_machine(fake.roots)["turbo"] == "on"


def test_a_meter_that_is_not_counted_must_still_be_read_in_time() -> None:
    class Wrapping(ListMeter):
        longest_interval_s = 30.0

    wall = ListMeter([WALL], [[100.0]], name="wall")
    wrapping = Wrapping([PACKAGE], [[1.0]], name="rapl")
    _, shown = count_once([wall, wrapping])
    assert not shown.channels[0].counted
    with pytest.raises(UsageError, match="every 30 s"):
        check_period([shown], 31.0)
