"""Load, memory, clock and temperature, from files whose every count is known."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from irene.errors import MeterError
from irene.meters.channel import SensorLostError, SensorMeter, probed
from irene.meters.cpu.cpu_load import PAGE_BYTES, CpuLoad, ProcessLoad
from irene.meters.cpu.cpu_sensors import open_proc
from irene.meters.cpu.kernel_files import Roots
from irene.meters.finding import METERS
from tests.meters.made_up_proc import FakeProc

HZ = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def values(meter: SensorMeter) -> dict[str, float]:
    names = [channel.name for channel in meter.channels]
    return dict(zip(names, meter.read(), strict=True))


def load_after(fake: FakeProc, before: list[int], after: list[int]) -> float:
    fake.stat(*before)
    load = CpuLoad(fake.root, fake.clock)
    fake.now_s += 1
    fake.stat(*after)
    return load.percent()


def test_load_is_busy_over_all(fake):
    # user nice system idle iowait irq softirq steal
    before = [100, 10, 50, 1000, 5, 1, 1, 0]
    after = [130, 20, 60, 1040, 5, 6, 6, 0]
    assert load_after(fake, before, after) == pytest.approx(60.0)


def test_waiting_for_a_disk_is_not_busy(fake):
    assert load_after(fake, [0] * 8, [25, 0, 0, 25, 50, 0, 0, 0]) == 25.0


def test_time_given_to_other_machines_is_not_busy_but_part_of_the_whole(fake):
    assert load_after(fake, [0] * 8, [50, 0, 0, 0, 0, 0, 0, 50]) == 50.0


def test_guests_are_not_counted_twice(fake):
    after = [40, 10, 0, 50, 0, 0, 0, 0, 40, 10]  # guest is part of user and nice
    assert load_after(fake, [0] * 10, after) == 50.0


def test_two_readings_within_a_tick_give_the_same_value(fake):
    fake.stat(0, 0, 0, 0)
    load = CpuLoad(fake.root, fake.clock)
    assert math.isnan(load.percent())  # nothing is known yet, which is not 0
    fake.now_s += 1
    fake.stat(30, 0, 0, 70)
    assert load.percent() == 30.0
    fake.now_s += 0.001
    fake.stat(31, 0, 0, 70)
    assert load.percent() == 30.0
    fake.now_s += 1
    fake.stat(130, 0, 0, 70)
    assert load.percent() == 100.0  # what came in between is not lost


def test_time_without_a_tick_gives_the_last_value(fake):
    fake.stat(0, 0, 0, 0)
    load = CpuLoad(fake.root, fake.clock)
    fake.now_s += 1
    fake.stat(30, 0, 0, 70)
    load.percent()
    fake.now_s += 1
    assert load.percent() == 30.0


def test_counts_that_go_back_give_no_impossible_load(fake):
    # Linux says that iowait may decrease.
    assert load_after(fake, [0, 0, 0, 0, 90], [100, 0, 0, 0, 0]) == 100.0
    # A CPU that goes offline takes its counts with it.
    assert math.isnan(load_after(fake, [500, 0, 0, 500], [10, 0, 0, 10]))


@pytest.mark.parametrize("text", ["", "cpu x y z\n", "cpu 1 2\n", "btime 5\n"])
def test_a_stat_file_that_is_none_is_refused(fake, text):
    (fake.root / "stat").write_text(text)
    with pytest.raises(MeterError):
        CpuLoad(fake.root, fake.clock)


def test_a_stat_file_that_breaks_is_a_lost_sensor(fake):
    load = CpuLoad(fake.root, fake.clock)
    fake.now_s += 1
    (fake.root / "stat").write_text("nonsense\n")
    with pytest.raises(SensorLostError):
        load.percent()


def test_memory_in_use_is_what_is_not_available(fake):
    meter = open_proc(fake.roots, clock=fake.clock)
    assert values(meter)["proc:mem"] == pytest.approx(25.0)
    fake.now_s += 1
    fake.memory(total_kib=1000, available_kib=100)
    assert values(meter)["proc:mem"] == pytest.approx(90.0)


def test_the_clock_is_the_mean_of_cpufreq(fake):
    for cpu, khz in enumerate((1_000_000, 3_000_000)):
        path = f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"
        fake.sysfs_file(path, f"{khz}\n")
    meter = open_proc(fake.roots, clock=fake.clock)
    assert values(meter)["proc:cpu_clock"] == 2000.0


def test_without_cpufreq_the_clock_is_that_of_cpuinfo(fake):
    fake.cpuinfo(mhz=(2400.0, 2600.0))
    meter = open_proc(fake.roots, clock=fake.clock)
    assert values(meter)["proc:cpu_clock"] == 2500.0


def test_what_the_machine_does_not_tell_has_no_channel(fake):
    (fake.root / "cpuinfo").write_text("processor : 0\n\n")
    meter = open_proc(fake.roots, clock=fake.clock)
    assert list(values(meter)) == ["proc:cpu", "proc:mem"]
    assert "does not tell the clock" in meter.summary


def test_the_temperature_is_the_hottest_of_the_cpu(fake):
    zones = {"x86_pkg_temp": 51_000, "acpitz": 90_000, "cpu-thermal": 62_500}
    for index, (kind, millidegrees) in enumerate(zones.items()):
        fake.sysfs_file(f"class/thermal/thermal_zone{index}/type", f"{kind}\n")
        fake.sysfs_file(f"class/thermal/thermal_zone{index}/temp", f"{millidegrees}\n")
    meter = open_proc(fake.roots, clock=fake.clock)
    assert values(meter)["proc:cpu_temperature"] == 62.5


def test_a_process_is_counted_in_cores(fake):
    fake.process(7, (0, 0, 0, 0))
    load = ProcessLoad(fake.root, 7, cores=8, clock=fake.clock)
    fake.now_s += 2
    fake.process(7, (2 * HZ, HZ, 0, 0), pages=10)
    percent, resident_bytes = load.read()
    assert percent == pytest.approx(150.0)  # three seconds of CPU in two
    assert resident_bytes == 10 * PAGE_BYTES


def test_children_count_from_when_they_are_found(fake):
    fake.process(7, (0, 0, 0, 0), pages=1)
    load = ProcessLoad(fake.root, 7, cores=8, clock=fake.clock)
    fake.process(8, (500 * HZ, 0, 0, 0), pages=2, parent=7)  # it has a long past
    fake.process(9, (0, 0, 0, 0), pages=4, parent=8)
    fake.process(10, (0, 0, 0, 0), pages=8, parent=1)  # of somebody else
    fake.now_s += 60
    assert load.read() == (0.0, 7 * PAGE_BYTES)
    fake.now_s += 1
    fake.process(8, (501 * HZ, 0, 0, 0), pages=2, parent=7)
    fake.process(9, (HZ, 0, 0, 0), pages=4, parent=8)
    fake.process(10, (HZ, 0, 0, 0), pages=8, parent=1)
    assert load.read()[0] == pytest.approx(200.0)


def test_a_child_that_ends_is_not_counted_again(fake):
    fake.process(7, (0, 0, 0, 0))
    fake.process(8, (0, 0, 0, 0), parent=7)
    load = ProcessLoad(fake.root, 7, cores=8, clock=fake.clock)
    fake.now_s += 1
    fake.process(8, (HZ, 0, 0, 0), parent=7)
    assert load.read()[0] == pytest.approx(100.0)
    fake.now_s += 1
    (fake.root / "8" / "stat").write_text("")  # as a file of a process that has gone
    fake.process(7, (0, 0, HZ, 0))  # its parent has waited for it
    assert load.read()[0] == 0.0


def test_no_load_is_larger_than_the_machine(fake):
    fake.process(7, (0, 0, 0, 0))
    load = ProcessLoad(fake.root, 7, cores=2, clock=fake.clock)
    fake.now_s += 1
    fake.process(7, (0, 0, 900 * HZ, 0))  # children that nobody saw
    assert load.read()[0] == 200.0


def test_the_machine_goes_on_when_the_process_ends(fake):
    fake.process(7, (0, 0, 0, 0))
    meter = open_proc(fake.roots, pid=7, clock=fake.clock)
    fake.now_s += 1
    fake.stat(50, 0, 0, 50)
    (fake.root / "7" / "stat").write_text("")
    found = values(meter)
    assert found["proc:cpu"] == 50.0
    assert math.isnan(found["proc:process_cpu"])
    assert math.isnan(found["proc:process_mem"])


def test_a_process_that_is_not_there_is_an_error(fake):
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(MeterError, match="no process 77"):
        open_proc(fake.roots, pid=77)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_another_system_has_no_load(tmp_path):
    finding = probed("proc", lambda: open_proc(Roots(tmp_path, tmp_path)))
    assert not finding.works
    assert "Linux only" in finding.detail


@pytest.mark.skipif(sys.platform != "linux", reason="reads the real /proc")
def test_the_real_machine(monkeypatch):
    monkeypatch.delenv("IRENE_PROC_ROOT", raising=False)
    meter = METERS["proc"].open(Roots(), os.getpid())
    first = values(meter)
    spin_until = time.process_time() + 0.2
    while time.process_time() < spin_until:
        pass
    second = values(meter)
    meter.close()
    meter.close()
    assert 0 <= first["proc:cpu"] <= 100
    assert 0 < second["proc:cpu"] <= 100
    assert second["proc:process_cpu"] > 0
    assert second["proc:process_mem"] > 1_000_000
    assert 0 < second["proc:mem"] < 100


@pytest.mark.skipif(sys.platform != "linux", reason="reads the real /proc")
def test_a_real_child_is_found():
    spin = "while True: pass"
    with subprocess.Popen([sys.executable, "-c", spin]) as child:
        try:
            load = ProcessLoad(Path("/proc"), os.getpid(), os.cpu_count() or 1)
            before = load.read()
            percent = resident_bytes = 0.0
            while not (percent > 0 and resident_bytes > 2_000_000):
                time.sleep(0.05)
                percent, resident_bytes = load.read()
            load.close()
        finally:
            child.kill()
    assert math.isnan(before[0]) or before[0] >= 0


def test_the_places_come_from_the_environment(fake, monkeypatch):
    monkeypatch.setenv("IRENE_PROC_ROOT", str(fake.root))
    monkeypatch.setenv("IRENE_SYSFS_ROOT", str(fake.sysfs))
    meter = METERS["proc"].open(Roots())
    assert values(meter)["proc:mem"] == pytest.approx(25.0)
    meter.close()
