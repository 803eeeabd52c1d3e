"""AMD, Apple and Jetson through a stand-in for zeus with its real names."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from types import ModuleType

import pytest

from irene.errors import MeterError, MissingExtraError
from irene.meters.channel import SensorLostError, probed
from irene.meters.gpu.zeus_devices import INSTALL, open_zeus
from irene.meters.sensors import SensorMeter


def probe():
    return probed("zeus", open_zeus, INSTALL)


class ZeusBaseGPUError(Exception):
    pass


class ZeusGPUNotSupportedError(ZeusBaseGPUError):
    pass


class ZeusSoCInitError(Exception):
    pass


class AMDGPU:
    """One AMD GPU, named as in zeus.device.gpu.amd."""

    def __init__(self, gpu_index: int) -> None:
        self.gpu_index = gpu_index
        self.energy_mj: int | None = 7_000_000
        self.instant_mw: int | None = 301_000
        self.average_mw: int | None = 290_000
        self.model = "AMD Instinct MI300X"
        self.lost = False

    def get_name(self) -> str:
        return self.model

    def supports_get_total_energy_consumption(self) -> bool:
        return self.energy_mj is not None

    def get_total_energy_consumption(self) -> int:
        if self.lost or self.energy_mj is None:
            raise ZeusGPUNotSupportedError("not accurate")
        return self.energy_mj

    def get_instant_power_usage(self) -> int:
        if self.instant_mw is None:
            raise ZeusGPUNotSupportedError("use get_average_power_usage")
        return self.instant_mw

    def get_average_power_usage(self) -> int:
        if self.average_mw is None:
            raise ZeusGPUNotSupportedError("use get_instant_power_usage")
        return self.average_mw


class AMDGPUs:
    def __init__(self, gpus: list[AMDGPU]) -> None:
        self.gpus = gpus


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
    def put(amd: list[AMDGPU] | None = None, soc: SoC | None = None) -> None:
        def get_soc() -> SoC:
            if soc is None:
                raise ZeusSoCInitError("No observable SoC was found.")
            return soc

        gpu_module = ModuleType("zeus.device.gpu")
        gpu_module.amdsmi_is_available = lambda: amd is not None  # type: ignore[attr-defined]
        gpu_module.AMDGPUs = lambda: AMDGPUs(amd or [])  # type: ignore[attr-defined]
        soc_module = ModuleType("zeus.device.soc")
        soc_module.get_soc = get_soc  # type: ignore[attr-defined]
        soc_module.ZeusSoCInitError = ZeusSoCInitError  # type: ignore[attr-defined]
        for name in ("zeus", "zeus.device"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setitem(sys.modules, "zeus.device.gpu", gpu_module)
        monkeypatch.setitem(sys.modules, "zeus.device.soc", soc_module)

    return put


def values(meter: SensorMeter) -> dict[str, float]:
    names = [channel.name for channel in meter.channels]
    return dict(zip(names, meter.read(), strict=True))


def test_amd_energy_is_in_joules_on_the_device_torch_sees(install: Install) -> None:
    install([AMDGPU(0), AMDGPU(3)])
    meter = open_zeus()
    assert values(meter) == {"zeus:amd:0:energy": 7000, "zeus:amd:3:energy": 7000}
    assert [channel.device for channel in meter.channels] == ["cuda:0", "cuda:1"]
    assert all(channel.counted for channel in meter.channels)
    assert "MI300X" in meter.channels[0].note


@pytest.mark.parametrize(
    ("instant_mw", "power_w", "note"),
    [(301_000, 301, "instant power"), (None, 290, "average power")],
)
def test_amd_without_a_counter_gives_power(
    install: Install, instant_mw: int | None, power_w: float, note: str
) -> None:
    gpu = AMDGPU(0)
    gpu.energy_mj, gpu.instant_mw = None, instant_mw
    install([gpu])
    meter = open_zeus()
    assert values(meter) == pytest.approx({"zeus:amd:0:power": power_w})
    assert meter.channels[0].note.startswith(note)
    assert meter.channels[0].counted


def test_the_second_chiplet_of_a_card_has_no_sensor(install: Install) -> None:
    first, second = AMDGPU(0), AMDGPU(1)
    first.model = second.model = "AMD Instinct MI250X"
    second.energy_mj = second.instant_mw = second.average_mw = None
    install([first, second])
    (channel,) = open_zeus().channels
    assert channel.name == "zeus:amd:0:energy"
    assert "both chiplets" in channel.note


def test_a_counter_that_starts_again_never_goes_down(install: Install) -> None:
    gpu = AMDGPU(0)
    install([gpu])
    meter = open_zeus()
    assert meter.read() == [7000]
    gpu.energy_mj = 1000
    assert math.isnan(meter.read()[0])
    gpu.energy_mj = 3000
    assert meter.read() == pytest.approx([7002])


def test_a_lost_gpu_leaves_the_others(install: Install) -> None:
    first, second = AMDGPU(0), AMDGPU(1)
    install([first, second])
    meter = open_zeus()
    first.lost = True
    assert math.isnan(meter.read()[0])
    assert meter.read()[1] == 7000
    second.lost = True
    with pytest.raises(SensorLostError, match="zeus:amd:0:energy"):
        meter.read()


def test_apple_counts_each_joule_once(install: Install) -> None:
    measured = AppleSiliconMeasurement(
        cpu_total_mj=1000,
        efficiency_cores_mj=[1, 2],
        dram_mj=200,
        gpu_mj=3000,
        gpu_sram_mj=10,
        ane_mj=0,
    )
    install(soc=AppleSilicon(measured))
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
    install(soc=Jetson(JetsonMeasurement(1500.5, 4000.0, 9000.25)))
    meter = open_zeus()
    assert values(meter)["zeus:jetson:total"] == pytest.approx(9.00025)
    assert [c.name for c in meter.channels if c.counted] == ["zeus:jetson:total"]
    assert meter.channels[0].resolution_s > 0


def test_a_jetson_without_a_total_counts_the_parts(install: Install) -> None:
    install(soc=Jetson(JetsonMeasurement(1500.5, 4000.0)))
    assert all(channel.counted for channel in open_zeus().channels)


def test_nothing_there_says_what_it_needs(install: Install) -> None:
    install()
    with pytest.raises(MeterError, match="ROCm"):
        open_zeus()
    finding = probe()
    assert not finding.works
    assert "ROCm" in finding.remedy


def test_trouble_in_a_vendors_library_is_explained(install: Install) -> None:
    install([AMDGPU(0)])
    module = sys.modules["zeus.device.gpu"]
    module.AMDGPUs = lambda: int("GPU-uuid")  # type: ignore[attr-defined]
    finding = probe()
    assert "ValueError" in finding.detail
    assert "HIP_VISIBLE_DEVICES" in finding.remedy


def test_probe_lists_the_channels(install: Install) -> None:
    install([AMDGPU(0)])
    finding = probe()
    assert finding.works
    assert [channel.name for channel in finding.channels] == ["zeus:amd:0:energy"]


def test_a_missing_extra_names_its_install_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "zeus", None)
    with pytest.raises(MissingExtraError, match=r"irene-energy\[zeus\]"):
        open_zeus()
    assert "irene-energy[zeus]" in probe().remedy


def test_a_closed_meter_says_so(install: Install) -> None:
    install([AMDGPU(0)])
    meter = open_zeus()
    meter.close()
    meter.close()
    with pytest.raises(SensorLostError):
        meter.read()


def test_the_stand_in_has_the_signatures_of_zeus() -> None:
    amd = pytest.importorskip("zeus.device.gpu.amd", reason="zeus is not installed")
    import zeus.device.gpu  # type: ignore[import-not-found]
    import zeus.device.soc  # type: ignore[import-not-found]
    from zeus.device.soc import apple, jetson

    names = [name for name in vars(AMDGPU) if name[0] != "_"]
    assert len(names) == 5
    for name in names:
        mine = inspect.signature(getattr(AMDGPU, name)).parameters
        assert list(mine) == list(
            inspect.signature(getattr(amd.AMDGPU, name)).parameters
        )
    for mine, real in (
        (AppleSiliconMeasurement, apple.AppleSiliconMeasurement),
        (JetsonMeasurement, jetson.JetsonMeasurement),
    ):
        assert [f.name for f in fields(mine)] == [f.name for f in fields(real)]
    assert callable(zeus.device.gpu.amdsmi_is_available)
    assert zeus.device.gpu.AMDGPUs is amd.AMDGPUs
    for name in ("get_available_metrics", "get_total_energy_consumption"):
        assert hasattr(apple.AppleSilicon, name)
        assert hasattr(jetson.Jetson, name)
    with pytest.raises(zeus.device.soc.ZeusSoCInitError):
        zeus.device.soc.get_soc()
