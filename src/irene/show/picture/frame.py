"""The frame of a chart: title, legend, axes, notes, and what could not be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from irene.errors import UsageError
from irene.show.picture.axis import TICK_SIZE, Axis, AxisSpec, make_axis
from irene.show.picture.colours import SERIES
from irene.show.picture.lettering import Box, shortened, text_width
from irene.show.picture.picture import Picture, Value
from irene.show.picture.shapes import DASHES, MARKERS, Canvas, Shape

__all__ = [
    "EDGE",
    "Frame",
    "Key",
    "checked",
    "dash",
    "draw_legend",
    "draw_title",
    "make_frame",
    "marker_kind",
    "role",
    "with_notes",
]

TITLE_SIZE, LEGEND_SIZE, LABEL_SIZE, NOTE_SIZE = 16.0, 13.0, 13.0, 11.5
EDGE = 18.0


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend.

    Attributes:
        name: What it is called.
        role: Its colour.
        form: `line`, `area`, or a mark of `shapes.MARKERS`.
        dash: Of its line.
    """

    name: str
    role: str
    form: str = "line"
    dash: str = ""


def role(index: int) -> str:
    """Colour of a series."""
    return f"series{index % SERIES}"


def dash(index: int) -> str:
    """Dashes of a series; the first has none."""
    return DASHES[(index % SERIES + index // SERIES) % len(DASHES)]


def marker_kind(index: int) -> str:
    """Mark of a group of points."""
    kinds = tuple(MARKERS)[:5]
    return kinds[index % len(kinds)]


def checked(values: Iterable[float], of: str) -> list[float]:
    """Values as floats; what is not a number is allowed, and not drawn.

    Args:
        values: Any numbers.
        of: What they are, for the message.

    Raises:
        UsageError: One is infinite.
    """
    found = [float(value) for value in values]
    for value in found:
        if value in (float("inf"), float("-inf")):
            raise UsageError(f"cannot draw {of}: it has an infinite value")
    return found


@dataclass(slots=True)
class Frame:
    """A chart that is being drawn.

    Attributes:
        title: What it shows.
        width: Of the whole picture, px.
        height: Of the whole picture without its notes, px.
        x: From left to right.
        y: From below to above.
        canvas: What was drawn so far.
        notes: What a reader should know.
    """

    title: str
    width: float
    height: float
    x: Axis
    y: Axis
    canvas: Canvas
    notes: list[str] = field(default_factory=list)

    @property
    def box(self) -> Box:
        """The inside of the frame."""
        return Box(self.x.start, self.y.end, self.x.end, self.y.start)

    def skip(self, count: int, what: str) -> None:
        """Note values that have no place."""
        if count:
            are = "is" if count == 1 else "are"
            values = "value" if count == 1 else "values"
            why = "not known"
            if self.x.log or self.y.log:
                why += " or not above zero on an axis of ratios"
            self.notes.append(f"{count} {values} of {what} {are} {why}: not drawn.")

    def finish(
        self,
        columns: Sequence[str],
        rows: Sequence[tuple[Value, ...]],
        description: str,
    ) -> Picture:
        """The picture, with its notes below."""
        if not rows:
            middle = (self.x.start + self.x.end) / 2
            at = (middle, (self.y.start + self.y.end) / 2)
            self.canvas.text(at, "no data", 14, "soft", "middle")
        return with_notes(
            self.title,
            (self.width, self.height),
            self.canvas.shapes,
            columns,
            rows,
            description,
            self.notes,
        )


def with_notes(
    title: str,
    size: tuple[float, float],
    shapes: Sequence[Shape],
    columns: Sequence[str],
    rows: Sequence[tuple[Value, ...]],
    description: str,
    notes: Sequence[str],
) -> Picture:
    """A picture with its notes written below."""
    canvas = Canvas(list(shapes))
    width, height = size
    for note in notes:
        text = shortened(note, NOTE_SIZE, width - 2 * EDGE)
        canvas.text((EDGE, height), text, NOTE_SIZE, "soft")
        height += NOTE_SIZE * 1.5
    return Picture(
        title,
        width,
        height + (4 if notes else 0),
        tuple(canvas.shapes),
        tuple(columns),
        tuple(rows),
        description,
        tuple(notes),
    )


def draw_title(canvas: Canvas, title: str, width: float) -> float:
    """Write the title in as many lines as it needs; the height they took."""
    y = 0.0
    for line in _lines(title, TITLE_SIZE, width - 2 * EDGE):
        y += TITLE_SIZE * 1.3
        canvas.text((EDGE, y + 7), line, TITLE_SIZE, bold=True)
    return y + 14 if y else 10.0


def _lines(title: str, size: float, room: float) -> list[str]:
    lines: list[str] = []
    for word in title.split():
        if lines and text_width(f"{lines[-1]} {word}", size, True) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(shortened(word, size, room, True))
    return lines


def draw_legend(canvas: Canvas, keys: Sequence[Key], top: float, width: float) -> float:
    """Draw the legend in as many rows as it needs; where it ends."""
    if not keys:
        return top
    x, y = EDGE, top + 15
    for key in keys:
        name = shortened(key.name, LEGEND_SIZE, width - 2 * EDGE - 34)
        needed = 30 + text_width(name, LEGEND_SIZE) + 16
        if x > EDGE and x + needed > width - EDGE + 16:
            x, y = EDGE, y + 20
        _draw_key(canvas, key, x, y - 4.5)
        canvas.text((x + 30, y), name, LEGEND_SIZE)
        x += needed
    return y + 12


def _draw_key(canvas: Canvas, key: Key, x: float, y: float) -> None:
    if key.form == "line":
        canvas.line([(x, y), (x + 24, y)], key.role, 2.5, key.dash, mark=False)
    elif key.form == "area":
        canvas.rectangle((x + 5, y - 7), (14, 14), key.role, mark=False)
    else:
        canvas.marker((x + 14, y), key.form, key.role, mark=False)


def make_frame(
    title: str,
    x: AxisSpec,
    y: AxisSpec,
    xs: Iterable[float],
    ys: Iterable[float],
    keys: Sequence[Key] = (),
    size: tuple[float, float] = (860, 480),
    padding: float = 0.0,
    tight: bool = True,
    headroom: float = 0.0,
) -> Frame:
    """Title, legend and axes; the rest is for the chart to draw.

    Args:
        title: What it shows.
        x: From left to right.
        y: From below to above.
        xs: What the x axis must cover.
        ys: What the y axis must cover.
        keys: The legend.
        size: Of the whole picture, px.
        padding: Room beyond the values on both axes, as a part of their span.
        tight: Whether the x axis ends with the values.
        headroom: Room between legend and chart, px.
    """
    canvas = Canvas()
    width, height = size
    top = draw_title(canvas, title, width)
    top = draw_legend(canvas, keys, top, width) + 8 + headroom
    bottom = height - (58 if x.label else 38)
    bottom = max(bottom, top + 60)
    upright = make_axis(y, ys, bottom, top, padding)
    widest = max((text_width(n, TICK_SIZE) for n in upright.names), default=0.0)
    left = EDGE + (22 if upright.label else 0) + widest + 8
    flat = make_axis(x, xs, left, width - EDGE - 10, padding, tight)
    frame = Frame(title, width, bottom + (58 if x.label else 38), flat, upright, canvas)
    _draw_axes(frame)
    return frame


def _draw_axes(frame: Frame) -> None:
    canvas, x, y = frame.canvas, frame.x, frame.y
    for tick, name in zip(x.ticks, x.names, strict=True):
        at = x.place(tick)
        canvas.line([(at, y.start), (at, y.end)], "grid", 1, mark=False)
        canvas.text((at, y.start + 18), name, TICK_SIZE, "soft", "middle")
    for tick, name in zip(y.ticks, y.names, strict=True):
        at = y.place(tick)
        canvas.line([(x.start, at), (x.end, at)], "grid", 1, mark=False)
        canvas.text((x.start - 7, at + 4), name, TICK_SIZE, "soft", "end")
    corner = [(x.start, y.end), (x.start, y.start), (x.end, y.start)]
    canvas.line(corner, "soft", 1.2, mark=False)
    middle = (x.start + x.end) / 2
    if x.label:
        room = frame.width - 2 * EDGE
        words = shortened(x.label, LABEL_SIZE, room)
        canvas.text((middle, y.start + 42), words, LABEL_SIZE, "ink", "middle")
    if y.label:
        words = shortened(y.label, LABEL_SIZE, y.start - y.end + 40)
        beside = (EDGE + 6, (y.start + y.end) / 2)
        canvas.text(beside, words, LABEL_SIZE, "ink", "middle", upwards=True)
