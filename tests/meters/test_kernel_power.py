"""Sensors of hwmon and batteries, on made-up sysfs trees."""

import math
from pathlib import Path

import pytest

from irene.errors import MeterError
from irene.meters import hwmon
from irene.meters.cpu.kernel_files import Roots
from irene.meters.finding import METERS, choose, findings, open_meters


def written(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    return folder


@pytest.fixture
def roots(tmp_path):
    return Roots(tmp_path / "sys", tmp_path / "proc")


@pytest.fixture
def chips(roots):
    return roots.sysfs / "class" / "hwmon"


def grace(chips, number, what, socket, power_uw):
    chip = written(chips / f"hwmon{number}", name="power_meter")
    written(
        chip / "device",
        power1_average=power_uw,
        power1_average_interval=50,
        power1_oem_info=f"{what} Power Socket {socket}",
    )


def test_grace_counts_its_sockets_once(roots, chips):
    for number, (what, socket, power) in enumerate(
        [("Module", 0, 600e6), ("Grace", 0, 210e6), ("CPU", 0, 120e6),
         ("SysIO", 0, 40e6), ("Grace", 1, 190e6)]
    ):  # fmt: skip
        grace(chips, number, what, socket, int(power))
    meter = hwmon.open_hwmon(roots)
    values = dict(zip(meter.channels, meter.read(), strict=True))
    counted = {c.name: w for c, w in values.items() if c.in_total}
    assert counted == {
        "hwmon:power_meter:Grace Power Socket 0": 210.0,
        "hwmon:power_meter:Grace Power Socket 1": 190.0,
    }
    assert {c.covers for c in values if c.in_total} == {"cpu-package"}
    assert {c.resolution_s for c in values} == {0.05}
    assert len(values) == 5


def test_intel_cards_count_energy_from_opening_and_in_the_order_of_the_bus(
    roots, chips, tmp_path
):
    for chip, bus, start in (
        ("hwmon7", "0000:03:00.0", 5),
        ("hwmon2", "0000:9a:00.0", 9),
    ):
        place = tmp_path / "bus" / bus
        place.mkdir(parents=True)
        folder = written(
            chips / chip,
            name="xe",
            energy1_input=start * 10**6,
            energy1_label="card",
            energy2_input=10**6,
            energy2_label="pkg",
        )
        (folder / "device").symlink_to(place)
    meter = hwmon.open_hwmon(roots)
    assert [(c.name, c.device) for c in meter.channels] == [
        ("hwmon:xpu:0:card", "xpu:0"),
        ("hwmon:xpu:1:card", "xpu:1"),
    ]
    before = meter.read()
    written(chips / "hwmon7", energy1_input=25 * 10**6)
    after = meter.read()
    assert [b - a for a, b in zip(before, after, strict=True)] == [20.0, 0.0]
    written(chips / "hwmon7", energy1_input=0)
    assert math.isnan(meter.read()[0])  # a reset is not a joule


def test_sensors_of_unknown_drivers_are_shown_and_not_counted(roots, chips):
    written(chips / "hwmon0", name="corsairpsu", power1_input=93 * 10**6,
            power1_label="power total")  # fmt: skip
    meter = hwmon.open_hwmon(roots)
    assert meter.read() == [93.0]
    assert not meter.channels[0].in_total
    assert "hwmon" in choose(findings(roots))


def test_what_cannot_be_read_is_missing_in_the_total(roots, chips):
    written(chips / "hwmon0", name="amdgpu", power1_average=55 * 10**6)
    written(chips / "hwmon1", name="amdgpu", power1_average="")
    meter = hwmon.open_hwmon(roots)
    assert [bool(c.missing) for c in meter.channels] == [False, True]
    assert meter.read()[0] == 55.0


def test_what_says_no_number_leaves_no_file_open(roots, chips):
    written(chips / "hwmon0", name="amdgpu", power1_average="not yet")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(MeterError, match="no sensor can be read"):
        hwmon.open_hwmon(roots)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nothing_there_is_said(roots):
    with pytest.raises(MeterError, match="no sensor of power"):
        hwmon.open_hwmon(roots)
    assert not METERS["battery"].find("battery", roots).works


def bat(roots, **files):
    folder = roots.sysfs / "class" / "power_supply" / "BAT0"
    return written(folder, type="Battery", **files)


@pytest.mark.parametrize(
    "gauge",
    [{"power_now": 12_500_000}, {"current_now": -1_000_000, "voltage_now": 12_500_000}],
)
def test_a_laptop_off_the_mains_is_measured_whole(roots, gauge):
    folder = bat(roots, status="Discharging", **gauge)
    (meter,) = open_meters(["battery"], roots)
    assert meter.read() == [12.5]
    assert meter.channels[0].covers == "wall"
    written(folder, status="Charging")
    assert math.isnan(meter.read()[0])


def test_on_the_mains_a_battery_says_what_helps(roots):
    bat(roots, status="Full", power_now=0)
    found = METERS["battery"].find("battery", roots)
    assert not found.works
    assert "pull the plug" in found.remedy
    assert "battery" not in choose(findings(roots))
