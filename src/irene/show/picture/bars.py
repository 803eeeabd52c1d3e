"""Bars from left to right with error bars and their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from irene.energy import Energy
from irene.show.picture.axis import Axis, AxisSpec, is_drawable, make_axis
from irene.show.picture.frame import EDGE, Key, Sheet, checked, role
from irene.show.picture.lettering import shortened, text_width
from irene.show.picture.picture import Picture
from irene.show.picture.shapes import Canvas
from irene.show.picture.units import amount

THICK, BETWEEN = 18.0, 10.0
NAME_SIZE = 13.0
LONGEST_NAME = 0.38
"""Part of the picture that names may take."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Attributes:
        name: What it is called; bars of one name stand together.
        value: Its length; not-a-number where it is not known.
        low: Lower end of its interval, or None.
        high: Upper end of its interval, or None.
        group: Bars of a group have one colour.
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    group: str = ""

    @classmethod
    def of(cls, name: str, energy: Energy | None, group: str = "") -> Bar:
        """A bar of an energy with its interval; an empty one where it is not known."""
        if energy is None:
            return cls(name, float("nan"), group=group)
        return cls(name, energy.joules, energy.low, energy.high, group)


def bar_chart(
    bars: Sequence[Bar], title: str, x: AxisSpec, width: float = 860
) -> Picture:
    """Bars below each other, from zero on, each with its value at its end."""
    known = [_with_known_ends(bar) for bar in bars if is_drawable(_checked(bar).value)]
    groups = list(dict.fromkeys(bar.group for bar in known))
    keys = [Key(g, role(i), "area") for i, g in enumerate(groups) if g]
    sheet = Sheet(title, width, keys)
    top = sheet.top + 6
    rows = _rows(known, top)
    bottom = (rows[-1] + THICK + BETWEEN) if rows else top + 60
    names_end, axis = _axis(known, x, width)
    sheet.draw_flat_axis(axis, top, bottom)
    if axis.low <= 0 <= axis.high:
        zero = axis.place(0)
        sheet.line([(zero, top), (zero, bottom)], "soft", 1.2, mark=False)
    if not known:
        sheet.say_no_data((axis.start + axis.end) / 2, (top + bottom) / 2)
    before: str | None = None
    for bar, y in zip(known, rows, strict=True):
        if bar.name != before:
            words = shortened(bar.name, NAME_SIZE, names_end - EDGE)
            at = (names_end, y + THICK / 2 + 4)
            sheet.text(at, words, NAME_SIZE, "ink", "end")
        _draw_bar(sheet, axis, bar, y, role(groups.index(bar.group)), x.unit)
        before = bar.name
    lost = len(bars) - len(known)
    if lost:
        sheet.notes.append(f"{lost} of {len(bars)} values not known: not drawn.")
    told = "; ".join(
        f"{' '.join(filter(None, (b.name, b.group)))} {amount(b.value, x.unit)}"
        for b in known[:20]
    )
    table = [(b.name, b.group, b.value, b.low, b.high) for b in known]
    columns = ("name", "group", "value", "low", "high")
    return sheet.picture(bottom + 56, columns, table, told)


def _checked(bar: Bar) -> Bar:
    checked((bar.value, bar.low, bar.high), bar.name)
    return bar


def _with_known_ends(bar: Bar) -> Bar:
    ends = (bar.low, bar.high)
    if all(end is not None and is_drawable(end) for end in ends):
        return bar
    return replace(bar, low=None, high=None)


def _rows(bars: Sequence[Bar], top: float) -> list[float]:
    """Upper edge of every bar; bars of one name touch."""
    found, y = [], top + BETWEEN
    for i, bar in enumerate(bars):
        if i:
            y += THICK + (0 if bar.name == bars[i - 1].name else BETWEEN)
        found.append(y)
    return found


def _axis(bars: Sequence[Bar], x: AxisSpec, width: float) -> tuple[float, Axis]:
    """Where the names end, and the axis beside them."""
    widest = max((text_width(bar.name, NAME_SIZE) for bar in bars), default=0.0)
    names_end = EDGE + min(widest, LONGEST_NAME * width)
    left = names_end + 10
    values = [v for b in bars for v in (b.value, b.low, b.high, 0.0) if v is not None]
    longest = max((text_width(amount(b.value, x.unit), 12) for b in bars), default=0)
    right = width - EDGE - longest - 12
    if any(value < 0 for value in values):
        left += longest + 8
    spec = replace(x, log=False)
    return names_end, make_axis(spec, values, left, max(right, left + 60), tight=True)


def _draw_bar(
    canvas: Canvas, axis: Axis, bar: Bar, y: float, colour: str, unit: str
) -> None:
    zero, end = axis.place(0), axis.place(bar.value)
    told = amount(bar.value, unit)
    hint = f"{bar.name} {bar.group}".strip() + f": {told}"
    at, length = (min(zero, end), y), abs(end - zero)
    canvas.rectangle(at, (length, THICK - 2), colour, hint=hint)
    tip = end
    if bar.low is not None and bar.high is not None:
        low, high = axis.place(bar.low), axis.place(bar.high)
        middle = y + THICK / 2 - 1
        canvas.whisker((low, middle), (high, middle), "ink")
        tip = min(end, low) if bar.value < 0 else max(end, high)
    side, anchor = (-6, "end") if bar.value < 0 else (6, "start")
    canvas.text((tip + side, y + THICK / 2 + 3.5), told, 12, "ink", anchor)
