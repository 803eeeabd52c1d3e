"""Numbers in the unit that suits them: `1.2 kJ`, `350 ms`, `12 min`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

PREFIXES = (
    (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"),
    (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"),
)  # fmt: skip
TIMES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
FEWEST_OF_A_TIME = 3.0
"""A time is given in a longer unit from this many of it on."""
BARE = ("%", "°C", "points", "x", "×")
"""Units that take no prefix."""
PLAIN_LOW, PLAIN_HIGH = 0.001, 99_999.0
"""Numbers between these are written out on an axis of many decades."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit with its prefix.

    Attributes:
        symbol: As it is written after a number or on an axis; "" for a plain number.
        size: How many of the unit without prefix it is.
        base: The unit without prefix, if every number has a prefix of its own; or None.
    """

    symbol: str
    size: float = 1.0
    base: str | None = None

    def names(self, values: Sequence[float]) -> list[str]:
        """Labels of the ticks of one axis."""
        if self.base is not None:
            return [amount(value, self.base, digits=3) for value in values]
        shown = [value / self.size for value in values]
        steps = [abs(b - a) for a, b in pairwise(shown) if b != a]
        finest = min(steps, default=max(map(abs, shown), default=1.0)) or 1.0
        even = len({f"{step:.6g}" for step in steps}) <= 1
        if not even or len(shown) < 2:  # ratios: each with its own digits
            return [_minus(f"{value:.6g}") for value in shown]
        digits = min(max(0, -math.floor(math.log10(finest) + 1e-9)), 12)
        return [_minus(f"{value + 0.0:.{digits}f}") for value in shown]


def unit_for(unit: str, sizes: Iterable[float], log: bool) -> Unit:
    """The unit that suits the largest of some values."""
    known = [size for size in sizes if size > 0]
    largest = max(known, default=1.0)
    if unit in BARE:
        return Unit(unit)
    if log and known:
        if min(known) >= PLAIN_LOW and largest <= PLAIN_HIGH:
            return Unit(unit)
        return Unit("", 1.0, unit)
    if unit == "s":
        for size, name in TIMES:
            if largest >= FEWEST_OF_A_TIME * size:
                return Unit(name, size)
        return _prefixed(unit, min(largest, 1.0))
    if not unit and 1e-3 <= largest < 1e5:
        return Unit("")
    return _prefixed(unit, largest)


def _prefixed(unit: str, largest: float) -> Unit:
    size, prefix = next((p for p in PREFIXES if largest >= p[0] * 0.9999), PREFIXES[-1])
    if not unit and size < 1:
        return Unit("")
    symbol = (
        f"{prefix}{unit}"
        if unit
        else {"k": "thousands", "M": "millions"}.get(
            prefix, f"×{size:g}" if prefix else ""
        )
    )
    return Unit(symbol, size)


def amount(value: float, unit: str, digits: int = 3) -> str:
    """A number with the prefix that suits it: `54.8 J`, `1.2 k`, `–` for unknown."""
    if not math.isfinite(value):
        return "–"
    if unit in BARE or value == 0:
        return f"{_minus(_digits(value, digits))} {unit}".rstrip()
    size = abs(value)
    if unit == "s" and size >= 1:
        times = (t for t in TIMES if size >= FEWEST_OF_A_TIME * t[0])
        step, name = next(times, (1.0, "s"))
    else:
        near = size * (1 + 0.5 * 10.0**-digits)  # 999.96 is shown as 1.00 k
        step, prefix = next((p for p in PREFIXES if near >= p[0]), PREFIXES[-1])
        name = f"{prefix}{unit}"
    return f"{_minus(_digits(value / step, digits))} {name}".rstrip()


def _digits(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    whole = math.floor(math.log10(abs(value))) + 1
    if whole > 15 or whole < -6:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{max(0, digits - whole)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _minus(text: str) -> str:
    return text.replace("-", "−")
