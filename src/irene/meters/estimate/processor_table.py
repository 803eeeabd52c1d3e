"""Thermal design power of common processors, and what is usual where it is unknown.

`processors.json` holds names, cores, threads and TDP as their makers publish them; each
group of rows names its source.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from irene.meters.cpu.processor import Processor

__all__ = [
    "KnownProcessor",
    "UsualPower",
    "find_known",
    "known_processors",
    "usual_power",
]

FILE = Path(__file__).with_name("processors.json")
SERVER_WORDS = ("xeon", "epyc", "neoverse", "altra", "ampere", "graviton", "opteron")
LAPTOP_ENDING = re.compile(r"(core|ryzen).*\d(u|h|hs|hq|hk|hx|y|p|g\d)\b")
NOISE = re.compile(r"\((r|tm)\)|\b(cpu|processor)\b|@.*|\b\d+-core\b|\bwith\b.*")


@dataclass(frozen=True, slots=True)
class KnownProcessor:
    """A processor as its maker specifies it.

    Attributes:
        name: Without the maker: `EPYC 7763`.
        vendor: `Intel`, `AMD`, `Ampere`.
        kind: `server`, `desktop` or `laptop`.
        cores: Physical cores.
        threads: Threads.
        tdp_w: Thermal design power, W.
    """

    name: str
    vendor: str
    kind: str
    cores: int
    threads: int
    tdp_w: float

    @property
    def tdp_w_per_core(self) -> float:
        """Thermal design power of a core with its part of the rest, W."""
        return self.tdp_w / self.cores


@dataclass(frozen=True, slots=True)
class UsualPower:
    """Thermal design power per core of a group of processors.

    Attributes:
        group: Which, in words.
        count: How many there are in the table.
        tdp_w_per_core: Geometric mean, W.
        log_deviation: Standard deviation of the logarithm.
        low_w: The smallest, W.
        high_w: The largest, W.
    """

    group: str
    count: int
    tdp_w_per_core: float
    log_deviation: float
    low_w: float
    high_w: float


@cache
def known_processors() -> tuple[KnownProcessor, ...]:
    """All processors of the table."""
    groups = json.loads(FILE.read_text(encoding="utf-8"))["groups"]
    return tuple(
        KnownProcessor(name, group["vendor"], group["class"], cores, threads, tdp_w)
        for group in groups
        for name, cores, threads, tdp_w in group["rows"]
    )


def find_known(name: str) -> KnownProcessor | None:
    """The processor of the table that a system means by its name.

    Args:
        name: As `/proc/cpuinfo` has it.
    """
    said = _words(name)
    found = [known for known in known_processors() if _names(said, known.name)]
    return max(found, key=lambda known: len(known.name), default=None)


def _words(name: str) -> str:
    return " ".join(NOISE.sub(" ", name.lower()).split())


def _names(said: str, name: str) -> bool:
    # An EPYC with a P is the same for one socket.
    single = "p?" if name.startswith("EPYC") else ""
    pattern = rf"(?<![\w-]){re.escape(_words(name))}{single}(?![\w+-])"
    return re.search(pattern, said) is not None


def usual_power(processor: Processor) -> UsualPower:
    """What is usual for processors of this kind, for one that the table does not have.

    Args:
        processor: What is known of it; a virtual machine is taken for a server.
    """
    kind = _kind(processor)
    vendor = "Ampere" if processor.vendor == "ARM" else processor.vendor
    table = known_processors()
    choices = {
        f"{vendor} {kind}": [k for k in table if (k.vendor, k.kind) == (vendor, kind)],
        kind: [k for k in table if k.kind == kind],
    }
    group, rows = next((g, rows) for g, rows in choices.items() if rows)
    logs = [math.log(row.tdp_w_per_core) for row in rows]
    mean = sum(logs) / len(logs)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in logs) / len(logs))
    low, high = (math.exp(end) for end in (min(logs), max(logs)))
    return UsualPower(group, len(rows), math.exp(mean), deviation, low, high)


def _kind(processor: Processor) -> str:
    said = _words(processor.name)
    if processor.virtual or any(word in said for word in SERVER_WORDS):
        return "server"
    return "laptop" if LAPTOP_ENDING.search(said) else "desktop"
