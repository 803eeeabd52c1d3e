"""Lines of power logs: which columns hold time and power, and the numbers in them.

Two kinds are read. A table with a separator, with or without names above its columns:

    timestamp,watts
    2021-03-17T20:18:21.541Z,9.513

and MLPerf's `spl.txt`, where names and values alternate in every line:

    Time,03-17-2021 20:18:21.541,Watts,9.513,Volts,228.160,...

A table may hold several devices: a column of power for each (`power0`, `power1`), or
a column that is called by its number (`time,0,1`), or
their number or UUID in every line, as `nvidia-smi --format=csv
--query-gpu=timestamp,index,power.draw` writes them. Energy that is counted
(`time,joules`) is read as well.

Times are s, ms, µs or ns since 1970, told apart by their size, or dates, also with AM
and PM; of `03/04/2025` the month comes first. A date without a zone is taken as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np

from irene.meters.logs.log_clock import ClockCorrection

TIME_NAMES = ("timestamp", "time", "datetime", "date", "epoch", "t", "unix")
POWER_NAMES = (
    "watts", "watt", "w", "power", "p", "activepower", "realpower", "powerdrawinstant",
    "powerdraw", "powerdrawaverage",
)  # fmt: skip
ENERGY_NAMES = (
    "joules", "joule", "energy", "totalenergy", "kwh", "wh",
)  # fmt: skip
DEVICE_NAMES = ("index", "gpuindex", "gpuid", "uuid", "gpuuuid", "pcibusid")
VOLT_NAMES = ("volts", "volt", "v", "voltage")
AMP_NAMES = ("amps", "amp", "a", "current", "i", "amperes")
POWER_SCALES = {"": 1.0, "w": 1.0, "watts": 1.0, "mw": 1e-3, "kw": 1e3, "uw": 1e-6}
ENERGY_SCALES = {
    "j": 1.0, "joules": 1.0, "mj": 1e-3, "uj": 1e-6, "kj": 1e3, "wh": 3600.0,
    "kwh": 3.6e6,
}  # fmt: skip
TIME_SCALES = {"s": 1e9, "sec": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
UNITS = {*POWER_SCALES, *ENERGY_SCALES, *TIME_SCALES}
Names = Sequence[tuple[str, str]]
SPL_TIME, SPL_WATTS = "Time", "Watts"
NANOSECONDS = ((1e11, 1e9), (1e14, 1e6), (1e17, 1e3))
"""Below which size a time since 1970 is in s, ms or µs, and the ns in one of them:
1e11 s are the year 5138, 1e11 ms are March 1973."""
DATE = re.compile(
    r"(?:(\d{4})[-/](\d\d?)[-/](\d\d?)|(\d\d?)[-/](\d\d?)[-/](\d{4}))[T ]+"
    r"(\d\d?):(\d\d):(\d+\.?\d*)\s*(?:([APap])\.?[Mm]\.?)?\s*(Z|[+-]\d\d:?\d\d)?$"
)
ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")


@dataclass(frozen=True, slots=True, eq=False)
class PowerLog:
    """One series of a log; `read_power_logs` gives it sorted, with no time twice.

    Attributes:
        name: What the log calls it, or the file; "" if it holds one only.
        time_ns: When, ns since 1970; as on the clock of the place where `is_local`.
        values: Power, W, or where `is_counter` energy so far, J.
        is_counter: Whether it counts energy.
        is_local: Whether nobody says of which zone its times are.
        device: As torch names it; "" for the machine, or where the log does not tell.
        covers: What it covers: `gpu-board`, `cpu-package`, …; "" where unknown.
        notes: What a reader should know: lines that were dropped, gaps, ….
    """

    name: str
    time_ns: Any
    values: Any
    is_counter: bool = False
    is_local: bool = False
    device: str = ""
    covers: str = ""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def energy_j(self) -> Any:
        """The count at each time, J; None where power was logged."""
        return self.values if self.is_counter else None

    @property
    def power_w(self) -> Any:
        """Power at each time, W; of a counter, the mean since the time before.

        NaN where a counter went back.
        """
        if not self.is_counter:
            return self.values
        steps_j = np.diff(self.values)
        watts = np.where(steps_j < 0, np.nan, steps_j) / (np.diff(self.time_ns) * 1e-9)
        return np.concatenate((watts[:1], watts))

    def on_clock(self, clock: ClockCorrection) -> PowerLog:
        """The same log with its times on our clock."""
        note = f"clock: {clock.offset_s:+.6f} s, {clock.drift_ppm:+.1f} ppm"
        times = clock.apply(self.time_ns)
        return replace(self, time_ns=times, notes=(*self.notes, note))


@dataclass(frozen=True, slots=True)
class Layout:
    """Where time and power stand in a line.

    Columns of power are multiplied, or one is of energy; a scale is W or J per unit, ns
    per unit of time, 0 to tell that by its size. A separator of None is any blank, a
    column of the device of -1 none.
    """

    separator: str | None
    time: int
    power: tuple[int, ...]
    power_scale: float = 1.0
    time_scale: float = 0.0
    header: bool = False
    decimal_comma: bool = False
    is_counter: bool = False
    device: int = -1
    name: str = ""


def find_layouts(line: str) -> tuple[Layout, ...]:
    """Where things stand, told from the first line of a log; one for each column.

    Raises:
        ValueError: There is no column of time or none of power; the message says so.
    """
    words = line.split(",")
    # The same names above the columns of a table are followed by more names.
    if words[0] == SPL_TIME and SPL_WATTS in words[2:-1] and words[1][:1].isdigit():
        return (Layout(",", 1, (words.index(SPL_WATTS) + 1,)),)
    separator = next((s for s in (";", "\t", ",") if s in line), None)
    words = [word.strip().strip('"') for word in line.split(separator)]
    comma = separator not in (",", None) and "," in line
    if any(word[:1].isalpha() for word in words):
        return _named_layouts(separator, words)
    if len(words) < 2:
        raise ValueError(
            f"one column only: {line.strip()[:80]!r}; time and watts needed"
        )
    return (Layout(separator, 0, (1,), decimal_comma=comma),)


def _named_layouts(separator: str | None, words: Sequence[str]) -> tuple[Layout, ...]:
    names = [_name_and_unit(word) for word in words]
    (time,) = _columns(names, TIME_NAMES)[:1] or (-1,)
    values = _value_columns(names, words)
    if time < 0 or not values:
        missing = "time" if time < 0 else "power (watts, or volts and amps) or energy"
        raise ValueError(
            f"no column of {missing} among {', '.join(words)}{_hint(words)}"
        )
    (device,) = _columns(names, DEVICE_NAMES)[:1] or (-1,)
    return tuple(
        Layout(
            separator,
            time,
            columns,
            scale,
            TIME_SCALES.get(names[time][1], 0.0),
            header=True,
            decimal_comma=separator in (";", "\t"),
            is_counter=is_counter,
            device=device,
            name=words[columns[0]]
            if len(values) > 1 or words[columns[0]].isdigit()
            else "",
        )
        for columns, scale, is_counter in values
    )


def _value_columns(
    names: Names, words: Sequence[str]
) -> list[tuple[tuple[int, ...], float, bool]]:
    """Columns of power, volts and amps, energy, or numbered GPUs; scale; counted?"""
    if powers := _columns(names, POWER_NAMES):
        return [((i,), POWER_SCALES.get(names[i][1], 1.0), False) for i in powers]
    volts, amps = _columns(names, VOLT_NAMES), _columns(names, AMP_NAMES)
    if volts and amps:
        return [((volts[0], amps[0]), 1.0, False)]
    energies = _columns(names, ENERGY_NAMES)
    units = [names[i][1] or names[i][0] for i in energies]
    scales = [ENERGY_SCALES.get(unit, 1.0) for unit in units]
    if energies:
        return [((i,), scale, True) for i, scale in zip(energies, scales, strict=True)]
    numbered = [i for i, (name, _) in enumerate(names) if not name]
    return [((i,), 1.0, False) for i in numbered if words[i].isdigit()]


def _hint(words: Sequence[str]) -> str:
    if any(word.startswith("power.draw") for word in words):
        return ": log it with nvidia-smi --query-gpu=timestamp,index,power.draw"
    return ""


def _name_and_unit(word: str) -> tuple[str, str]:
    """`Power (mW)` and `power_mw` are power in mW."""
    letters = re.findall(r"[a-z]+", word.lower())
    if len(letters) > 1 and letters[-1] in UNITS:
        return "".join(letters[:-1]), letters[-1]
    return "".join(letters), ""


def _columns(names: Names, wanted: Sequence[str]) -> list[int]:
    """Columns of the first wanted name that there is, as `power0` and `power1`."""
    for name in wanted:
        found = [index for index, (each, _) in enumerate(names) if each == name]
        if found:
            return found
    return []


def clock_of(sample: str, scale: float = 0.0) -> Callable[[str], float]:
    """The function that turns a time of a log, like this one, into ns since 1970.

    Numbers are units of so many ns, 0 to tell by their size.
    """
    try:
        value = abs(float(sample))
    except ValueError:
        return _date_ns
    scale = scale or next((ns for top, ns in NANOSECONDS if value < top), 1.0)
    return lambda text: float(text) * scale


def lacks_zone(sample: str) -> bool:
    """Whether a time is a date that does not say of which zone."""
    return ":" in sample and ZONE.search(sample) is None


def _date_ns(text: str) -> float:
    """Time since 1970, ns."""
    found = DATE.match(text.strip())
    if found is None or float(found[9]) >= 61:
        raise ValueError(f"no date: {text!r}")
    # MLPerf's: month, day, year.
    day = found.group(1, 2, 3) if found[1] else found.group(6, 4, 5)
    hour = int(found[7])
    if found[10]:
        if not 1 <= hour <= 12:
            raise ValueError(f"no hour of half a day: {text!r}")
        hour = hour % 12 + 12 * (found[10] in "Pp")
    start_s = _minute_s(*map(int, day), hour, int(found[8]))
    return (start_s - _zone_seconds(found[11] or "Z")) * 1e9 + float(found[9]) * 1e9


def _zone_seconds(zone: str) -> int:
    """How far a zone, `Z` or `+01:00`, is ahead of UTC, s."""
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60 if digits else 0
    return -seconds if zone[0] == "-" else seconds


@lru_cache(maxsize=64)  # lines of one minute follow each other
def _minute_s(year: int, month: int, day: int, hour: int, minute: int) -> int:
    return int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp())
