"""From values to pixels, with ticks at numbers that people like."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from irene.show.picture.lettering import text_width
from irene.show.picture.units import unit_for

TICK_SIZE = 12.0
HUGE = 1e100
TINY = 1e-100
"""What is beyond these two is no quantity that anybody measured."""
SAME = 1e-9
"""Values that differ by less than this part of themselves cannot be told apart."""


@dataclass(frozen=True, slots=True)
class AxisSpec:
    """What is wanted of an axis.

    Attributes:
        label: What it shows, without the unit.
        unit: `J`, `W`, `s`, `B`, `%`, … or "" for a plain number.
        log: Whether equal ratios are equally far apart.
        low: The axis begins here or lower; None to let the values decide.
        high: The axis ends here or higher; None to let the values decide.
        ticks: Values to label; empty for nice numbers.
    """

    label: str
    unit: str = ""
    log: bool = False
    low: float | None = None
    high: float | None = None
    ticks: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis with its place: pixels of both ends, and the values that are labelled."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    names: tuple[str, ...]
    label: str
    log: bool = False

    def place(self, value: float) -> float:
        """Pixel of a value."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def is_drawable(value: float, log: bool = False) -> bool:
    """Whether an axis can have a place for the value."""
    if not math.isfinite(value) or abs(value) > HUGE:
        return False
    return value > TINY if log else True


def make_axis(
    spec: AxisSpec,
    values: Iterable[float],
    start: float,
    end: float,
    padding: float = 0.0,
    tight: bool = False,
) -> Axis:
    """An axis that covers all values.

    Args:
        spec: What is wanted.
        values: What it must cover; those without a place are left out.
        start: Pixel of the lowest value.
        end: Pixel of the highest.
        padding: Room beyond the values at both ends, as a part of their span.
        tight: Whether it ends with the values, not at the next nice number.
    """
    wanted = [v for v in (spec.low, spec.high, *spec.ticks) if v is not None]
    known = [float(v) for v in (*values, *wanted) if is_drawable(v, spec.log)]
    low, high = _range(known, spec, padding)
    upright = start > end
    length = abs(end - start)
    if spec.log:
        ticks, low, high = _log_ticks(low, high, length, upright, tight)
    else:
        ticks, low, high = _linear_ticks(low, high, length, upright, tight, spec.unit)
    ticks = list(spec.ticks) or ticks
    unit = unit_for(spec.unit, [abs(t) for t in ticks], spec.log)
    names = tuple(unit.names(ticks))
    label = f"{spec.label}, {unit.symbol}" if unit.symbol else spec.label
    axis = Axis(low, high, start, end, tuple(ticks), names, label, spec.log)
    return _thinned(axis, upright)


def _range(
    known: Sequence[float], spec: AxisSpec, padding: float
) -> tuple[float, float]:
    if not known:
        return (1.0, 10.0) if spec.log else (0.0, 1.0)
    low, high = min(known), max(known)
    if spec.log:
        if high / low < 1 + SAME:
            return low / 2, high * 2
        ratio = (high / low) ** padding
        return max(low / ratio, TINY), high * ratio
    if high - low <= SAME * max(abs(low), abs(high)) or high - low < TINY:
        half = 0.5 * max(abs(low), abs(high))
        half = half if half > TINY else 0.5
        held = spec.low == low or spec.high == high  # a zero line stays where it is
        if held and spec.high != high:
            return low, low + 2 * half
        return low - half, high + half
    room = padding * (high - low)
    pinned_low = spec.low is not None and spec.low <= low
    pinned_high = spec.high is not None and spec.high >= high
    return low - (0 if pinned_low else room), high + (0 if pinned_high else room)


def _linear_ticks(
    low: float, high: float, length: float, upright: bool, tight: bool, unit: str
) -> tuple[list[float], float, float]:
    # Ticks are nice in the unit they are shown in: minutes, not hundreds of seconds.
    size = unit_for(unit, [abs(low), abs(high)], False).size
    most = max(2, min(length / (34 if upright else 70), 10))
    step = _nice((high - low) / size / most) * size
    first, last = math.ceil(low / step - SAME), math.floor(high / step + SAME)
    if not tight:
        first, last = math.floor(low / step + SAME), math.ceil(high / step - SAME)
        low, high = min(low, first * step), max(high, last * step)
    ticks = [k * step for k in range(first, last + 1)]
    return ticks, low, high


def _nice(rough: float) -> float:
    """The next of 1, 2, 5, 10, 20, … from a value on."""
    decade = 10.0 ** math.floor(math.log10(rough))
    return next(
        (m * decade for m in (1, 2, 5, 10) if m * decade >= rough * (1 - SAME)),
        10 * decade,
    )


def _log_ticks(
    low: float, high: float, length: float, upright: bool, tight: bool
) -> tuple[list[float], float, float]:
    decades = math.log10(high / low)
    most = length / (26 if upright else 48)
    if decades < 0.7:  # too few of 1, 2, 5 in it: even steps
        ticks, *_ = _linear_ticks(low, high, length, upright, True, "")
        return [t for t in ticks if t > 0], low, high
    marks = (1.0, 2.0, 5.0) if 3 * decades <= most else (1.0,)
    stride = max(1, math.ceil(decades / most))
    stride = stride if stride == 1 else 3 * math.ceil(stride / 3)  # m, 1, k, …
    bottom = (math.floor(math.log10(low)) // stride - 1) * stride
    top = math.ceil(math.log10(high)) + stride
    every = [m * 10.0**k for k in range(bottom, top + 1, stride) for m in marks]
    if not tight:
        # A tick that cannot be told from a value is its end, yet holds not all of it.
        low = min(low, max((t for t in every if t <= low * (1 + SAME)), default=low))
        high = max(
            high, min((t for t in every if t >= high * (1 - SAME)), default=high)
        )
    inside = [t for t in every if low * (1 - SAME) <= t <= high * (1 + SAME)]
    return inside, low, high


def _thinned(axis: Axis, upright: bool) -> Axis:
    """The axis with every label that would touch the one before left out."""
    kept: list[int] = []
    for i, (tick, name) in enumerate(zip(axis.ticks, axis.names, strict=True)):
        if kept:
            before = kept[-1]
            apart = abs(axis.place(tick) - axis.place(axis.ticks[before]))
            widths = [text_width(n, TICK_SIZE) for n in (axis.names[before], name)]
            needed = 1.15 * TICK_SIZE if upright else sum(widths) / 2 + 8
            if apart < needed:
                continue
        kept.append(i)
    ticks = tuple(axis.ticks[i] for i in kept)
    return replace(axis, ticks=ticks, names=tuple(axis.names[i] for i in kept))
