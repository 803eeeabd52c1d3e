"""The estimate of a CPU's power: physics, honesty, and the processors behind it."""

from __future__ import annotations

import csv
import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import MeterError, UsageError
from irene.meters.cpu.kernel_files import Roots
from irene.meters.estimate.cpu_estimate import (
    FILE,
    TDP_VARIABLE,
    basis,
    basis_of,
    find_known,
    known_processors,
    load_model,
    open_estimate,
    usual_power,
)
from irene.meters.finding import METERS
from irene.meters.machine import Processor, read_processor
from tests.meters.made_up_proc import FakeProc


def probe(roots):
    return METERS["estimate"].find("estimate", roots)


MODEL = load_model()
XEON = "Intel(R) Xeon(R) CPU E3-1240 V2 @ 3.40GHz"
DATA = Path(os.environ.get("IRENE_DATA_DIR", ".")) / "cpu-load"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    monkeypatch.delenv(TDP_VARIABLE, raising=False)
    return FakeProc(tmp_path)


loads = st.floats(0, 1)
densities = st.floats(1, 40)
cores = st.floats(0.5, 256)


@given(cores, densities, loads, loads)
def test_more_load_never_takes_less(cores, density, one, other):
    low, high = sorted((one, other))
    at_low, at_high = (MODEL.power_w(cores, density, load) for load in (low, high))
    assert at_low <= at_high * (1 + 1e-12)


@given(cores, densities, loads)
def test_power_is_between_idle_and_the_design_power(cores, density, load):
    idle_w = MODEL.power_w(cores, density, 0.0)
    power_w = MODEL.power_w(cores, density, load)
    assert 0 < idle_w <= power_w * (1 + 1e-12)
    assert power_w <= cores * density


@given(cores, densities, loads, st.floats(1, 64))
def test_a_part_of_a_processor_takes_that_part(cores, density, load, parts):
    whole_w = MODEL.power_w(cores, density, load)
    part_w = MODEL.power_w(cores / parts, density, load)
    assert part_w * parts == pytest.approx(whole_w)


@given(cores, densities, loads)
def test_power_rises_in_a_straight_line(cores, density, load):
    idle_w, full_w = (MODEL.power_w(cores, density, end) for end in (0.0, 1.0))
    straight_w = idle_w + load * (full_w - idle_w)
    assert MODEL.power_w(cores, density, load) == pytest.approx(straight_w)


@given(
    st.sampled_from([known.name for known in known_processors()] + ["", "something"]),
    st.sampled_from(["Intel", "AMD", "ARM", "Hygon", ""]),
    st.integers(1, 256),
    st.booleans(),
)
def test_every_machine_gets_watts_and_an_interval(name, vendor, threads, virtual):
    processor = Processor(name, vendor, threads, threads, virtual=virtual)
    found = basis_of(processor, MODEL)
    power_w = MODEL.power_w(found.cores, found.tdp_w_per_core, 0.0)
    assert power_w > 0
    assert found.relative_error >= MODEL.relative_error
    assert any("memory" in line for line in found.assumptions)


def test_a_known_processor_is_taken_as_its_maker_says(fake):
    fake.cpuinfo(XEON, "GenuineIntel", cores=4, threads=8)
    text = "\n".join(basis(fake.roots).assumptions)
    assert "8 CPUs on 4 cores" in text
    assert "TDP 69 W with 4 cores, as Intel says" in text
    found = basis_of(read_processor(fake.roots), MODEL)
    assert found.relative_error == MODEL.relative_error


def test_two_sockets_take_twice_as_much(fake):
    name = "AMD EPYC 7763 64-Core Processor"
    fake.cpuinfo(name, cores=64, threads=128)
    one = basis_of(read_processor(fake.roots), MODEL)
    fake.cpuinfo(name, cores=64, threads=128, sockets=2)
    two = basis_of(read_processor(fake.roots), MODEL)
    assert two.cores == 2 * one.cores == 128
    assert two.tdp_w_per_core == one.tdp_w_per_core == 280 / 64


