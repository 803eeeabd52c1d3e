"""Lines of power logs: which columns hold time and power, and the numbers in them.

Two kinds are read. A table with a separator, with or without names above its columns:

    timestamp,watts
    2021-03-17T20:18:21.541Z,9.513

and MLPerf's `spl.txt`, where names and values alternate in every line:

    Time,03-17-2021 20:18:21.541,Watts,9.513,Volts,228.160,...

Times are s, ms, µs or ns since 1970, told apart by their size, or dates. A date without
a zone is taken as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["Layout", "clock_of", "find_layout", "lacks_zone", "zone_seconds"]

TIME_NAMES = ("timestamp", "time", "datetime", "date", "epoch", "t", "unix")
POWER_NAMES = (
    "watts",
    "watt",
    "w",
    "power",
    "p",
    "activepower",
    "realpower",
    "powerdraw",
)
VOLT_NAMES = ("volts", "volt", "v", "voltage")
AMP_NAMES = ("amps", "amp", "a", "current", "i", "amperes")
POWER_SCALES = {"": 1.0, "w": 1.0, "watts": 1.0, "mw": 1e-3, "kw": 1e3, "uw": 1e-6}
TIME_SCALES = {"s": 1e9, "sec": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
SPL_TIME, SPL_WATTS = "Time", "Watts"
NANOSECONDS = ((1e11, 1e9), (1e14, 1e6), (1e17, 1e3))
"""Below which size a time since 1970 is in s, ms or µs, and the ns in one of them:
1e11 s are the year 5138, 1e11 ms are March 1973."""
DATE = re.compile(
    r"(?:(\d{4})[-/](\d\d?)[-/](\d\d?)"
    r"|(\d\d?)[-/](\d\d?)[-/](\d{4}))[T ]+(\d\d):(\d\d)$"
)
ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where time and power stand in a line.

    Attributes:
        separator: What parts the columns; None is any blank.
        time: Column of the time.
        power: Columns that are multiplied to give the power.
        power_scale: W per unit of it.
        time_scale: ns per unit of a time that is a number; 0 to tell by its size.
        header: Whether the first line holds names.
        decimal_comma: Whether numbers have a comma for a point.
    """

    separator: str | None
    time: int
    power: tuple[int, ...]
    power_scale: float = 1.0
    time_scale: float = 0.0
    header: bool = False
    decimal_comma: bool = False


def find_layout(line: str) -> Layout:
    """Where things stand, told from the first line of a log.

    Raises:
        ValueError: There is no column of time or none of power; the message says so.
    """
    words = line.split(",")
    # The same names above the columns of a table are followed by more names.
    if words[0] == SPL_TIME and SPL_WATTS in words[2:-1] and words[1][:1].isdigit():
        return Layout(",", 1, (words.index(SPL_WATTS) + 1,))
    separator = next((s for s in (";", "\t", ",") if s in line), None)
    words = [word.strip().strip('"') for word in line.split(separator)]
    comma = separator not in (",", None) and "," in line
    if any(word[:1].isalpha() for word in words):
        return _named_layout(separator, words)
    if len(words) < 2:
        raise ValueError(
            f"one column only: {line.strip()[:80]!r}; time and watts needed"
        )
    return Layout(separator, 0, (1,), decimal_comma=comma)


def _named_layout(separator: str | None, words: Sequence[str]) -> Layout:
    names = [_name_and_unit(word) for word in words]
    time = _column(names, TIME_NAMES)
    power = _column(names, POWER_NAMES)
    volts, amps = _column(names, VOLT_NAMES), _column(names, AMP_NAMES)
    if time is None or (power is None and (volts is None or amps is None)):
        missing = "time" if time is None else "power (watts, or volts and amps)"
        raise ValueError(f"no column of {missing} among {', '.join(words)}")
    comma = separator in (";", "\t")
    time_scale = TIME_SCALES.get(names[time][1], 0.0)
    if power is not None:
        scale = POWER_SCALES.get(names[power][1], 1.0)
        return Layout(separator, time, (power,), scale, time_scale, True, comma)
    assert volts is not None
    assert amps is not None
    return Layout(separator, time, (volts, amps), 1.0, time_scale, True, comma)


def _name_and_unit(word: str) -> tuple[str, str]:
    """`Power (mW)` and `power_mw` are power in mW."""
    letters = re.findall(r"[a-z]+", word.lower())
    if len(letters) > 1 and letters[-1] in {*POWER_SCALES, *TIME_SCALES}:
        return "".join(letters[:-1]), letters[-1]
    return "".join(letters), ""


def _column(names: Sequence[tuple[str, str]], wanted: Sequence[str]) -> int | None:
    for name in wanted:
        for index, (found, _) in enumerate(names):
            if found == name:
                return index
    return None


def clock_of(sample: str, layout: Layout) -> Callable[[str], float]:
    """The function that turns a time of a log into ns since 1970.

    Args:
        sample: A time of the log.
        layout: Where things stand.
    """
    try:
        value = abs(float(sample))
    except ValueError:
        return _date_ns
    scale = layout.time_scale or next(
        (ns for top, ns in NANOSECONDS if value < top), 1.0
    )
    return lambda text: float(text) * scale


def lacks_zone(sample: str) -> bool:
    """Whether a time is a date that does not say of which zone."""
    return ":" in sample and ZONE.search(sample) is None


def _date_ns(text: str) -> float:
    """Time since 1970, ns.

    Raises:
        ValueError: It is no date.
    """
    zone = ZONE.search(text)
    if zone:
        text = text[: zone.start()].rstrip()
    minute, _, second = text.rpartition(":")
    seconds = float(second)
    if not 0 <= seconds < 61:
        raise ValueError(f"no date: {text!r}")
    start_s = _minute_s(minute) - (zone_seconds(zone.group()) if zone else 0)
    return start_s * 1e9 + seconds * 1e9


def zone_seconds(zone: str) -> int:
    """How far a zone, `Z` or `+01:00`, is ahead of UTC, s."""
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60 if digits else 0
    return -seconds if zone[0] == "-" else seconds


@lru_cache(maxsize=64)  # lines of one minute follow each other
def _minute_s(text: str) -> int:
    found = DATE.match(text.strip())
    if found is None:
        raise ValueError(f"no date: {text!r}")
    if found[1]:
        year, month, day = int(found[1]), int(found[2]), int(found[3])
    else:  # MLPerf's: month, day, year
        year, month, day = int(found[6]), int(found[4]), int(found[5])
    begin = datetime(year, month, day, int(found[7]), int(found[8]), tzinfo=UTC)
    return int(begin.timestamp())
