"""Power logs: the finished log of an external meter, read as samples.

Meant for logs that a wall meter, another program or another machine wrote while a
program ran here. `log_lines` reads tables, `log_formats` what known programs write;
`log_clock` brings its clock to ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from irene.errors import FormatError, UsageError
from irene.meters.logs.log_clock import ClockCorrection, from_local_ns
from irene.meters.logs.log_formats import read_columns
from irene.meters.logs.log_lines import (
    Layout,
    PowerLog,
    clock_of,
    find_layouts,
    lacks_zone,
)
from irene.meters.metric_names import GPU, gpu_device
from irene.whole_file import trying_to

GAP_MEDIANS = 3
MOST_DEVICES = 64
MOST_W = 20_000.0
"""Half of the readings above it are no machine's, nor a device's: a rack takes less."""
SHOWN_LINES = 5
WANTED = "power is a number, a time counts from 1970 or is as 2024-01-31 14:05:01"
OLDEST_DATE_S = 1e8  # 1973: a log that begins earlier counts from its own start


@dataclass(slots=True)
class _Lines:
    """What was read, and what could not be."""

    times: Any
    powers: Any
    bad: list[int]
    negative: int = 0
    first_time: str = ""


def read_power_log(
    path: Path, offset_s: float = 0.0, drift_ppm: float = 0.0, zone: str = ""
) -> PowerLog:
    """Read a log of one series; all else is as for `read_power_logs`."""
    log, *others = read_power_logs(path, offset_s, drift_ppm, zone)
    if others:
        names = ", ".join(each.name for each in (log, *others))
        raise UsageError(f"{path} holds {len(others) + 1} series, not one: {names}")
    return log


def read_power_logs(
    path: Path, offset_s: float = 0.0, drift_ppm: float = 0.0, zone: str = ""
) -> tuple[PowerLog, ...]:
    """Read a log, of one device or of several.

    Args:
        path: The file: a table of time and watts or joules, MLPerf's `spl.txt`, or what
            a program writes that is in the table of `log_formats`.
        offset_s: What is added to its times, s.
        drift_ppm: How much slow its clock runs, in millionths, from its first sample.
        zone: Zone of its times where they name none, as `Europe/Berlin` or `+01:00`;
            "" takes them for UTC, and says so.

    Raises:
        UsageError: The file cannot be opened, there is no such zone, or a time is one
            that a clock there shows twice.
        FormatError: It is empty, has no number or the wrong columns, or more than half
            of its lines are bad.
    """
    with trying_to("read", path):
        text = path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
    try:
        columns = read_columns("\n".join(text))
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from error
    if columns is None:
        columns = _table(path, text)
    logs = [_log(path.name, column, zone, len(columns) > 1) for column in columns]
    if not offset_s and not drift_ppm:
        return tuple(logs)
    reference = min(int(log.time_ns[0]) for log in logs)
    clock = ClockCorrection(offset_s, drift_ppm, reference)
    return tuple(log.on_clock(clock) for log in logs)


def _table(path: Path, text: list[str]) -> list[PowerLog]:
    number, line = _first_line(path, text)
    try:
        layouts = find_layouts(line)
    except ValueError as error:
        raise FormatError(f"{path}:{number}: {error}") from error
    if layouts[0].header:  # again where a logger began anew
        rest = ("" if row.rstrip("\r") == line else row for row in text[number:])
        text = [*text[:number], *rest]
    parts = []
    for layout in layouts:
        found = re.search(r"\d+$", layout.name.strip())
        device = gpu_device(found[0]) if found else ""
        parts.append((layout, device, text))
    layout = layouts[0]
    if len(layouts) == 1 and not layout.name and layout.device >= 0:
        parts = [
            (replace(layout, name=name), device, lines)
            for name, device, lines in _by_device(text, number, layout)
        ]
    return _columns(path, number, parts)


def _columns(
    path: Path, first: int, parts: list[tuple[Layout, str, list[str]]]
) -> list[PowerLog]:
    """All columns in which a power is, with a note of the others."""
    columns, silent = [], []
    for layout, device, text in parts:
        lines = _read(path, text, first, layout)
        if lines.times:
            columns.append(_column(lines, layout, device))
        else:
            silent.append((layout.name.strip(), lines, text))
    if not columns:
        _refuse_silent(path, *silent[0][1:])
    if silent:
        names = ", ".join(name for name, _, _ in silent)
        note = f"warning: {names}: no power in the log, left out"
        columns[0] = replace(columns[0], notes=(*columns[0].notes, note))
    return columns


def _by_device(
    text: list[str], first: int, layout: Layout
) -> list[tuple[str, str, list[str]]]:
    """The lines of each device, blank where they are another's, so numbers stay."""
    words = [line.split(layout.separator) for line in text[first:]]
    owner = [w[layout.device].strip() if len(w) > layout.device else "" for w in words]
    names = sorted({name for name in owner if name}, key=lambda n: (len(n), n))
    if len(names) > MOST_DEVICES or 2 * len(names) > len(owner):
        return [("", "", text)]  # it numbers the lines, not the devices
    found = []
    for place, name in enumerate(names):
        own = [o == name for o in owner]
        lines = [x if keep else "" for x, keep in zip(text[first:], own, strict=True)]
        device = gpu_device(name if name.isdigit() else str(place))
        found.append((f"GPU {name}", device, [*text[:first], *lines]))
    return found


