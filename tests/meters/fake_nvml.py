"""A stand-in for the module `pynvml` of nvidia-ml-py, with GPUs that do as told.

A test compares the signatures with the real module's, where that is installed.
"""

# ruff: noqa: N802, N803, A002  the names are the real module's
from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

ERRORS = {
    1: ("Uninitialized", "Uninitialized"),
    3: ("NotSupported", "Not Supported"),
    4: ("NoPermission", "Insufficient Permissions"),
    6: ("NotFound", "Not Found"),
    9: ("DriverNotLoaded", "Driver Not Loaded"),
    10: ("Timeout", "Timeout"),
    12: ("LibraryNotFound", "NVML Shared Library Not Found"),
    13: ("FunctionNotFound", "Function Not Found"),
    15: ("GpuIsLost", "GPU is lost"),
    16: ("ResetRequired", "GPU requires restart"),
    18: ("LibRmVersionMismatch", "RM has detected an NVML/RM version mismatch."),
    17: ("OperatingSystem", "The operating system has blocked the request."),
    999: ("Unknown", "Unknown Error"),
}


class NVMLError(Exception):
    """As there, the number makes the class."""

    classes: ClassVar[dict[int, type[NVMLError]]] = {}
    value: int

    def __new__(cls, value: int) -> NVMLError:
        error = Exception.__new__(NVMLError.classes.get(value, cls))
        error.value = value
        return error

    def __str__(self) -> str:
        return ERRORS.get(self.value, ("", f"NVML Error with code {self.value}"))[1]


for _code, (_name, _) in ERRORS.items():
    NVMLError.classes[_code] = type(f"NVMLError_{_name}", (NVMLError,), {})


@dataclass
class FakeGpu:
    """One GPU; `errors` says which functions fail, and with which number."""

    uuid: str = "GPU-aaaa"
    bus_id: str = "00000000:01:00.0"
    name: str = "NVIDIA A100-SXM4-40GB"
    capability: tuple[int, int] = (8, 0)
    energy_mj: int = 5_000_000
    power_mw: int = 250_000
    instant_mw: int | None = 260_000
    gpu_percent: int = 97
    memory_percent: int = 41
    memory_used: int = 10 * 2**30
    memory_total: int = 40 * 2**30
    clocks: dict[int, int] = field(default_factory=lambda: {1: 1410, 2: 1215})
    temperature: int = 61
    reasons: int = 0
    mig: bool = False
    instances: tuple[str, ...] = ()
    errors: dict[str, int] = field(default_factory=dict)
    every_error: int = 0


class FakeNvml:
    """The module: functions are methods, constants are attributes."""

    NVMLError = NVMLError
    NVML_SUCCESS = 0
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0
    NVML_FI_DEV_POWER_INSTANT = 186

    def __init__(self, *gpus: FakeGpu, init_error: int = 0) -> None:
        self.gpus = list(gpus)
        self.init_error = init_error
        self.initialised = 0
        self.inits = 0

    def __getattr__(self, name: str) -> Any:
        for error in NVMLError.classes.values():
            if error.__name__ == name:
                return error
        raise AttributeError(name)

    def _asked(self, handle: FakeGpu, function: str) -> FakeGpu:
        if not self.initialised:
            raise NVMLError(1)
        code = handle.every_error or handle.errors.get(function, 0)
        if code:
            raise NVMLError(code)
        return handle

    def nvmlInit(self) -> None:
        if self.init_error:
            raise NVMLError(self.init_error)
        self.initialised += 1
        self.inits += 1

    def nvmlShutdown(self) -> None:
        if not self.initialised:
            raise NVMLError(1)
        self.initialised -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self._asked(self.gpus[index], "HandleByIndex")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return gpu
            if uuid in gpu.instances:
                return SimpleNamespace(board=gpu)
        raise NVMLError(6)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, migDevice: Any) -> FakeGpu:
        return migDevice.board

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:
        return self._asked(handle, "UUID").uuid

    def nvmlDeviceGetName(self, handle: FakeGpu) -> str:
        return self._asked(handle, "Name").name

    def nvmlDeviceGetPciInfo(self, handle: FakeGpu) -> Any:
        return SimpleNamespace(busId=self._asked(handle, "PciInfo").bus_id.encode())

    def nvmlDeviceGetCudaComputeCapability(self, handle: FakeGpu) -> tuple[int, int]:
        return self._asked(handle, "CudaComputeCapability").capability

    def nvmlDeviceGetMigMode(self, device: FakeGpu) -> list[int]:
        mig = self._asked(device, "MigMode").mig
        return [int(mig), int(mig)]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: FakeGpu) -> int:
        return self._asked(handle, "TotalEnergyConsumption").energy_mj

    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu) -> int:
        return self._asked(handle, "PowerUsage").power_mw

    def nvmlDeviceGetFieldValues(self, handle: FakeGpu, fieldIds: list[int]) -> list:
        watts = self._asked(handle, "FieldValues").instant_mw
        value = SimpleNamespace(uiVal=watts)
        failed = 0 if watts is not None else 3
        one = SimpleNamespace(nvmlReturn=failed, valueType=1, value=value)
        return [one for _ in fieldIds]

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> Any:
        gpu = self._asked(handle, "UtilizationRates")
        return SimpleNamespace(gpu=gpu.gpu_percent, memory=gpu.memory_percent)

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu, version: Any = None) -> Any:
        gpu = self._asked(handle, "MemoryInfo")
        return SimpleNamespace(used=gpu.memory_used, total=gpu.memory_total)

    def nvmlDeviceGetClockInfo(self, handle: FakeGpu, type: int) -> int:
        return self._asked(handle, "ClockInfo").clocks[type]

    def nvmlDeviceGetTemperatureV(
        self, handle: FakeGpu, sensor: int, version: Any = 0x100000C
    ) -> int:
        return self._asked(handle, "TemperatureV").temperature

    def nvmlDeviceGetTemperature(self, handle: FakeGpu, sensor: int) -> int:
        return self._asked(handle, "Temperature").temperature

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: FakeGpu) -> int:
        return self._asked(handle, "CurrentClocksEventReasons").reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: FakeGpu) -> int:
        return self._asked(handle, "CurrentClocksThrottleReasons").reasons
