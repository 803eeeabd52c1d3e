"""What the name and the labels of a metric say: unit, device, and what it covers.

Names carry their unit by convention (`…_watts`, `…_joules_total`): Kepler, Scaphandre,
node_exporter and most others keep to it. NVIDIA's DCGM exporter has names of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CPU = "cpu-package"
GPU = "gpu-board"
DCGM = {
    "DCGM_FI_DEV_POWER_USAGE": ("W", 1.0),
    "DCGM_FI_DEV_POWER_USAGE_INSTANT": ("W", 1.0),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("J", 1e-3),
}
"""Field identifiers of DCGM, their unit and what one of it is, W or J."""
UNIT = re.compile(r"_(micro|milli|kilo)?(watt|joule)s?(?:_total)?$")
SIZES = {None: 1.0, "micro": 1e-6, "milli": 1e-3, "kilo": 1e3}
PARTS = re.compile(r"(?:^|_)(container|pod|process|vm)(?:_|$)")
"""Shares of a machine that somebody has worked out: the machine holds them."""
INSIDE = ("core", "uncore", "psys", "pp0", "pp1")
WITHIN = re.compile(r"_(core|uncore|other)_")
"""In the names of Kepler before 0.10: parts of a package, or of a platform."""
SHOWN = ("gpu", "UUID", "zone", "mode", "socket_id", "index", "instance", "Hostname")


@dataclass(frozen=True, slots=True)
class Metric:
    """A series of power or energy of a machine or a device, in units of `size` W or J.

    Its name has the labels that tell it from its siblings.
    """

    name: str
    is_counter: bool
    size: float
    device: str
    covers: str

    @property
    def place(self) -> tuple[str, str, str]:
        """The same for power and energy of one thing."""
        return self.device, self.covers, self.name.partition(" ")[2]


def metric_of(labels: Mapping[str, str]) -> Metric | None:
    """What a series is, if it is power or energy of a machine or a device.

    Its name is the label `__name__`; a series without one is taken as W.
    """
    name = labels.get("__name__", "")
    if name.removesuffix("_total") in DCGM:
        name = name.removesuffix("_total")  # Prometheus' own parser adds it to counters
    unit = UNIT.search(name)
    is_part = PARTS.search(name) or WITHIN.search(name)
    if name and name not in DCGM and (not unit or is_part):
        return None
    zone = labels.get("zone", "")
    if zone in INSIDE or zone.rpartition("-")[0] in INSIDE:
        return None
    kind, size = DCGM.get(name, ("W", 1.0))
    if unit:
        kind, size = ("J" if unit[2] == "joule" else "W"), SIZES[unit[1]]
    shown = " ".join(f"{k}={v}" for k, v in labels.items() if k in SHOWN)
    return Metric(f"{name} {shown}".strip(), kind == "J", size, *_place(name, labels))


def _place(name: str, labels: Mapping[str, str]) -> tuple[str, str]:
    gpu = labels.get("gpu", labels.get("minor_number", ""))
    if gpu or "gpu" in name.lower() or name in DCGM:
        return gpu_device(gpu), GPU
    zone = f"{name} {labels.get('zone', '')}"
    if "dram" in zone:
        return "cpu", "dram"
    if "package" in zone or "_cpu_" in name or "socket" in name:
        return "cpu", CPU
    return "", ""


def counted_once(metrics: Sequence[Metric]) -> set[Metric]:
    """Each joule once: hosts hold all; energy counts before power of the same place."""
    hosts = [m for m in metrics if not m.device and not m.covers]
    if hosts:
        best = min(hosts, key=lambda m: not m.is_counter).name.partition(" ")[0]
        return {m for m in hosts if m.name.partition(" ")[0] == best}
    energies = {m.place for m in metrics if m.is_counter}
    return {m for m in metrics if m.is_counter or m.place not in energies}


def gpu_device(word: str) -> str:
    """`0`, `nvidia0` and `GPU 0` are `cuda:0`; anything else is itself."""
    digits = word.strip().lower().removeprefix("nvidia").removeprefix("gpu").strip()
    return f"cuda:{digits}" if digits.isdigit() else word.strip()