def _column(lines: _Lines, layout: Layout, device: str) -> PowerLog:
    return PowerLog(
        layout.name.strip(),
        np.array(lines.times),
        np.array(lines.powers),
        layout.is_counter,
        lacks_zone(lines.first_time),
        device,
        GPU if device else "",
        tuple(_notes(lines)),
    )


def _log(file: str, log: PowerLog, zone: str, several: bool) -> PowerLog:
    notes = list(log.notes)
    times = log.time_ns
    if log.is_local:
        if zone:
            times = from_local_ns(times, zone)
        notes.append(f"times have no zone: taken as {zone or 'UTC'}")
    if abs(times[0]) < OLDEST_DATE_S * 1e9:
        notes.append("times do not count from 1970: give an offset")
    name = f"{file} {log.name}" if several else file
    is_local = log.is_local and not zone
    return _sorted(replace(log, name=name, time_ns=times, is_local=is_local), notes)


def _first_line(path: Path, text: list[str]) -> tuple[int, str]:
    for number, line in enumerate(text, 1):
        if line.strip() and not line.startswith("#"):
            return number, line.rstrip("\r")
    raise FormatError(f"{path}: there is nothing in it")


def _read(path: Path, text: list[str], first: int, layout: Layout) -> _Lines:
    lines = _Lines([], [], [])
    clock: Callable[[str], float] | None = None
    start = first + layout.header
    for number, line in enumerate(text[start - 1 :], start):
        if not line.strip() or line[0] == "#":
            continue
        try:
            words = _words(line, layout)
            time = words[layout.time].strip()
            if clock is None:
                lines.first_time, clock = time, clock_of(time, layout.time_scale)
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
    if len(lines.bad) > len(lines.times) > 0:
        raise FormatError(
            f"{path}:{lines.bad[0]}: {len(lines.bad)} of "
            f"{len(lines.bad) + len(lines.times)} lines cannot be read, this one first"
        )
    return lines


def _words(line: str, layout: Layout) -> list[str]:
    if layout.decimal_comma:
        line = line.replace(",", ".")
    if '"' in line or " W" in line:  # nvidia-smi writes the unit behind each value
        line = line.replace('"', "").replace(" W", "")
    return line.split(layout.separator)


def _refuse_silent(path: Path, lines: _Lines, text: list[str]) -> NoReturn:
    where = first = ""
    if lines.bad:
        where = f":{lines.bad[0]}"
        first = f": {text[lines.bad[0] - 1].strip()[:80]!r}; {WANTED}"
    raise FormatError(f"{path}{where}: no line with a time and a power in it{first}")


def _notes(lines: _Lines) -> list[str]:
    notes = []
    if lines.bad:
        shown = ", ".join(map(str, lines.bad[:SHOWN_LINES]))
        more = ", …" if len(lines.bad) > SHOWN_LINES else ""
        notes.append(f"{len(lines.bad)} lines dropped: {shown}{more}")
    if lines.negative:
        notes.append(f"{lines.negative} of them for a negative power")
    return notes


def _sorted(log: PowerLog, notes: list[str]) -> PowerLog:
    # Whole ns: half a microsecond is lost where a log counts seconds as decimals.
    times = np.rint(np.array(log.time_ns)).astype(np.int64)
    values = np.array(log.values)
    steps = np.diff(times)
    if np.any(steps < 0):
        notes.append(
            f"{int(np.sum(steps < 0))} times earlier than the one before: sorted"
        )
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    if np.any(np.diff(times) == 0):
        times, where, count = np.unique(times, return_inverse=True, return_counts=True)
        what = "energy" if log.is_counter else "power"
        notes.append(f"{len(values) - len(times)} times given twice: {what} averaged")
        values = np.bincount(where, weights=values) / count
    steps = np.diff(times)
    wide = steps > GAP_MEDIANS * np.median(steps) if len(steps) else steps > 0
    if np.any(wide):
        longest_s = steps.max() * 1e-9
        notes.append(f"{int(wide.sum())} gaps, the longest {longest_s:.3f} s")
    back = int(np.sum(np.diff(values) < 0)) if log.is_counter else 0
    if back:
        notes.append(f"the counter went back {back} times: nothing is known there")
    found = replace(log, time_ns=times, values=values)
    powers = found.power_w
    if len(powers) and np.nanmedian(powers) > MOST_W:
        notes.append(f"{np.nanmedian(powers):.4g} W: are these milliwatts?")
    for column in (times, values):
        column.setflags(write=False)  # nobody changes a log
    return replace(found, notes=tuple(notes))
