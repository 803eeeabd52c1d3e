"""NVIDIA GPUs through NVML: energy, power, utilisation, memory, clocks, temperature.

Names carry the number that `nvidia-smi` shows (`nvml:0:energy`), devices the one that
torch uses (`cuda:0`); `visible_gpus` says how one leads to the other. GPUs that
`CUDA_VISIBLE_DEVICES` hides from the program are left out: they work for somebody else.
With MIG, energy is that of the whole board; an instance has no sensor.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from irene.errors import MeterError, library
from irene.meters.channel import NO_VALUE, Channel, Sensor, SensorLostError, SensorMeter
from irene.meters.gpu.nvml_queries import Gpu, GpuQueries, VisibleGpu, visible_gpus

INSTALL = "pip install 'irene-energy[nvidia]'"
REMEDIES = {
    "NVMLError_LibraryNotFound": (
        "there is no libnvidia-ml.so.1, the driver's library",
        "install the NVIDIA driver, or start the container with --gpus all",
    ),
    "NVMLError_DriverNotLoaded": (
        "the NVIDIA driver is not loaded",
        "sudo modprobe nvidia, or reboot after installing it",
    ),
    "NVMLError_NoPermission": (
        "this user may not use the GPUs",
        "check who may read and write /dev/nvidiactl and /dev/nvidia0 (group video?)",
    ),
    "NVMLError_LibRmVersionMismatch": (
        "the driver was updated, and the old one is still loaded",
        "reboot, or unload and load the nvidia modules",
    ),
    "NVMLError_OperatingSystem": (
        "the operating system does not let us at the GPUs",
        "in a container or a job, ask for a GPU (--gpus all, --gres=gpu:1)",
    ),
}
BOARD = "gpu-board"
LOST = ("GpuIsLost", "ResetRequired", "Uninitialized", "DriverNotLoaded")


class NvmlMeter(SensorMeter):
    """All visible NVIDIA GPUs, each one sensor; what is left out, and why."""

    def __init__(self, nvml: Any, environment: Mapping[str, str]) -> None:
        self._nvml = nvml
        self._lost_errors = tuple(getattr(nvml, f"NVMLError_{name}") for name in LOST)
        self.cost_s: dict[str, float] = {}
        self._wanted = environment.get("CUDA_VISIBLE_DEVICES")
        self._gpus, self._unreachable = _reachable(nvml)
        self.left_out = dict(self._unreachable)
        self._visible = visible_gpus(self._gpus, environment, self._board_of)
        sensors = [s for seen in self._visible if (s := self._sensor(seen)) is not None]
        channels = [channel for sensor in sensors for channel in sensor.channels]
        self._explain_hidden(channels)
        missing = self._missing(channels)
        let_go = partial(_shut_down, nvml)
        super().__init__("nvml", sensors, missing, let_go=let_go)

    def _sensor(self, seen: VisibleGpu) -> Sensor | None:
        """Everything that a GPU answers; None if that is nothing."""
        handle = self._nvml.nvmlDeviceGetHandleByIndex(seen.gpu.index)
        answers = GpuQueries(self._nvml, handle, seen)
        self.left_out |= answers.left_out
        self.cost_s |= answers.cost_s
        channels = tuple(c for query in answers.queries for c in query.channels)
        return Sensor(channels, partial(self._ask, answers)) if channels else None

    def _ask(self, answers: GpuQueries) -> list[float]:
        values: list[float] = []
        for query in answers.queries:
            try:
                values += query.ask()
            except self._lost_errors as error:
                raise SensorLostError(str(error)) from error
            except self._nvml.NVMLError:  # a busy driver may have no answer just now
                values += [NO_VALUE] * len(query.channels)
        return values

    def _missing(self, channels: Sequence[Channel]) -> list[Channel]:
        """What belongs in the total and tells no energy."""
        told = {c.name.rpartition(":")[0] for c in channels if c.in_total}
        silent = [f"nvml:{seen.gpu.index}" for seen in self._visible]
        reasons = {
            name: self.left_out.get(f"{name}:energy", "no energy, no power")
            for name in silent
            if name not in told
        }
        if self._wanted is None or len(self._visible) < len(self._wanted.split(",")):
            reasons |= self._unreachable
        return [
            Channel(f"{name}:energy", "energy_j", BOARD, counted=False, missing=reason)
            for name, reason in reasons.items()
        ]

    def _explain_hidden(self, channels: Sequence[Channel]) -> None:
        shown = {seen.gpu.index for seen in self._visible}
        reason = f"CUDA_VISIBLE_DEVICES={self._wanted!r}"
        hidden = [gpu for gpu in self._gpus if gpu.index not in shown]
        self.left_out |= {f"nvml:{gpu.index}": f"hidden by {reason}" for gpu in hidden}
        if not self._gpus:
            raise MeterError("NVML answers, but there is no NVIDIA GPU")
        if not self._visible:
            raise MeterError(
                f"{reason} hides all {len(self._gpus)} NVIDIA GPUs",
                "unset it, or name a GPU that is there",
            )
        if not any(channel.is_energy for channel in channels):
            reasons = "; ".join(f"{k}: {v}" for k, v in self.left_out.items())
            raise MeterError(f"no NVIDIA GPU tells its energy or power ({reasons})")

    @property
    def summary(self) -> str:
        """Its GPUs, how long a reading takes, and what is left out, in words."""
        energies = [c for c in self.channels if c.is_energy and c.counted]
        parts = [f"{len(energies)} GPU(s) with {_sensors(energies)}"]
        parts.append(f"one reading takes {sum(self.cost_s.values()) * 1e3:.2f} ms")
        parts += sorted({c.note for c in energies if c.note})
        parts += [f"no {name}: {reason}" for name, reason in self.left_out.items()]
        return "; ".join(parts)

    def _board_of(self, instance: str) -> str | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(instance)
            board = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            return str(nvml.nvmlDeviceGetUUID(board))
        except nvml.NVMLError:
            return None


def open_nvml(environment: Mapping[str, str] | None = None) -> NvmlMeter:
    """Open the NVIDIA GPUs that the program may use."""
    nvml = library("pynvml", f"NVIDIA GPUs are read with nvidia-ml-py: {INSTALL}")
    try:
        nvml.nvmlInit()
        with contextlib.ExitStack() as after:
            after.callback(_shut_down, nvml)
            meter = NvmlMeter(nvml, os.environ if environment is None else environment)
            after.pop_all()  # from here on it is the meter that shuts down
    except nvml.NVMLError as error:
        detail, remedy = REMEDIES.get(type(error).__name__, (f"NVML: {error}", ""))
        raise MeterError(detail, remedy) from error
    return meter


def _shut_down(nvml: Any) -> None:
    """Let go of the library, whatever state it is in."""
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


def _reachable(nvml: Any) -> tuple[tuple[Gpu, ...], dict[str, str]]:
    """GPUs that can be reached, and why others cannot, in words.

    CUDA does not see those others either: they do not count in its numbers.
    """
    found: list[Gpu] = []
    unreachable: dict[str, str] = {}
    problem: Exception | None = None
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid, model = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        except nvml.NVMLError as error:
            problem = problem or error
            unreachable[f"nvml:{index}"] = str(error)
            continue
        found.append(Gpu(index, str(uuid), _bus_id(nvml, handle), str(model)))
    if problem and not found:
        raise problem
    return tuple(found), unreachable


def _bus_id(nvml: Any, handle: Any) -> str:
    try:
        place = nvml.nvmlDeviceGetPciInfo(handle).busId
    except nvml.NVMLError:
        return ""  # a GPU that is part of the chip; NVML's own order has to do
    return place.decode() if isinstance(place, bytes) else str(place)


def _sensors(energies: list[Channel]) -> str:
    kinds = {channel.quantity for channel in energies}
    words = {"energy_j": "an energy counter", "power_w": "power only"}
    return " or ".join(text for kind, text in words.items() if kind in kinds)
