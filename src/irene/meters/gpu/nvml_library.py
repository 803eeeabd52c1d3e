"""The NVML library: loading it, its errors in words, and the GPUs it lets us reach."""

from __future__ import annotations

import contextlib
from importlib import import_module
from typing import Any

from irene.errors import MeterError, MissingExtraError
from irene.meters.gpu.cuda_visible import Gpu

__all__ = ["INSTALL", "load_library", "reachable_gpus", "shut_down", "trouble"]

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


def load_library() -> Any:
    """The module `pynvml`.

    Raises:
        MissingExtraError: nvidia-ml-py is not installed.
    """
    try:
        return import_module("pynvml")
    except ImportError as error:
        raise MissingExtraError(
            f"NVIDIA GPUs are read with nvidia-ml-py: {INSTALL}"
        ) from error


def trouble(error: Exception) -> MeterError:
    """An error of the library in words, with what would help."""
    detail, remedy = REMEDIES.get(type(error).__name__, (f"NVML: {error}", ""))
    return MeterError(detail, remedy)


def shut_down(nvml: Any) -> None:
    """Let go of the library, whatever state it is in."""
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


def reachable_gpus(nvml: Any) -> tuple[tuple[Gpu, ...], dict[str, Exception]]:
    """GPUs that can be reached, and why others cannot.

    CUDA does not see those others either: they do not count in its numbers.

    Args:
        nvml: The module `pynvml`, initialised.
    """
    found: list[Gpu] = []
    unreachable: dict[str, Exception] = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid, model = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        except nvml.NVMLError as error:
            unreachable[f"nvml:{index}"] = error
            continue
        found.append(Gpu(index, str(uuid), _bus_id(nvml, handle), str(model)))
    if unreachable and not found:
        raise next(iter(unreachable.values()))
    return tuple(found), unreachable


def _bus_id(nvml: Any, handle: Any) -> str:
    try:
        place = nvml.nvmlDeviceGetPciInfo(handle).busId
    except nvml.NVMLError:
        return ""  # a GPU that is part of the chip; NVML's own order has to do
    return place.decode() if isinstance(place, bytes) else str(place)
