"""PowerLog: the finished log of an external meter, read as samples.

Meant for logs that a wall meter or another machine wrote while a program ran here; see
`log_lines` for what is read, and `log_clock` for bringing its clock to ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from irene.errors import FormatError, UsageError
from irene.meters.logs.log_clock import ClockCorrection
from irene.meters.logs.log_lines import (
    ZONE,
    Layout,
    clock_of,
    find_layout,
    lacks_zone,
    zone_seconds,
)

__all__ = ["PowerLog", "read_power_log"]

GAP_MEDIANS = 3
SHOWN_LINES = 5
LONGEST_TIME = 40
OLDEST_DATE_S = 1e8  # 1973: a log that begins earlier counts from its own start


@dataclass(frozen=True, slots=True, eq=False)
class PowerLog:
    """Power over time, sorted, no time twice.

    Attributes:
        name: Name of the file.
        time_ns: When, ns since 1970, int64.
        power_w: Power at that time, W, float64.
        notes: What a reader should know: lines that were dropped, gaps, ….
    """

    name: str
    time_ns: Any
    power_w: Any
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Nobody changes a log."""
        self.time_ns.setflags(write=False)
        self.power_w.setflags(write=False)

    def __len__(self) -> int:
        return len(self.time_ns)

    def on_clock(self, clock: ClockCorrection) -> PowerLog:
        """The same log with its times on our clock."""
        note = f"clock: {clock.offset_s:+.6f} s, {clock.drift_ppm:+.1f} ppm"
        times = clock.apply(self.time_ns)
        return replace(self, time_ns=times, notes=(*self.notes, note))


@dataclass(slots=True)
class _Lines:
    """What was read, and what could not be."""

    times: Any
    powers: Any
    bad: list[int]
    negative: int = 0
    first_time: str = ""


def read_power_log(
    path: Path, offset_s: float = 0.0, drift_ppm: float = 0.0
) -> PowerLog:
    """Read a log.

    Args:
        path: The file: a table of time and watts, or MLPerf's `spl.txt`.
        offset_s: What is added to its times, s; for a log in local time, minus the
            zone's distance from UTC.
        drift_ppm: How much slow its clock runs, in millionths, from its first sample.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is empty, has no number or the wrong columns, or more than half
            of its lines are bad.
    """
    first, text = _first_line(path)
    try:
        layout = find_layout(first[1])
    except ValueError as error:
        raise FormatError(f"{path}:{first[0]}: {error}") from error
    lines = _read(path, text, first[0], layout)
    log = _sorted_log(path.name, lines, _notes(lines))
    if not offset_s and not drift_ppm:
        return log
    reference = int(log.time_ns[0])
    return log.on_clock(ClockCorrection(offset_s, drift_ppm, reference))


def _first_line(path: Path) -> tuple[tuple[int, str], list[str]]:
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    for number, line in enumerate(text, 1):
        if line.strip() and not line.startswith("#"):
            return (number, line.rstrip("\r")), text
    raise FormatError(f"{path}: there is nothing in it")


def _read(path: Path, text: list[str], first: int, layout: Layout) -> _Lines:
    start = first + layout.header
    lines = _whole(text[start - 1 :], layout)
    return lines or _line_by_line(path, text[start - 1 :], start, layout)


def _whole(lines: list[str], layout: Layout) -> _Lines | None:
    """All columns at once: a million lines in about a second; None if one is odd."""
    line = next((line for line in lines if line.strip() and line[0] != "#"), "")
    words = _words(line, layout)
    if not line or len(words) <= layout.time or layout.decimal_comma:
        return None
    sample = words[layout.time].strip()
    is_date = ":" in sample
    names = [f"power{number}" for number in range(len(layout.power))]
    kinds = [("time", f"S{LONGEST_TIME}" if is_date else "f8")]
    kinds += [(name, "f8") for name in names]
    try:
        table = np.loadtxt(
            lines,
            dtype=kinds,
            delimiter=layout.separator,
            usecols=(layout.time, *layout.power),
            quotechar='"',
            ndmin=1,
        )
        times = (
            _dates(table["time"], sample)
            if is_date
            else table["time"] * clock_of(sample, layout)("1")
        )
    except (ValueError, IndexError):
        return None
    power = np.prod([table[name] for name in names], axis=0) * layout.power_scale
    good = np.isfinite(times) & (np.abs(times) < 9e18) & (power >= 0) & (power < np.inf)
    return _Lines(times, power, [], first_time=sample) if good.all() else None


