"""NVIDIA GPUs: what is read, what is counted, what happens when they fail."""

from __future__ import annotations

import inspect
import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from irene.errors import MeterError, MissingExtraError
from irene.meters.channel import SensorLostError, probed
from irene.meters.energy_counter import GrowingCounter
from irene.meters.gpu.nvml import INSTALL, NvmlMeter, open_nvml
from irene.meters.gpu.nvml_queries import Gpu, visible_gpus

from .fake_nvml import ERRORS, FakeGpu, FakeNvml


def probe(environment):
    return probed("nvml", lambda: open_nvml(environment), INSTALL)


NOT_SUPPORTED, NO_PERMISSION, TIMEOUT, LOST = 3, 4, 10, 15

Install = Callable[..., FakeNvml]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    def put(*gpus: FakeGpu, init_error: int = 0) -> FakeNvml:
        module = FakeNvml(*gpus, init_error=init_error)
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return module

    return put


def values(meter: NvmlMeter) -> dict[str, float]:
    names = [channel.name for channel in meter.channels]
    return dict(zip(names, meter.read(), strict=True))


def channels(meter: NvmlMeter) -> dict:
    return {channel.name: channel for channel in meter.channels}


def test_everything_a_gpu_gives_has_its_unit(install: Install) -> None:
    install(FakeGpu())
    meter = open_nvml({})
    assert values(meter) == pytest.approx(
        {
            "nvml:0:energy": 5000.0,
            "nvml:0:power": 260.0,
            "nvml:0:gpu": 97.0,
            "nvml:0:mem_controller": 41.0,
            "nvml:0:gpu_mem": 25.0,
            "nvml:0:memory_used": 10 * 2**30,
            "nvml:0:sm_clock": 1410.0,
            "nvml:0:mem_clock": 1215.0,
            "nvml:0:temperature": 61.0,
            "nvml:0:throttled": 0.0,
        }
    )
    assert {channel.device for channel in meter.channels} == {"cuda:0"}


def test_power_is_not_counted_beside_the_energy_counter(install: Install) -> None:
    install(FakeGpu())
    found = channels(open_nvml({}))
    assert found["nvml:0:energy"].counted
    assert not found["nvml:0:power"].counted
    assert found["nvml:0:energy"].covers == "gpu-board"


def test_power_is_counted_on_a_gpu_without_the_counter(install: Install) -> None:
    install(
        FakeGpu(
            name="NVIDIA GeForce GTX 1080 Ti",
            capability=(6, 1),
            instant_mw=None,
            errors={"TotalEnergyConsumption": NOT_SUPPORTED},
        )
    )
    meter = open_nvml({})
    power = channels(meter)["nvml:0:power"]
    assert power.counted
    assert "nvml:0:energy" not in channels(meter)
    assert meter.left_out["nvml:0:energy"] == "Not Supported"
    assert values(meter)["nvml:0:power"] == pytest.approx(250.0)
    assert power.note.startswith("instant power")


@pytest.mark.parametrize(
    ("capability", "instant_mw", "note"),
    [
        ((8, 6), None, "averaged over 1 s"),
        ((8, 0), None, "instant power"),
        ((7, 0), None, "instant power"),
        ((8, 9), 1000, "instant power"),
    ],
)
def test_the_note_says_whether_power_is_an_average(
    install: Install, capability: tuple[int, int], instant_mw: int | None, note: str
) -> None:
    install(FakeGpu(capability=capability, instant_mw=instant_mw))
    assert note in channels(open_nvml({}))["nvml:0:power"].note


def test_the_sensor_that_sees_a_quarter_of_the_time_says_so(install: Install) -> None:
    install(FakeGpu(capability=(9, 0)), FakeGpu("GPU-b", "2", capability=(8, 9)))
    found = channels(open_nvml({}))
    assert "quarter of the time" in found["nvml:0:energy"].note
    assert "quarter" not in found["nvml:1:energy"].note


def test_the_energy_counter_never_goes_down_after_a_reset(install: Install) -> None:
    module = install(FakeGpu(energy_mj=9_000_000))
    meter = open_nvml({})
    assert values(meter)["nvml:0:energy"] == 9000.0
    module.gpus[0].energy_mj = 2_000
    assert math.isnan(values(meter)["nvml:0:energy"])
    module.gpus[0].energy_mj = 3_500
    assert values(meter)["nvml:0:energy"] == pytest.approx(9001.5)


