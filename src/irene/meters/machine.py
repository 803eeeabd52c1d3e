"""What this machine is, in words: kept with everything that is measured on it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from irene.meters.cpu.cpu_load import proc_root
from irene.meters.cpu.processor import read_processor
from irene.meters.cpu.zones import sysfs_root

__all__ = ["describe_machine"]

KIB_PER_GIB = 1024 * 1024


def describe_machine(
    root: Path | str | None = None, sysfs: Path | str | None = None
) -> dict[str, str]:
    """What a reader of a measurement wants to know of the machine.

    Args:
        root: Where procfs is; else `IRENE_PROC_ROOT` or `/proc`.
        sysfs: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.

    Returns:
        `cpu`, `cores`, `cpus`, `memory`, `kernel`, `virtual`, and where the system
        tells them `sockets`, `governor`, `turbo`, `max_clock`, `gpu` and `gpu_driver`.
    """
    processor = read_processor(root, sysfs)
    folder = sysfs_root(sysfs) / "devices" / "system" / "cpu"
    optional = {
        "memory": _memory(proc_root(root) / "meminfo"),
        "governor": _line(folder / "cpu0" / "cpufreq" / "scaling_governor"),
        "turbo": _turbo(folder),
        "max_clock": f"{processor.max_mhz:.0f} MHz" if processor.max_mhz else "",
        "sockets": str(processor.sockets) if processor.sockets > 1 else "",
        **_gpus(),
    }
    return {
        "cpu": processor.name or platform.processor() or platform.machine(),
        "cores": str(processor.cores),
        "cpus": str(processor.threads),
        "kernel": f"{platform.system()} {platform.release()}",
        "virtual": "yes" if processor.virtual else "no",
        **{name: text for name, text in optional.items() if text},
    }


def _memory(path: Path) -> str:
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            kib = int(file.readline().split()[1])
    except (OSError, ValueError, IndexError):
        return ""
    return f"{kib / KIB_PER_GIB:.1f} GiB"


def _turbo(folder: Path) -> str:
    """`on` or `off`; intel_pstate says it the other way round."""
    never = _line(folder / "intel_pstate" / "no_turbo")
    said = {"0": "on", "1": "off"}.get(never, "")
    boost = _line(folder / "cpufreq" / "boost")
    return said or {"1": "on", "0": "off"}.get(boost, "")


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _gpus() -> dict[str, str]:
    """NVIDIA GPUs and their driver, if the library to ask is installed."""
    try:
        nvml: Any = import_module("pynvml")
        nvml.nvmlInit()
    except (ImportError, OSError):
        return {}
    except nvml.NVMLError:
        return {}
    try:
        names = ", ".join(_names(nvml))
        return {"gpu": names, "gpu_driver": _text(nvml.nvmlSystemGetDriverVersion())}
    except nvml.NVMLError:
        return {}
    finally:
        nvml.nvmlShutdown()


def _names(nvml: Any) -> Iterator[str]:
    for index in range(nvml.nvmlDeviceGetCount()):
        yield _text(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index)))


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
