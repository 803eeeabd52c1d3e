"""What charts are drawn on: paper with title, legend and notes, and axes around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from irene.errors import UsageError
from irene.show.picture.axis import TICK_SIZE, Axis, AxisSpec, make_axis
from irene.show.picture.colours import SERIES
from irene.show.picture.lettering import Box, shortened, text_width
from irene.show.picture.picture import Picture, Value
from irene.show.picture.shapes import DASHES, MARKERS, Canvas

TITLE_SIZE, LEGEND_SIZE, LABEL_SIZE, NOTE_SIZE = 16.0, 13.0, 13.0, 11.5
EDGE = 18.0


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend: a `line`, an `area`, or a mark of `shapes.MARKERS`."""

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


def checked(values: Iterable[float | None], of: str) -> list[float]:
    """Values as floats; what is not a number is allowed, and not drawn."""
    found = [float(value) for value in values if value is not None]
    for value in found:
        if value in (float("inf"), float("-inf")):
            raise UsageError(f"cannot draw {of}: it has an infinite value")
    return found


class Sheet(Canvas):
    """Paper with a title and a legend.

    Attributes:
        title: What it shows.
        width: Of the whole picture, px.
        top: Where the room below title and legend begins, px.
        notes: What a reader should know; they are written below.
    """

    def __init__(
        self,
        title: str,
        width: float,
        keys: Sequence[Key] = (),
    ) -> None:
        super().__init__()
        self.title = title
        self.width = width
        self.notes: list[str] = []
        self.top = self._draw_title()
        if keys:
            self.top = self._draw_legend(keys)

    def _draw_title(self) -> float:
        """Write the title in as many lines as it needs; where it ends."""
        y, room = 0.0, self.width - 2 * EDGE
        lines: list[str] = []
        for word in self.title.split():
            longer = f"{lines[-1]} {word}" if lines else ""
            if lines and text_width(longer, TITLE_SIZE, True) <= room:
                lines[-1] = longer
            else:
                lines.append(shortened(word, TITLE_SIZE, room, True))
        for line in lines:
            y += TITLE_SIZE * 1.3
            self.text((EDGE, y + 7), line, TITLE_SIZE, bold=True)
        return y + 14 if y else 10.0

    def _draw_legend(self, keys: Sequence[Key]) -> float:
        """Draw the legend in as many rows as it needs; where it ends."""
        x, y = EDGE, self.top + 15
        for key in keys:
            name = shortened(key.name, LEGEND_SIZE, self.width - 2 * EDGE - 34)
            needed = 30 + text_width(name, LEGEND_SIZE) + 16
            if x > EDGE and x + needed > self.width - EDGE + 16:
                x, y = EDGE, y + 20
            self._draw_key(key, x, y - 4.5)
            self.text((x + 30, y), name, LEGEND_SIZE)
            x += needed
        return y + 12

    def _draw_key(self, key: Key, x: float, y: float) -> None:
        if key.form == "line":
            self.line([(x, y), (x + 24, y)], key.role, 2.5, key.dash, mark=False)
        elif key.form == "area":
            self.rectangle((x + 5, y - 7), (14, 14), key.role, mark=False)
        else:
            self.marker((x + 14, y), key.form, key.role, mark=False)

    def draw_flat_axis(self, axis: Axis, top: float, bottom: float) -> None:
        """Lines from top to bottom at the ticks, their names and the label below."""
        for tick, name in zip(axis.ticks, axis.names, strict=True):
            at = axis.place(tick)
            self.line([(at, top), (at, bottom)], "grid", 1, mark=False)
            self.text((at, bottom + 18), name, TICK_SIZE, "soft", "middle")
        if axis.label:
            words = shortened(axis.label, LABEL_SIZE, self.width - 2 * EDGE)
            middle = (axis.start + axis.end) / 2
            self.text((middle, bottom + 42), words, LABEL_SIZE, "ink", "middle")

    def say_no_data(self, x: float, y: float, anchor: str = "middle") -> None:
        """Write in the chart that there is nothing to draw."""
        self.text((x, y), "no data", 14, "soft", anchor)

    def picture(
        self,
        height: float,
        columns: Sequence[str],
        rows: Sequence[tuple[Value, ...]],
        description: str,
    ) -> Picture:
        """The finished picture, with its notes below."""
        drawn = Picture(
            self.title,
            self.width,
            height,
            tuple(self.shapes),
            tuple(columns),
            tuple(rows),
            description,
        )
        return signed(drawn, *self.notes)


def signed(picture: Picture, *notes: str) -> Picture:
    """A picture with lines below it, such as where its numbers come from."""
    under, height = Canvas(), picture.height
    for note in notes:
        text = shortened(note, NOTE_SIZE, picture.width - 2 * EDGE)
        under.text((EDGE, height + 2), text, NOTE_SIZE, "soft")
        height += NOTE_SIZE * 1.5
    return replace(
        picture,
        height=height + (4 if notes else 0),
        shapes=(*picture.shapes, *under.shapes),
        notes=(*picture.notes, *notes),
    )


class Frame(Sheet):
    """Paper with two axes; the rest is for the chart to draw.

    Args:
        title: What it shows.
        x: From left to right.
        y: From below to above.
        xs: What the x axis must cover.
        ys: What the y axis must cover.
        keys: The legend.
        size: Of the whole picture without its notes, px.
        padding: Room beyond the values on both axes, as a part of their span.
        headroom: Room between legend and chart, px.
    """

    def __init__(
        self,
        title: str,
        x: AxisSpec,
        y: AxisSpec,
        xs: Iterable[float],
        ys: Iterable[float],
        keys: Sequence[Key] = (),
        size: tuple[float, float] = (860, 480),
        padding: float = 0.0,
        headroom: float = 0.0,
    ) -> None:
        super().__init__(title, size[0], keys)
        top, below = self.top + 8 + headroom, 58 if x.label else 38
        bottom = max(size[1] - below, top + 60)
        self.height = bottom + below
        self.y = make_axis(y, ys, bottom, top, padding)
        widest = max((text_width(n, TICK_SIZE) for n in self.y.names), default=0.0)
        left = EDGE + (22 if self.y.label else 0) + widest + 8
        right = self.width - EDGE - 10
        self.x = make_axis(x, xs, left, right, padding, tight=True)
        self._draw_axes()

    def _draw_axes(self) -> None:
        x, y = self.x, self.y
        self.draw_flat_axis(x, y.end, y.start)
        for tick, name in zip(y.ticks, y.names, strict=True):
            at = y.place(tick)
            self.line([(x.start, at), (x.end, at)], "grid", 1, mark=False)
            self.text((x.start - 7, at + 4), name, TICK_SIZE, "soft", "end")
        corner = [(x.start, y.end), (x.start, y.start), (x.end, y.start)]
        self.line(corner, "soft", 1.2, mark=False)
        if y.label:
            words = shortened(y.label, LABEL_SIZE, y.start - y.end + 40)
            beside = (EDGE + 6, (y.start + y.end) / 2)
            self.text(beside, words, LABEL_SIZE, "ink", "middle", upwards=True)

    @property
    def box(self) -> Box:
        """The inside of the frame."""
        return Box(self.x.start, self.y.end, self.x.end, self.y.start)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Pixels of a point."""
        return self.x.place(x), self.y.place(y)

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
        self, columns: Sequence[str], rows: Sequence[tuple[Value, ...]], told: str
    ) -> Picture:
        """The finished picture."""
        if not rows:
            middle = (self.x.start + self.x.end) / 2
            self.say_no_data(middle, (self.y.start + self.y.end) / 2)
        return self.picture(self.height, columns, rows, told)