def test_a_counter_joins_two_runs_without_a_jump() -> None:
    counter = GrowingCounter(1.0)
    assert [counter.joules(c) for c in (5, 9)] == [5, 9]
    assert math.isnan(counter.joules(1))
    assert [counter.joules(c) for c in (1, 4)] == [9, 12]


@pytest.mark.parametrize(
    ("reasons", "throttled"), [(0x1, 0.0), (0x4, 100.0), (0x40 | 0x1, 100.0), (0x2, 0)]
)
def test_throttling_is_heat_or_power_only(
    install: Install, reasons: int, throttled: float
) -> None:
    install(FakeGpu(reasons=reasons))
    assert values(open_nvml({}))["nvml:0:throttled"] == throttled


def test_an_older_driver_is_asked_in_the_older_way(install: Install) -> None:
    old = {"TemperatureV": 13, "CurrentClocksEventReasons": 13, "FieldValues": 13}
    install(FakeGpu(errors=old, reasons=0x8))
    found = values(open_nvml({}))
    assert found["nvml:0:temperature"] == 61
    assert found["nvml:0:throttled"] == 100
    assert found["nvml:0:power"] == 250


def test_a_binding_without_a_constant_is_no_error(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(FakeNvml, "NVML_FI_DEV_POWER_INSTANT")
    install(FakeGpu())
    assert values(open_nvml({}))["nvml:0:power"] == 250


def test_what_is_not_supported_is_left_out_with_the_reason(install: Install) -> None:
    refused = {"UtilizationRates": NOT_SUPPORTED, "MemoryInfo": NO_PERMISSION}
    install(FakeGpu(errors=refused))
    meter = open_nvml({})
    names = set(channels(meter))
    assert not names & {"nvml:0:gpu", "nvml:0:mem_controller", "nvml:0:gpu_mem"}
    assert meter.left_out["nvml:0:gpu"] == "Not Supported"
    assert meter.left_out["nvml:0:gpu_mem"] == "Insufficient Permissions"
    assert "no nvml:0:gpu: Not Supported" in probe({}).detail


def test_a_query_that_fails_now_and_then_leaves_one_gap(install: Install) -> None:
    module = install(FakeGpu())
    meter = open_nvml({})
    module.gpus[0].errors["TotalEnergyConsumption"] = TIMEOUT
    found = values(meter)
    assert math.isnan(found["nvml:0:energy"])
    assert found["nvml:0:power"] == 260
    module.gpus[0].errors.clear()
    assert values(meter)["nvml:0:energy"] == 5000


def test_one_lost_gpu_does_not_take_the_other_with_it(install: Install) -> None:
    module = install(FakeGpu(), FakeGpu("GPU-b", "00000000:02:00.0"))
    meter = open_nvml({})
    module.gpus[0].every_error = LOST
    for _ in range(2):
        found = values(meter)
        assert all(math.isnan(v) for k, v in found.items() if k.startswith("nvml:0"))
        assert found["nvml:1:energy"] == 5000
    module.gpus[1].every_error = LOST
    with pytest.raises(SensorLostError, match="nvml:1:energy: GPU is lost"):
        meter.read()


def test_the_library_is_started_once_and_ended_once(install: Install) -> None:
    module = install(FakeGpu())
    meter = open_nvml({})
    meter.read()
    assert (module.inits, module.initialised) == (1, 1)
    meter.close()
    meter.close()
    assert module.initialised == 0
    with pytest.raises(SensorLostError):
        meter.read()


@pytest.mark.parametrize(
    ("code", "detail", "remedy"),
    [
        (12, "libnvidia-ml.so.1", "--gpus all"),
        (9, "not loaded", "modprobe nvidia"),
        (4, "may not use", "/dev/nvidiactl"),
        (18, "was updated", "reboot"),
        (999, "Unknown Error", ""),
    ],
)
def test_a_driver_that_does_not_answer_is_explained(
    install: Install, code: int, detail: str, remedy: str
) -> None:
    install(init_error=code)
    with pytest.raises(MeterError) as caught:
        open_nvml({})
    assert detail in str(caught.value)
    assert remedy in str(caught.value)
    finding = probe({})
    assert not finding.works
    assert detail in finding.detail
    assert remedy in finding.remedy


def test_a_gpu_out_of_reach_is_left_out_with_the_reason(install: Install) -> None:
    module = install(FakeGpu(every_error=NO_PERMISSION), FakeGpu("GPU-b", "2"))
    meter = open_nvml({})
    read = [channel for channel in meter.channels if not channel.missing]
    assert {channel.name[:6] for channel in read} == {"nvml:1"}
    assert {channel.device for channel in read} == {"cuda:0"}
    (missing,) = [channel for channel in meter.channels if channel.missing]
    assert (missing.name, missing.missing) == (
        "nvml:0:energy",
        "Insufficient Permissions",
    )
    assert math.isnan(values(meter)["nvml:0:energy"])
    hidden = open_nvml({"CUDA_VISIBLE_DEVICES": "0"})
    assert not any(channel.missing for channel in hidden.channels)
    assert meter.left_out["nvml:0"] == "Insufficient Permissions"
    module.gpus[1].every_error = NO_PERMISSION
    assert "/dev/nvidiactl" in probe({}).remedy


def test_a_gpu_without_a_place_on_the_bus_is_read(install: Install) -> None:
    install(FakeGpu(errors={"PciInfo": NOT_SUPPORTED}))
    assert values(open_nvml({}))["nvml:0:energy"] == 5000


def test_no_gpu_and_no_sensor_are_errors_that_end_the_library(install: Install) -> None:
    module = install()
    with pytest.raises(MeterError, match="no NVIDIA GPU"):
        open_nvml({})
    assert module.initialised == 0
    refused = {"TotalEnergyConsumption": 3, "PowerUsage": 3, "FieldValues": 3}
    install(FakeGpu(errors=refused))
    with pytest.raises(MeterError, match=r"energy or power.*Not Supported"):
        open_nvml({})


def test_the_real_library_is_missed_in_words_where_there_is_no_driver() -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    finding = probe({})
    assert finding.works or finding.detail


def test_a_missing_extra_names_its_install_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(MissingExtraError, match=r"irene-energy\[nvidia\]"):
        open_nvml({})
    assert "irene-energy[nvidia]" in probe({}).remedy


def test_probe_says_what_is_there(install: Install) -> None:
    module = install(FakeGpu(), FakeGpu("GPU-b", "00000000:02:00.0"))
    finding = probe({"CUDA_VISIBLE_DEVICES": "1"})
    assert finding.works
    assert "1 GPU(s) with an energy counter" in finding.detail
    assert "no nvml:0: hidden by CUDA_VISIBLE_DEVICES='1'" in finding.detail
    assert {channel.device for channel in finding.channels} == {"cuda:0"}
    assert all(channel.name.startswith("nvml:1:") for channel in finding.channels)
    assert module.initialised == 0


def test_probe_survives_what_a_library_may_do(install: Install) -> None:
    module = install(FakeGpu(energy_mj=None))  # type: ignore[arg-type]
    assert "TypeError" in probe({}).detail
    assert module.initialised == 0


def test_hidden_gpus_are_an_error_when_none_is_left(install: Install) -> None:
    install(FakeGpu())
    with pytest.raises(MeterError, match="hides all 1 NVIDIA GPUs"):
        open_nvml({"CUDA_VISIBLE_DEVICES": ""})


def test_a_mig_instance_leads_to_its_board_and_says_so(install: Install) -> None:
    install(
        FakeGpu("GPU-a", "1"),
        FakeGpu("GPU-b", "2", mig=True, instances=("MIG-x", "MIG-y")),
    )
    meter = open_nvml({"CUDA_VISIBLE_DEVICES": "MIG-y"})
    energy = channels(meter)["nvml:1:energy"]
    assert energy.device == "cuda:0"
    assert "whole board" in energy.note
    assert all(channel.name.startswith("nvml:1") for channel in meter.channels)


EQUAL = (
    Gpu(0, "GPU-a1", "01", "A100"),
    Gpu(1, "GPU-a2", "02", "A100"),
    Gpu(2, "GPU-b3", "03", "A100"),
)
MIXED = (Gpu(0, "GPU-a", "01", "T400"), Gpu(1, "GPU-b", "02", "A100"))


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("GPU-b3,GPU-a1", [2, 0]),
        ("GPU-b,0", [2, 0]),
        ("GPU-a", []),  # two GPUs begin so
        ("1,9,0", [1]),  # nothing counts after one that is not there
        ("0,-1,2", [0]),
        ("1,1", []),
        ("0,GPU-a1", []),
        ("", []),
        (" 1 , 2", [1, 2]),
        ("NoDevFiles", []),
    ],
)
def test_visible_devices_are_those_cuda_would_show(
    wanted: str | None, indices: list[int]
) -> None:
    environment = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    seen = visible_gpus(EQUAL, environment, lambda _: None)
    assert [one.gpu.index for one in seen] == indices
    assert [one.device for one in seen] == [f"cuda:{n}" for n in range(len(indices))]
    assert all(not one.note for one in seen)


