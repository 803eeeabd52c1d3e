"""What `irene monitor` says on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from irene.human import human_range
from irene.measure.windows.monitored import ChannelUse, Monitored
from irene.show.picture.units import amount
from irene.show.text import plain

__all__ = ["report_lines", "sparkline"]

BARS = "▁▂▃▄▅▆▇█"
GAP = "·"
SPARK_WIDTH = 40
UNITS = {"percent": "%", "mhz": "Hz", "bytes": "B", "celsius": "°C"}
UNIT_SIZES = {"mhz": 1e6}


def report_lines(found: Monitored) -> list[str]:
    """The report, line by line."""
    ended = f", exit code {found.exit_code}" if found.exit_code else ""
    lines = [
        f"irene monitor: {plain(found.title)}{ended}",
        f"  energy     {_energy(found)}",
    ]
    if math.isfinite(found.peak_power_w):
        powers = f"{_watts(found.mean_power_w)} mean, {_watts(found.peak_power_w)} peak"
        lines.append(f"  power      {powers}  {sparkline(found.total_power_w)}")
    lines.append(f"  time       {_time(found)}")
    lines += _table(found.uses)
    lines += [f"  note       {plain(note)}" for note in found.notes]
    return lines


def _energy(found: Monitored) -> str:
    energy = found.energy
    if energy is None:
        return "not known"
    return f"{human_range(energy)}, {energy.source} by {energy.produced_by}"


def _watts(value: float) -> str:
    return amount(value, "W") if math.isfinite(value) else "unknown"


def _time(found: Monitored) -> str:
    text = amount(found.duration_s, "s")
    if math.isfinite(found.cpu_s) and found.duration_s > 0:
        cores = found.cpu_s / found.duration_s
        text += f", of CPUs {amount(found.cpu_s, 's')} ({cores:.2f} at a time)"
    return text


def _table(uses: Sequence[ChannelUse]) -> list[str]:
    """A line for each channel: what it is, energy, mean and peak."""
    rows = [("channel", "covers", "source", "energy", "mean", "peak")]
    rows += [_row(use) for use in uses]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < 3 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines if len(rows) > 1 else []


def _row(use: ChannelUse) -> tuple[str, str, str, str, str, str]:
    channel, window = use.channel, use.window
    unit = "W" if channel.is_energy else UNITS[channel.quantity]
    size = UNIT_SIZES.get(channel.quantity, 1.0)
    mean, peak = (amount(v * size, unit) for v in (window.mean, use.peak))
    if not channel.is_energy:
        return plain(channel.name), "", "", "", mean, peak
    half = f" ± {amount(window.half_width_j, 'J')}" if window.complete else ""
    energy = amount(window.energy_j, "J") + half
    covers = plain(channel.covers) + ("" if channel.counted else " (not counted)")
    return plain(channel.name), covers, channel.source, energy, mean, peak


def sparkline(values: npt.NDArray[np.float64], width: int = SPARK_WIDTH) -> str:
    """Values over time in one line, from zero up; a dot where nothing is known.

    Args:
        values: In order; not-a-number where not known.
        width: Most characters.
    """
    parts = np.array_split(values, min(width, len(values))) if len(values) else []
    means = [float(p[np.isfinite(p)].mean()) if np.isfinite(p).any() else math.nan
             for p in parts]  # fmt: skip
    largest = max((m for m in means if math.isfinite(m)), default=0.0)
    return "".join(_bar(mean, largest) for mean in means)


def _bar(value: float, largest: float) -> str:
    if not math.isfinite(value):
        return GAP
    part = value / largest if largest > 0 else 0.0
    return BARS[min(max(round(part * (len(BARS) - 1)), 0), len(BARS) - 1)]
