"""Numbers for people: `178.8 G`, `54.8 J (53.9 – 55.7)`, `±2.0%`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irene.energy import Energy

MINUTE_S = 60.0
HOUR_S = 3600.0

STEPS = ("", "k", "M", "G", "T", "P", "E")
ENERGY_STEPS = (
    (1e9, "GJ"),
    (1e6, "MJ"),
    (1e3, "kJ"),
    (1.0, "J"),
    (1e-3, "mJ"),
    (1e-6, "µJ"),
    (1e-9, "nJ"),
)
UNKNOWN = "–"
TWICE = 1.995
"""Beside its value, the upper end from which on an interval is told as a factor."""


def human(value: float, unit: str = "") -> str:
    """A number in units of 1000, at most four digits: `178.8 G`, `1.57 k`, `12 B`."""
    step = 0
    while value >= 999.95 and step < len(STEPS) - 1:
        value /= 1000
        step += 1
    if step == 0 and value == int(value):
        digits = f"{int(value)}"
    else:
        digits = f"{value:.{2 if value < 9.995 else 1}f}"
    return f"{digits} {STEPS[step]}{unit}".rstrip()


def human_energy(joules: float) -> str:
    """An energy in the unit that suits it: `54.8 J`, `1.20 kJ`; a dash for NaN."""
    if math.isnan(joules):
        return UNKNOWN
    size, unit = _energy_step(joules)
    return f"{_energy_digits(joules / size)} {unit}"


def human_range(energy: Energy) -> str:
    """An energy with the ends of its interval in one unit: `54.8 J (53.9 – 55.7)`.

    One that has no width says nothing: the error of a meter that is not known is not 0.
    """
    if energy.low >= energy.high:
        return human_energy(energy.joules)
    size, _ = _energy_step(energy.joules)
    low, high = (_energy_digits(end / size) for end in (energy.low, energy.high))
    return f"{human_energy(energy.joules)} ({low} – {high})"


def human_spread(energy: Energy) -> str:
    """How far the interval reaches, relative to the value: `±2.0%`, `−3.0% +12%`.

    One that reaches twice the value and more is a factor: `factor 2.4`, `÷1.5 ×2.4`.
    """
    if energy.joules <= 0:
        return ""
    if energy.low > 0 and energy.high >= TWICE * energy.joules:
        under, over = energy.joules / energy.low, energy.high / energy.joules
        below, above = f"{under:.2g}", f"{over:.2g}"
        return f"factor {above}" if below == above else f"÷{below} ×{above}"
    down = _percent((energy.joules - energy.low) / energy.joules)
    up = _percent((energy.high - energy.joules) / energy.joules)
    return f"±{up}" if down == up else f"−{down} +{up}"


def human_width(width: float) -> str:
    """Half an interval, in log units, in words: `± 12 %`, `within a factor 2.4`."""
    factor = math.exp(width)
    if factor >= TWICE:
        return f"within a factor {factor:.2g}"
    return f"± {100 * (factor - 1):.0f} %"


def human_error(share: float) -> str:
    """An error beside the value in words: `± 12 %`; past all of it, where it ends."""
    if share < 1:
        return f"± {100 * share:.0f} %"
    return f"from nothing to {1 + share:.1f} times the value"


def _energy_step(joules: float) -> tuple[float, str]:
    steps = (step for step in ENERGY_STEPS if abs(joules) >= 0.99995 * step[0])
    return next(steps, (1.0, "J") if joules == 0 else ENERGY_STEPS[-1])


def _energy_digits(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:.{2 if abs(value) < 9.995 else 1}f}".replace("-", "−")


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


def human_time(seconds: float) -> str:
    """A time in the unit that suits it: `12.3 ms`, `1.20 s`."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def human_duration(seconds: float) -> str:
    """A length of time in words: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 1.5 * MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 1.5 * HOUR_S:
        return f"{seconds / MINUTE_S:.0f} min"
    return f"{seconds / HOUR_S:.1f} h"