def test_numbers_of_unequal_gpus_are_a_guess_unless_the_order_is_fixed() -> None:
    assert "guess" in visible_gpus(MIXED, {}, lambda _: None)[0].note
    fixed = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert not visible_gpus(MIXED, fixed, lambda _: None)[0].note
    named = {"CUDA_VISIBLE_DEVICES": "GPU-b"}
    assert not visible_gpus(MIXED, named, lambda _: None)[0].note


def test_instances_of_one_board_are_one_sensor() -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"}
    (seen,) = visible_gpus(EQUAL, environment, lambda _: "GPU-a2")
    assert (seen.gpu.index, seen.device) == (1, "cuda:0")


def test_the_fake_has_the_signatures_of_the_real_module() -> None:
    real = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    fake = FakeNvml()
    names = [name for name in dir(FakeNvml) if name.startswith("nvml")]
    assert len(names) > 15
    for name in names:
        mine = inspect.signature(getattr(fake, name)).parameters.values()
        theirs = inspect.signature(getattr(real, name)).parameters.values()
        assert [(p.name, p.default) for p in mine] == [
            (p.name, p.default) for p in theirs
        ], name
    for name in (n for n in dir(FakeNvml) if n.startswith("NVML_")):
        assert getattr(fake, name) == getattr(real, name), name
    for code, (name, _) in ERRORS.items():
        assert type(real.NVMLError(code)).__name__ == f"NVMLError_{name}"
        assert type(fake.NVMLError(code)).__name__ == f"NVMLError_{name}"


