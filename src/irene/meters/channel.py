"""Meter and Channel: the one small shape behind which all sensors stand.

`SensorMeter` is made of sensors that are asked one after the other: one that fails
gives nothing, and the others go on; a meter is lost when all fail. `PolledMeter` asks
slow ones in a thread. Nothing here imports numpy: a sampler in a process of its own
must stay small.
"""

from __future__ import annotations

import math
import threading
import time
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


@dataclass(frozen=True, slots=True)
class Sensor:
    """Something that can be asked for a value of each channel; may raise anything."""

    channels: tuple[Channel, ...]
    ask: Callable[[], Sequence[float]]


class SensorMeter:
    """A meter made of sensors, which are asked in order.

    `missing` are channels of what belongs in the total and cannot be read, `remedy`
    what would help with these. `let_go` is called once when it is closed. The rest is
    as `Meter` has it; without a summary it is told by its channels.
    """

    def __init__(
        self,
        name: str,
        sensors: Sequence[Sensor],
        missing: Sequence[Channel] = (),
        remedy: str = "",
        let_go: Callable[[], object] = lambda: None,
        summary: str = "",
        holds_s: float = 0.0,
        settles_s: float = 0.0,
        longest_interval_s: float = math.inf,
    ) -> None:
        self.name, self.remedy, self._summary = name, remedy, summary
        self.holds_s, self.settles_s = holds_s, settles_s
        self.longest_interval_s = longest_interval_s
        self.channels = (*(c for sensor in sensors for c in sensor.channels), *missing)
        self._sensors, self._let_go = tuple(sensors), let_go
        self._nothing = [NO_VALUE] * len(missing)

    def read(self) -> list[float]:
        """One value for each channel; `NO_VALUE` for those of a sensor that fails.

        Raises:
            SensorLostError: All fail, or the meter is closed.
        """
        values: list[float] = []
        problems: dict[str, list[str]] = {}
        known = False
        for sensor in self._sensors:
            try:
                values += sensor.ask()
                known = True
            except Exception as error:  # noqa: BLE001  every vendor has errors of its own
                values += [NO_VALUE] * len(sensor.channels)
                words = str(error)
                if not isinstance(error, SensorLostError):
                    words = ": ".join(filter(None, (type(error).__name__, words)))
                problems.setdefault(words, []).append(sensor.channels[0].name)
        if not known:
            told = (f"{', '.join(names)}: {why}" for why, names in problems.items())
            raise SensorLostError("; ".join(told) or f"{self.name} is closed")
        return values + self._nothing

    def close(self) -> None:
        """Let go of the sensors; closing twice is fine."""
        sensors, self._sensors = self._sensors, ()
        if sensors:
            self._let_go()

    @property
    def summary(self) -> str:
        """What there is of it, or its channels and those missing, in words."""
        if self._summary:
            return self._summary
        there = ", ".join(c.name for c in self.channels if not c.missing)
        lost = [c for c in self.channels if c.missing]
        gone = (f"{c.name} cannot be read: {c.missing}" for c in lost)
        return "; ".join((there, *gone))


SILENT_PERIODS = 3
SHORTEST_SILENCE_NS = 2_000_000_000
CLOSING_S = 5.0


class PolledMeter:
    """A meter whose values are fetched in a thread, every so often, until `close`.

    A plug, a BMC or an exporter takes from milliseconds to seconds to answer. The
    sampler never waits for it: it takes the last answer, if that is not too old.

    A value holds until the next one comes. After three periods without an answer there
    is none: what was used meanwhile is not known, and is not filled in.
    """

    def __init__(
        self,
        name: str,
        channels: Sequence[Channel],
        fetch: Callable[[], Sequence[float]],
        every_s: float,
    ) -> None:
        self.name = name
        self.channels = tuple(channels)
        self.problem = ""
        self._fetch = fetch
        self._every_s = every_s
        self._stop = threading.Event()
        # Replaced as a whole, so that the other thread sees it whole.
        self._last: tuple[int, Sequence[float]] = (0, ())
        self._ask()
        if self.problem:
            raise MeterError(f"{name}: {self.problem}")
        self._thread = threading.Thread(
            target=self._run, name=f"irene-{name}", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self._ask()

    def _ask(self) -> None:
        try:
            values = self._fetch()
        except Exception as error:  # noqa: BLE001  anything may answer at an address
            self.problem = str(error) or type(error).__name__
        else:
            self.problem = ""
            self._last = (time.monotonic_ns(), values)

    def read(self) -> Sequence[float]:
        """The last values; `NO_VALUE` while nothing answers.

        Raises:
            SensorLostError: The meter is closed.
        """
        if self._stop.is_set():
            raise SensorLostError(f"{self.name} is closed")
        answered_ns, values = self._last
        patience_ns = max(SHORTEST_SILENCE_NS, SILENT_PERIODS * self._every_s * 1e9)
        if time.monotonic_ns() - answered_ns > patience_ns:
            return [NO_VALUE] * len(self.channels)
        return values

    @property
    def summary(self) -> str:
        """What it says now, W."""
        return ", ".join(f"{value:.0f} W" for value in self.read())

    def close(self) -> None:
        """End the thread; closing twice is fine."""
        self._stop.set()
        self._thread.join(CLOSING_S)
