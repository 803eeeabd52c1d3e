"""Datasheets: what a GPU's maker says of it, and how it is read from a TOML file."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

from irene.errors import FormatError, UsageError
from irene.predict.machines.gpu.kernel_ops import WeightType
from irene.saved import file_bytes

SCALES: Mapping[str, tuple[str, float]] = {
    "hbm_tb_s": ("hbm_bytes_s", 1e12),
    "link_gb_s": ("link_bytes_s", 1e9),
    "memory_gb": ("memory_bytes", 1e9),
    "l2_mb": ("l2_bytes", 1e6),
    "tdp_w": ("tdp_w", 1.0),
    "idle_w": ("idle_w", 1.0),
    "multiprocessors": ("multiprocessors", 1.0),
}
"""Names of numbers in the file: the field, and how many of its unit it is."""

MEMORIES = ("hbm", "gddr")
"""Kinds of memory that energies per byte tell apart."""
HOSTS = ("server", "desktop")
"""Kinds of machines whose energy at the wall is known."""

WIDER: Mapping[str, str] = {
    # Serving engines multiply mxfp4 and int4 weights with bf16 activations.
    "mxfp4": "bf16",
    "fp4": "fp8",
    "fp8_block": "fp8",
    "fp8": "bf16",
    "int4": "bf16",
}
"""In what a GPU multiplies that cannot do it in the type of the weights."""


@dataclass(frozen=True, slots=True)
class Datasheet:
    """Peak rates and powers of one GPU.

    Attributes:
        name: As given to `--on`.
        description: The product in words.
        hbm_bytes_s: Memory bandwidth, bytes per second.
        flops_s: Dense peak by type of the factors, FLOP per second; at least `bf16`.
        tdp_w: Power limit, W.
        idle_w: Power with a context and no work, W.
        link_bytes_s: To another GPU, one way, bytes per second; 0 if there is no link.
        memory_bytes: Size of the memory.
        multiprocessors: Number of them.
        l2_bytes: Size of the cache.
        architecture: `ampere`, `ada`, `hopper`, `blackwell`, ….
        memory: `hbm` or `gddr`; a byte of the latter takes more energy.
        host: Kind of machine it is in, `server` or `desktop`.
        sources: Where each figure is from.
    """

    name: str
    description: str
    hbm_bytes_s: float
    flops_s: Mapping[str, float]
    tdp_w: float
    idle_w: float
    link_bytes_s: float
    memory_bytes: float
    multiprocessors: float
    l2_bytes: float
    architecture: str = ""
    memory: str = "hbm"
    host: str = "server"
    sources: Mapping[str, str] = field(default_factory=dict)

    def checked_limit_w(self, limit_w: float | None) -> float | None:
        """A power limit of a board, W, as it was given.

        Raises:
            UsageError: No board can be held to it.
        """
        if limit_w is not None and not self.idle_w < limit_w <= self.tdp_w:
            raise UsageError(
                f"--power-limit {limit_w:g}: a board of {self.name} is held to more "
                f"than its {self.idle_w:g} W when idle and at most {self.tdp_w:g} W"
            )
        return limit_w

    def multiplies_in(self, dtype: str) -> str:
        """The type in which weights of a type are multiplied here."""
        while dtype not in self.flops_s:
            dtype = WIDER.get(dtype, "bf16")
        return dtype

    def peak(self, dtype: str) -> float:
        """FLOP per second for weights of a type."""
        return self.flops_s[self.multiplies_in(dtype)]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Datasheet:
        """Read what `to_dict` wrote, and check it.

        Raises:
            FormatError: A field is missing, unknown or impossible.
        """
        try:
            sheet = cls(**fields)
        except TypeError as error:
            raise FormatError(f"not a datasheet: {error}") from error
        _check(sheet)
        return sheet


def distance(one: Datasheet, other: Datasheet) -> float:
    """How unlike two GPUs are.

    Another architecture counts most, then how peak, bandwidth and their ratio differ.
    """
    peaks = one.peak("bf16") / other.peak("bf16")
    rates = one.hbm_bytes_s / other.hbm_bytes_s
    apart = sum(abs(math.log(ratio)) for ratio in (peaks, rates, peaks / rates))
    return apart + (0.0 if one.architecture == other.architecture else 10.0)


def read_datasheet(path: str | Path) -> Datasheet:
    """The datasheet in a TOML file; its name is the file's unless it gives one.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is not TOML, or a figure is missing, unknown or impossible.
    """
    try:
        fields = tomllib.loads(file_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: not TOML: {error}") from error
    try:
        return Datasheet.from_dict(_in_base_units(fields, Path(path).stem))
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def _in_base_units(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    read: dict[str, Any] = {"name": name, "description": "", "link_bytes_s": 0.0}
    for key, value in fields.items():
        if key in SCALES:
            target, scale = SCALES[key]
            read[target] = _number(key, value) * scale
        elif key == "tflops":
            read["flops_s"] = _peaks(value)
        else:
            read[key] = value
    needed = ["hbm_tb_s", "tflops", "tdp_w", "idle_w"]
    missing = [key for key in needed if key not in fields]
    if missing:
        raise FormatError(f"a datasheet needs {', '.join(missing)}")
    return {**_unstated(read), **read}


def _unstated(read: Mapping[str, Any]) -> dict[str, float]:
    """What a sheet may leave out, in proportion to a GPU of its bandwidth.

    132 multiprocessors, 50 MB of cache and 80 GB go with the 3.35 TB/s of an H100.
    """
    ratio = float(read["hbm_bytes_s"]) / 3.35e12
    return {
        "multiprocessors": float(round(132 * min(max(ratio, 0.5), 1.2))),
        "l2_bytes": 50e6,
        "memory_bytes": 80e9 * ratio,
    }


def _peaks(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping) or "bf16" not in value:
        raise FormatError("[tflops] needs at least bf16, the dense peak in TFLOP/s")
    known = get_args(WeightType)
    strange = [key for key in value if key not in known]
    if strange:
        raise FormatError(f"[tflops] has {strange[0]!r}; known are {', '.join(known)}")
    return {key: 1e12 * _number(key, peak) for key, peak in value.items()}


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError(f"{key} is {value!r}, not a number")
    return float(value)


def _check(sheet: Datasheet) -> None:
    positive = ("hbm_bytes_s", "tdp_w", "memory_bytes", "multiprocessors", "l2_bytes")
    for name in positive:
        if not 0 < getattr(sheet, name) < float("inf"):
            raise FormatError(f"{name} is {getattr(sheet, name)!r}: it must be above 0")
    if not sheet.flops_s or not all(0 < v < 1e18 for v in sheet.flops_s.values()):
        raise FormatError("peaks must lie between 0 and 10⁶ TFLOP/s")
    if "bf16" not in sheet.flops_s:
        raise FormatError("a datasheet needs the peak of bf16")
    if not 0 <= sheet.idle_w < sheet.tdp_w:
        raise FormatError(
            f"idle power is {sheet.idle_w:g} W: it must be below the limit of "
            f"{sheet.tdp_w:g} W"
        )
    for name, known in (("memory", MEMORIES), ("host", HOSTS)):
        if getattr(sheet, name) not in known:
            found, right = getattr(sheet, name), " or ".join(known)
            raise FormatError(f"{name} is {found!r}: it must be {right}")
    if sheet.link_bytes_s < 0:
        raise FormatError(f"link_bytes_s is {sheet.link_bytes_s!r}: below 0")