@pytest.mark.parametrize("module", ["gpu.nvml", "wall.serial_line", "gpu.zeus_devices"])
def test_live_meters_import_neither_numpy_nor_torch(module: str) -> None:
    program = (
        f"import irene.meters.{module}, json, sys; print(json.dumps([*sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = json.loads(done.stdout)
    assert [n for n in ("numpy", "torch", "pynvml", "serial") if n in loaded] == []


class FakeLibrary:
    """`libnvidia-ml.so.1` below the real binding: results go where pointers point."""

    def nvmlInitWithFlags(self, flags: int) -> int:  # noqa: N802
        return 0

    def nvmlShutdown(self) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        count._obj.value = 1
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetUUID(self, device: Any, text: Any, size: Any) -> int:  # noqa: N802
        text.value = b"GPU-1"
        return 0

    def nvmlDeviceGetName(self, device: Any, text: Any, size: Any) -> int:  # noqa: N802
        text.value = b"NVIDIA L4"
        return 0

    def nvmlDeviceGetPciInfo_v3(self, device: Any, info: Any) -> int:  # noqa: N802
        info._obj.busId = b"00000000:01:00.0"
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, device: Any, mj: Any) -> int:  # noqa: N802
        mj._obj.value = 12_345
        return 0

    def nvmlDeviceGetFieldValues(self, device: Any, count: Any, values: Any) -> int:  # noqa: N802
        (value,) = values._obj
        value.nvmlReturn = 0 if value.fieldId == 186 else 3
        value.valueType, value.value.uiVal = 1, 71_500
        return 0

    def nvmlDeviceGetMemoryInfo(self, device: Any, memory: Any) -> int:  # noqa: N802
        memory._obj.used, memory._obj.total = 1, 4
        return 0


def test_the_real_binding_is_called_as_it_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    monkeypatch.setattr(real, "nvmlLib", FakeLibrary())
    monkeypatch.setattr(real, "_nvmlGetFunctionPointer_cache", {})
    meter = open_nvml({})
    assert values(meter) == pytest.approx(
        {
            "nvml:0:energy": 12.345,
            "nvml:0:power": 71.5,
            "nvml:0:gpu_mem": 25.0,
            "nvml:0:memory_used": 1.0,
        }
    )
    assert meter.left_out["nvml:0:temperature"] == "Function Not Found"
    meter.close()
