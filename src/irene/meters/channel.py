"""Meter and Channel: the one small shape behind which all sensors stand.

Nothing here imports numpy: a sampler in a process of its own must stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from irene.energy import Source
from irene.errors import IreneError, MeterError, MissingExtraError

Quantity = Literal["energy_j", "power_w", "percent", "mhz", "bytes", "celsius"]
NO_VALUE = float("nan")


@dataclass(frozen=True, slots=True)
class Channel:
    """One value that a meter gives with every sample.

    Attributes:
        name: Unique on this machine: `rapl:package-0`, `nvml:0:power`, `proc:cpu`.
        quantity: `energy_j` is a counter that only grows, from any start, J; the
            others are what holds at the moment of the sample.
        covers: What its energy covers: `cpu-package`, `dram`, `gpu-board`, `wall`, …;
            "" for a channel that is no energy.
        source: `measured` or `estimated`.
        counted: Whether it is part of the machine's total. A nested or repeated zone
            is not, nor is the power of a device whose energy counter is there.
        device: Device it belongs to as torch names it (`cpu`, `cuda:0`), or "".
        resolution_s: How often the sensor itself has something new, s; 0 unknown.
        relative_error: Half the width of its 90 % interval as a share of the value.
        note: What a reader should know, in words.
        missing: Why a part of the machine that belongs in the total cannot be read; ""
            otherwise. Such a channel has no value, and is not counted: the total is a
            part, and says so.
    """

    name: str
    quantity: Quantity
    covers: str = ""
    source: Source = "measured"
    counted: bool = True
    device: str = ""
    resolution_s: float = 0.0
    relative_error: float = 0.0
    note: str = ""
    missing: str = ""

    def __post_init__(self) -> None:
        """Refuse what no reader could interpret."""
        if self.quantity not in get_args(Quantity):
            raise ValueError(f"no quantity {self.quantity!r}")
        if not self.name or set(self.name) & set(',"\n\r#'):
            raise ValueError(f"not a channel name: {self.name!r}")

    @property
    def is_energy(self) -> bool:
        """Whether joules can be had from it."""
        return self.quantity in ("energy_j", "power_w")

    @property
    def in_total(self) -> bool:
        """Whether its joules are part of the machine's total."""
        return self.counted and self.is_energy


def without(missing: Iterable[str]) -> str:
    """What the names of a sum's meters go on with where parts are missing."""
    names = ", ".join(dict.fromkeys(missing))
    return names and f" without {names}"


def missing_notes(missing: Mapping[str, str]) -> list[str]:
    """In words, what is missing in a total, by name and reason."""
    helps = "`irene doctor` says what helps"
    return [
        f"{k} is missing in the total: {why}; {helps}" for k, why in missing.items()
    ]


class SensorLostError(Exception):
    """A sensor that worked does not any more; the message says which and why.

    Never seen by a user: the sampler records it and goes on with the others.
    """


class Meter(Protocol):
    """Something that can be asked for values, again and again, from one thread.

    A meter may also have `longest_interval_s`, how often it must be read at least;
    `holds_s`, how long a reading is good for: it is not asked again before;
    `settles_s`, how long after opening the first reading says something; `summary`,
    what there is of it in words; `remedy`, what would help with the rest.
    """

    @property
    def name(self) -> str:
        """Short name, as `irene doctor` prints it (`rapl`, `nvml`, `estimate`)."""

    @property
    def channels(self) -> Sequence[Channel]:
        """What it gives; fixed once it is open."""

    def read(self) -> Sequence[float]:
        """One value for each channel, now; `NO_VALUE` where one gave none.

        Raises:
            SensorLostError: Nothing can be read any more.
        """

    def close(self) -> None:
        """Let go of files and handles; closing twice is fine."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What `irene doctor` finds about one meter, and what would make it work."""

    meter: str
    works: bool
    detail: str
    remedy: str = ""
    channels: tuple[Channel, ...] = ()


def probed(name: str, open_meter: Callable[[], Meter], install: str = "") -> Finding:
    """Open a meter, look at it and close it; never raises."""
    try:
        with closing(open_meter()) as meter:
            remedy, detail = (getattr(meter, n, "") for n in ("remedy", "summary"))
            return Finding(name, True, detail, remedy, tuple(meter.channels))
    except MissingExtraError as error:
        return Finding(name, False, str(error), install)
    except MeterError as error:
        return Finding(name, False, error.detail, error.remedy)
    except IreneError as error:
        return Finding(name, False, str(error))
    except Exception as error:  # noqa: BLE001  a vendor's library may raise anything
        return Finding(name, False, f"{type(error).__name__}: {error}")
