"""Apple and Jetson through a stand-in for zeus with its real names."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from types import ModuleType

import pytest

from irene.errors import MeterError, MissingExtraError
from irene.meters.channel import SensorLostError, SensorMeter, probed
from irene.meters.gpu.zeus_devices import INSTALL, open_zeus


def probe():
    return probed("zeus", open_zeus, INSTALL)


class ZeusSoCInitError(Exception):
    pass


@dataclass
class AppleSiliconMeasurement:
    cpu_total_mj: int | None = None
    efficiency_cores_mj: list[int] | None = None
    performance_cores_mj: list[int] | None = None
    efficiency_cluster_mj: list[int] | None = None
    performance_cluster_mj: list[int] | None = None
    efficiency_core_manager_mj: int | None = None
    performance_core_manager_mj: int | None = None
    dram_mj: int | None = None
    gpu_mj: int | None = None
    gpu_sram_mj: int | None = None
    ane_mj: int | None = None


@dataclass
class JetsonMeasurement:
    cpu_energy_mj: float | None = None
    gpu_energy_mj: float | None = None
    total_energy_mj: float | None = None


class SoC:
    def __init__(
        self, measurement: AppleSiliconMeasurement | JetsonMeasurement
    ) -> None:
        self.measurement = measurement

    def get_available_metrics(self) -> set[str]:
        known = (field.name for field in fields(self.measurement))
        return {name for name in known if getattr(self.measurement, name) is not None}

    def get_total_energy_consumption(
        self,
    ) -> AppleSiliconMeasurement | JetsonMeasurement:
        return self.measurement


class AppleSilicon(SoC):
    pass


class Jetson(SoC):
    pass


Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    def put(soc: SoC | None = None) -> None:
        def get_soc() -> SoC:
            if soc is None:
                raise ZeusSoCInitError("No observable SoC was found.")
            return soc

        soc_module = ModuleType("zeus.device.soc")
        soc_module.get_soc = get_soc  # type: ignore[attr-defined]
        soc_module.ZeusSoCInitError = ZeusSoCInitError  # type: ignore[attr-defined]
        for name in ("zeus", "zeus.device"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setitem(sys.modules, "zeus.device.soc", soc_module)

    return put


def values(meter: SensorMeter) -> dict[str, float]:
    names = [channel.name for channel in meter.channels]
    return dict(zip(names, meter.read(), strict=True))


def test_a_counter_that_starts_again_never_goes_down(install: Install) -> None:
    measured = JetsonMeasurement(total_energy_mj=7_000_000)
    install(Jetson(measured))
    meter = open_zeus()
    assert meter.read() == [7000]
    measured.total_energy_mj = 1_000_000
    assert math.isnan(meter.read()[0])
    measured.total_energy_mj = 3_000_000
    assert meter.read() == pytest.approx([9000])


def test_apple_counts_each_joule_once(install: Install) -> None:
    measured = AppleSiliconMeasurement(
        cpu_total_mj=1000,
        efficiency_cores_mj=[1, 2],
        dram_mj=200,
        gpu_mj=3000,
        gpu_sram_mj=10,
        ane_mj=0,
    )
    install(AppleSilicon(measured))
    meter = open_zeus()
    assert values(meter) == pytest.approx(
        {
            "zeus:applesilicon:cpu": 1.0,
            "zeus:applesilicon:gpu": 3.0,
            "zeus:applesilicon:gpu_sram": 0.01,
            "zeus:applesilicon:dram": 0.2,
            "zeus:applesilicon:ane": 0.0,
        }
    )
    counted = {channel.name for channel in meter.channels if channel.counted}
    assert "zeus:applesilicon:gpu_sram" not in counted
    assert len(counted) == 4
    assert {c.device for c in meter.channels} == {"cpu", "mps", ""}
    measured.gpu_mj = None
    assert math.isnan(values(meter)["zeus:applesilicon:gpu"])


def test_a_jetson_counts_its_total_and_not_the_parts(install: Install) -> None:
    install(Jetson(JetsonMeasurement(1500.5, 4000.0, 9000.25)))
    meter = open_zeus()
    assert values(meter)["zeus:jetson:total"] == pytest.approx(9.00025)
    assert [c.name for c in meter.channels if c.counted] == ["zeus:jetson:total"]
    assert meter.channels[0].resolution_s > 0


def test_a_jetson_without_a_total_counts_the_parts(install: Install) -> None:
    install(Jetson(JetsonMeasurement(1500.5, 4000.0)))
    assert all(channel.counted for channel in open_zeus().channels)


def test_nothing_there_says_what_it_needs(install: Install) -> None:
    install()
    with pytest.raises(MeterError, match="no Apple silicon"):
        open_zeus()
    finding = probe()
    assert not finding.works
    assert "zeus-apple-silicon" in finding.remedy


def test_trouble_in_a_vendors_library_is_explained(install: Install) -> None:
    install()
    module = sys.modules["zeus.device.soc"]
    module.get_soc = lambda: int("GPU-uuid")  # type: ignore[attr-defined]
    assert "ValueError" in probe().detail


def test_probe_lists_the_channels(install: Install) -> None:
    install(Jetson(JetsonMeasurement(total_energy_mj=1.0)))
    finding = probe()
    assert finding.works
    assert [channel.name for channel in finding.channels] == ["zeus:jetson:total"]


def test_a_missing_extra_names_its_install_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "zeus", None)
    with pytest.raises(MissingExtraError, match=r"irene-energy\[zeus\]"):
        open_zeus()
    assert "irene-energy[zeus]" in probe().remedy


def test_a_closed_meter_says_so(install: Install) -> None:
    install(Jetson(JetsonMeasurement(total_energy_mj=1.0)))
    meter = open_zeus()
    meter.close()
    meter.close()
    with pytest.raises(SensorLostError):
        meter.read()


def test_the_stand_in_has_the_signatures_of_zeus() -> None:
    pytest.importorskip("zeus.device.soc", reason="zeus is not installed")
    import zeus.device.soc  # type: ignore[import-not-found]
    from zeus.device.soc import apple, jetson

    for mine, real in (
        (AppleSiliconMeasurement, apple.AppleSiliconMeasurement),
        (JetsonMeasurement, jetson.JetsonMeasurement),
    ):
        assert [f.name for f in fields(mine)] == [f.name for f in fields(real)]
    for name in ("get_available_metrics", "get_total_energy_consumption"):
        assert hasattr(apple.AppleSilicon, name)
        assert hasattr(jetson.Jetson, name)
    with pytest.raises(zeus.device.soc.ZeusSoCInitError):
        zeus.device.soc.get_soc()
