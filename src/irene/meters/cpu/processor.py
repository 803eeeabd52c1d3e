"""The processor of this machine, as `/proc/cpuinfo` and sysfs tell it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from irene.meters.cpu.cpu_load import proc_root
from irene.meters.cpu.zones import sysfs_root

__all__ = ["Processor", "read_processor"]

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


@dataclass(frozen=True, slots=True)
class Processor:
    """The CPUs of a machine.

    Attributes:
        name: As the system calls it, "" if it does not.
        vendor: `Intel`, `AMD`, `ARM`, or as the system says.
        cores: Physical cores that the system tells of, in all sockets.
        threads: Logical CPUs.
        sockets: Processors.
        max_mhz: Highest clock; None if not told.
        virtual: Whether this is a virtual machine, which sees a part of the processor.
    """

    name: str
    vendor: str
    cores: int
    threads: int
    sockets: int = 1
    max_mhz: float | None = None
    virtual: bool = False


def read_processor(
    root: Path | str | None = None, sysfs: Path | str | None = None
) -> Processor:
    """Look at this machine; what it does not tell is 1, "" or None.

    Args:
        root: Where procfs is; else `IRENE_PROC_ROOT` or `/proc`.
        sysfs: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.
    """
    folder = sysfs_root(sysfs)
    cpus = list(_cpus(proc_root(root) / "cpuinfo"))
    first = cpus[0] if cpus else {}
    places = {(c.get("physical id", "0"), c.get("core id", "")) for c in cpus}
    told = all("core id" in cpu for cpu in cpus)
    return Processor(
        name=first.get("model name", "") or _arm_name(first),
        vendor=_vendor(first),
        cores=max(1, len(places) if told else len(cpus)),
        threads=max(1, len(cpus)),
        sockets=max(1, len({place[0] for place in places})),
        max_mhz=_max_mhz(folder),
        virtual=_is_virtual(first, folder),
    )


def _cpus(path: Path) -> Iterator[dict[str, str]]:
    """The fields of every logical CPU."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for block in text.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        fields = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" in fields:
            yield fields


def _arm_name(cpu: dict[str, str]) -> str:
    return ARM_PARTS.get((cpu.get("CPU implementer", ""), cpu.get("CPU part", "")), "")


def _vendor(cpu: dict[str, str]) -> str:
    if "CPU implementer" in cpu:
        return "ARM"
    said = cpu.get("vendor_id", "")
    return VENDORS.get(said, said)


def _max_mhz(sysfs: Path) -> float | None:
    path = sysfs / "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"
    text = _line(path)
    return int(text) / 1000.0 if text.isdigit() else None


def _is_virtual(cpu: dict[str, str], sysfs: Path) -> bool:
    """The CPU says so on x86; elsewhere the maker of the board has to."""
    if "hypervisor" in cpu.get("flags", "").split():
        return True
    board = sysfs / "class" / "dmi" / "id"
    if "metal" in _line(board / "product_name").lower():
        return False
    return _line(board / "sys_vendor").lower().startswith(VIRTUAL_VENDORS)


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