def test_a_virtual_machine_is_a_part_of_its_host(fake):
    name = "Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz"
    fake.cpuinfo(name, "GenuineIntel", cores=4, threads=4, virtual=True)
    found = basis_of(read_processor(fake.roots), MODEL)
    assert found.cores == 2.0  # four of the 56 threads of 28 cores
    assert found.tdp_w_per_core == 205 / 28
    assert found.relative_error > MODEL.relative_error
    assert any("may be whole cores" in line for line in found.assumptions)


def test_an_unknown_name_widens_the_interval_and_says_what_was_taken(fake):
    fake.cpuinfo("AMD EPYC", virtual=True)
    found = basis_of(read_processor(fake.roots), MODEL)
    text = "\n".join(found.assumptions)
    assert "TDP unknown" in text
    assert "AMD server processors" in text
    assert TDP_VARIABLE in text
    assert found.relative_error > MODEL.relative_error


def test_the_user_can_state_the_design_power(fake, monkeypatch):
    fake.cpuinfo("Mystery 9000", cores=4, threads=8)
    unstated = basis_of(read_processor(fake.roots), MODEL)
    monkeypatch.setenv(TDP_VARIABLE, "80")
    stated = basis(fake.roots)
    assert stated.tdp_w_per_core == 20.0
    assert stated.relative_error < unstated.relative_error
    assert any(f"as {TDP_VARIABLE} says" in line for line in stated.assumptions)
    meter = open_estimate(fake.roots)
    meter.close()
    assert meter.channels[0].relative_error == stated.relative_error


@pytest.mark.parametrize("text", ["much", "0", "-5", "nan", "inf"])
def test_a_design_power_that_is_none_is_refused(fake, monkeypatch, text):
    monkeypatch.setenv(TDP_VARIABLE, text)
    with pytest.raises(UsageError, match=TDP_VARIABLE):
        open_estimate(fake.roots)
    assert not probe(fake.roots).works


def test_the_meter_follows_the_load_and_is_labelled(fake):
    fake.cpuinfo(XEON, "GenuineIntel", cores=4, threads=8)
    meter = open_estimate(fake.roots, fake.clock)
    (channel,) = meter.channels
    assert (channel.name, channel.quantity) == ("estimate:cpu", "power_w")
    assert (channel.source, channel.counted) == ("estimated", True)
    assert channel.relative_error == basis(fake.roots).relative_error
    assert math.isnan(meter.read()[0])  # no load is known yet: not 0 W
    powers = []
    for busy in (0, 50, 100):
        fake.now_s += 1
        fake.stat(
            *[
                int(x) + y
                for x, y in zip(_ticks(fake), (busy, 0, 0, 100 - busy), strict=True)
            ]
        )
        powers.append(meter.read()[0])
    assert powers == sorted(powers)
    idle_w, half_w, full_w = powers
    assert half_w - idle_w == pytest.approx(0.5 * (full_w - idle_w))
    assert meter.channels[0].relative_error > 0
    meter.close()
    meter.close()


def _ticks(fake: FakeProc) -> list[str]:
    return (fake.root / "stat").read_text().split()[1:5]


def test_a_meter_that_cannot_open_leaves_no_file_open(fake, monkeypatch):
    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setenv(TDP_VARIABLE, "much")
    with pytest.raises(UsageError):
        open_estimate(fake.roots)
    monkeypatch.delenv(TDP_VARIABLE)
    (fake.root / "stat").unlink()
    with pytest.raises(MeterError):
        open_estimate(fake.roots)
    basis(fake.roots)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_without_a_load_there_is_no_estimate(tmp_path):
    finding = probe(Roots(tmp_path, tmp_path))
    assert not finding.works
    assert "Linux only" in finding.detail


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (XEON, "Xeon E3-1240 v2"),
        ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "Xeon E5-2680 v4"),
        ("Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz", "Xeon Gold 6248R"),
        ("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", "Xeon Gold 6248"),
        ("Intel(R) Xeon(R) Platinum 8480+", "Xeon Platinum 8480+"),
        ("Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz", "Core i7-8700K"),
        ("13th Gen Intel(R) Core(TM) i9-13900K", "Core i9-13900K"),
        ("AMD EPYC 8024P 8-Core Processor", "EPYC 8024P"),
        ("AMD EPYC 7713P 64-Core Processor", "EPYC 7713"),
        ("AMD Ryzen Threadripper 1950X 16-Core Processor", "Ryzen Threadripper 1950X"),
        ("AMD Ryzen 7 5800H with Radeon Graphics", "Ryzen 7 5800H"),
    ],
)
def test_names_of_systems_are_understood(said, name):
    known = find_known(said)
    assert known is not None
    assert known.name == name


