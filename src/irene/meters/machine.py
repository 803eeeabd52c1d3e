"""What this machine is: its processor, and all of it in words."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from irene.meters.cpu.kernel_files import Roots, number_in, text_in

ARM_PARTS = {
    ("0x41", "0xd0c"): "Neoverse N1",
    ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd49"): "Neoverse N2",
    ("0x41", "0xd4f"): "Neoverse V2",
    ("0xc0", "0xac3"): "Ampere-1",
}
"""Server cores by implementer and part: Linux, arch/arm64/include/asm/cputype.h."""
VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "HygonGenuine": "Hygon"}
VIRTUAL_VENDORS = ("qemu", "kvm", "vmware", "xen", "google", "amazon ec2", "innotek")
KIB_PER_GIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Processor:
    """The CPUs of a machine, in all sockets; a virtual one sees a part of them."""

    name: str
    vendor: str
    cores: int
    threads: int
    sockets: int = 1
    max_mhz: float | None = None
    virtual: bool = False


def read_processor(roots: Roots) -> Processor:
    """What `/proc/cpuinfo` and sysfs tell of a machine; the rest is left out."""
    cpus = list(_cpus(text_in(roots.proc / "cpuinfo")))
    first = cpus[0] if cpus else {}
    places = {(c.get("physical id", "0"), c.get("core id", "")) for c in cpus}
    told = all("core id" in cpu for cpu in cpus)
    part = (first.get("CPU implementer", ""), first.get("CPU part", ""))
    max_khz = number_in(roots.cpus / "cpu0/cpufreq/cpuinfo_max_freq")
    return Processor(
        name=first.get("model name", "") or ARM_PARTS.get(part, ""),
        vendor=_vendor(first),
        cores=max(1, len(places) if told else len(cpus)),
        threads=max(1, len(cpus)),
        sockets=max(1, len({place[0] for place in places})),
        max_mhz=max_khz / 1000.0 if max_khz else None,
        virtual=_is_virtual(first, roots.sysfs / "class" / "dmi" / "id"),
    )


def _cpus(text: str) -> Iterator[dict[str, str]]:
    """The fields of every logical CPU."""
    for block in text.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        fields = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" in fields:
            yield fields


def _vendor(cpu: dict[str, str]) -> str:
    if "CPU implementer" in cpu:
        return "ARM"
    said = cpu.get("vendor_id", "")
    return VENDORS.get(said, said)


def _is_virtual(cpu: dict[str, str], board: Path) -> bool:
    """The CPU says so on x86; elsewhere the maker of the board has to."""
    if "hypervisor" in cpu.get("flags", "").split():
        return True
    if "metal" in text_in(board / "product_name").lower():
        return False
    return text_in(board / "sys_vendor").lower().startswith(VIRTUAL_VENDORS)


def describe_machine(roots: Roots | None = None) -> dict[str, str]:
    """What a reader of a measurement wants to know of the machine.

    Returns:
        `cpu`, `cores`, `cpus`, `memory`, `kernel`, `virtual`, and where the system
        tells them `sockets`, `governor`, `turbo`, `max_clock`, `gpu` and `gpu_driver`.
    """
    roots = roots or Roots()
    processor = read_processor(roots)
    optional = {
        "memory": _memory(text_in(roots.proc / "meminfo")),
        "governor": text_in(roots.cpus / "cpu0" / "cpufreq" / "scaling_governor"),
        "turbo": _turbo(roots.cpus),
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


def machine_words(machine: Mapping[str, str], *more: str) -> str:
    """Processor, cores, memory and GPU of `describe_machine`, in one line."""
    cores = f"{machine['cores']} cores" if "cores" in machine else ""
    parts = (
        machine.get("cpu"),
        cores,
        machine.get("memory"),
        *more,
        machine.get("gpu"),
    )
    return ", ".join(filter(None, parts))


def _memory(meminfo: str) -> str:
    try:
        return f"{int(meminfo.split()[1]) / KIB_PER_GIB:.1f} GiB"
    except (ValueError, IndexError):
        return ""


def _turbo(cpus: Path) -> str:
    """`on` or `off`; intel_pstate says it the other way round."""
    never = text_in(cpus / "intel_pstate" / "no_turbo")
    said = {"0": "on", "1": "off"}.get(never, "")
    boost = text_in(cpus / "cpufreq" / "boost")
    return said or {"1": "on", "0": "off"}.get(boost, "")


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