def _dates(texts: Any, sample: str) -> Any:
    """Dates that are all written alike.

    Raises:
        ValueError: They are not.
    """
    width = len(sample)
    letters = np.char.strip(texts).astype(f"S{width + 1}").view("S1")
    letters = letters.reshape(len(texts), width + 1)[:, :width]
    zone = ZONE.search(sample)
    end = zone.start() if zone else width
    month_first = sample[2:3] in ("-", "/")
    marks = [2, 5, 10] if month_first else [4, 7, 10]
    same = [*marks, *range(end, width)]
    alike = letters[:, same] == letters[0, same]
    if width <= marks[-1] or not bool(
        alike.all() and (letters[:, end - 1] != b"").all()
    ):
        raise ValueError("dates of different kinds")
    order = [6, 7, 8, 9, 2, 0, 1, 5, 3, 4] if month_first else list(range(10))
    plain = letters[:, order + list(range(10, end))].copy()
    plain[:, [4, 7]], plain[:, 10] = b"-", b"T"
    dates = plain.view(f"S{end}").ravel().astype("datetime64[ns]")
    since = dates.astype(np.int64).astype(float)
    return since - (zone_seconds(zone.group()) if zone else 0) * 1e9


def _line_by_line(path: Path, text: list[str], start: int, layout: Layout) -> _Lines:
    lines = _Lines([], [], [])
    clock: Callable[[str], float] | None = None
    for number, line in enumerate(text, start):
        if not line.strip() or line[0] == "#":
            continue
        try:
            words = _words(line, layout)
            time = words[layout.time].strip()
            if clock is None:
                lines.first_time, clock = time, clock_of(time, layout)
            time_ns = clock(time)
            power_w = layout.power_scale
            for column in layout.power:
                power_w *= float(words[column])
            if not 0 <= power_w < np.inf or not abs(time_ns) < 9e18:
                lines.negative += power_w < 0
                raise ValueError("no power")
        except (ValueError, IndexError):
            lines.bad.append(number)
            if not lines.times:
                clock = None  # a bad first line does not decide what times look like
            continue
        lines.times.append(time_ns)
        lines.powers.append(power_w)
    _refuse_mostly_bad(path, lines)
    return lines


def _words(line: str, layout: Layout) -> list[str]:
    if layout.decimal_comma:
        line = line.replace(",", ".")
    if '"' in line or " W" in line:  # nvidia-smi writes the unit behind each value
        line = line.replace('"', "").replace(" W", "")
    return line.split(layout.separator)


def _refuse_mostly_bad(path: Path, lines: _Lines) -> None:
    if not lines.times:
        where = f":{lines.bad[0]}" if lines.bad else ""
        raise FormatError(f"{path}{where}: no line with a time and a power in it")
    if len(lines.bad) > len(lines.times):
        raise FormatError(
            f"{path}:{lines.bad[0]}: {len(lines.bad)} of "
            f"{len(lines.bad) + len(lines.times)} lines cannot be read, this one first"
        )


def _notes(lines: _Lines) -> list[str]:
    notes = []
    if lines.bad:
        shown = ", ".join(map(str, lines.bad[:SHOWN_LINES]))
        more = ", …" if len(lines.bad) > SHOWN_LINES else ""
        notes.append(f"{len(lines.bad)} lines dropped: {shown}{more}")
    if lines.negative:
        notes.append(f"{lines.negative} of them for a negative power")
    if lacks_zone(lines.first_time):
        notes.append("times have no zone: taken as UTC")
    if abs(lines.times[0]) < OLDEST_DATE_S * 1e9:
        notes.append("times do not count from 1970: give an offset")
    return notes


def _sorted_log(name: str, lines: _Lines, notes: list[str]) -> PowerLog:
    # Whole ns: half a microsecond is lost where a log counts seconds as decimals.
    times = np.rint(np.array(lines.times)).astype(np.int64)
    powers = np.array(lines.powers)
    steps = np.diff(times)
    if np.any(steps < 0):
        notes.append(
            f"{int(np.sum(steps < 0))} times earlier than the one before: sorted"
        )
        order = np.argsort(times, kind="stable")
        times, powers = times[order], powers[order]
    if np.any(np.diff(times) == 0):
        times, where, count = np.unique(times, return_inverse=True, return_counts=True)
        notes.append(f"{len(powers) - len(times)} times given twice: power averaged")
        powers = np.bincount(where, weights=powers) / count
    steps = np.diff(times)
    wide = steps > GAP_MEDIANS * np.median(steps) if len(steps) else steps > 0
    if np.any(wide):
        longest_s = steps.max() * 1e-9
        notes.append(f"{int(wide.sum())} gaps, the longest {longest_s:.3f} s")
    return PowerLog(name, times, powers, tuple(notes))