@pytest.mark.parametrize(
    "said",
    ["", "AMD EPYC", "Intel(R) Core(TM) i7-8700T CPU @ 2.40GHz", "AMD EPYC 7713X"],
)
def test_a_near_name_is_not_the_same_processor(said):
    assert find_known(said) is None


def test_the_table_is_sound():
    table = known_processors()
    assert len(table) > 200
    assert len({known.name for known in table}) == len(table)
    for known in table:
        assert known.cores <= known.threads <= 2 * known.cores
        assert 1 < known.tdp_w_per_core < 50


@pytest.mark.parametrize(
    ("processor", "group"),
    [
        (Processor("AMD EPYC", "AMD", 2, 2, virtual=True), "AMD server"),
        (Processor("Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel", 2, 2), "Intel server"),
        (Processor("Intel(R) Core(TM) i5-7200U", "Intel", 2, 4), "Intel laptop"),
        (Processor("AMD Ryzen 5 9999X", "AMD", 6, 12), "AMD desktop"),
        (Processor("Neoverse V1", "ARM", 8, 8, virtual=True), "Ampere server"),
        (Processor("", "", 2, 2, virtual=True), "server"),
    ],
)
def test_the_unknown_is_compared_with_its_kind(processor, group):
    assert usual_power(processor)[0] == group


def test_arm_has_no_model_name(fake):
    block = "processor : {}\nCPU implementer : 0x41\nCPU part : 0xd40\n"
    text = "\n".join(block.format(i) for i in range(4))
    (fake.root / "cpuinfo").write_text(text)
    fake.sysfs_file("class/dmi/id/sys_vendor", "Amazon EC2\n")
    processor = read_processor(fake.roots)
    assert (processor.name, processor.vendor) == ("Neoverse V1", "ARM")
    assert (processor.cores, processor.threads, processor.virtual) == (4, 4, True)
    assert basis_of(processor, MODEL).cores == 4.0
    fake.sysfs_file("class/dmi/id/product_name", "c7g.metal\n")
    assert not read_processor(fake.roots).virtual


def test_the_shipped_numbers_say_where_they_are_from():
    document = json.loads(FILE.read_text(encoding="utf-8"))
    assert "cpu_load_profiling" in document["provenance"]["data"]
    errors = document["left_out_mean_error_percent"].values()
    ours, theirs = (
        sum(error[who] for error in errors) / 3
        for who in ("ours", "codecarbon_formula")
    )
    assert ours < theirs
    # Nothing wider than what the worst of three processors needed.
    worst = max(error["width_90"] for error in errors)
    assert MODEL.relative_error == worst < 1


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no {DATA}: set IRENE_DATA_DIR")
def test_most_measurements_lie_in_the_interval():
    inside = count = 0
    for path in sorted(DATA.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                known = find_known(row["cpu_name"])
                assert known is not None
                load = float(row["cpu_load"]) / 100
                said = MODEL.power_w(known.cores, known.tdp_w_per_core, load)
                power_w = float(row["rapl_energy"]) * 3.6e6 / float(row["duration"])
                inside += abs(power_w - said) <= MODEL.relative_error * said
                count += 1
    assert count == 64
    assert inside / count > 0.9
