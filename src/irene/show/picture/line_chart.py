"""Lines with bands, and cumulative distributions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from irene.energy import Energy
from irene.errors import UsageError
from irene.show.picture.axis import AxisSpec, is_drawable
from irene.show.picture.frame import Frame, Key, checked, dash, role
from irene.show.picture.picture import Picture, Value
from irene.show.picture.shapes import Point
from irene.show.picture.units import amount


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points, with the interval around it.

    Attributes:
        name: What it is called.
        x: Where its points are; not-a-number where nothing is known.
        y: Their values; not-a-number leaves a gap.
        low: Lower ends of the interval; empty for none.
        high: Upper ends of the interval; empty for none.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    @classmethod
    def of(cls, name: str, energies: Iterable[tuple[float, Energy]]) -> Line:
        """A line of energies, each with its interval, by where they are."""
        rows = [(float(x), e.joules, e.low, e.high) for x, e in energies]
        x, y, low, high = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(name, x, y, low, high)


def line_chart(
    lines: Sequence[Line],
    title: str,
    x: AxisSpec,
    y: AxisSpec,
    size: tuple[float, float] = (860, 480),
) -> Picture:
    """Lines over a common axis."""
    tables = [_points(line) for line in lines]
    drawn = [[p for p in table if _has_place(p, x, y)] for table in tables]
    xs = [p[0] for points in drawn for p in points]
    ys = [v for points in drawn for p in points for v in p[1:] if v is not None]
    keys = [
        Key(line.name, role(i), dash=dash(i)) for i, line in enumerate(lines)
    ] if len(lines) > 1 else []  # fmt: skip
    frame = Frame(title, x, y, xs, ys, keys, size)
    for i, (line, table) in enumerate(zip(lines, tables, strict=True)):
        pieces = _pieces(table, x, y)
        for piece in pieces:
            _draw_band(frame, piece, role(i))
        for piece in pieces:
            _draw_piece(frame, piece, role(i), dash(i))
        frame.skip(len(table) - len(drawn[i]), line.name)
    rows = [
        (line.name, *point)
        for line, points in zip(lines, drawn, strict=True)
        for point in points
    ]
    return frame.finish(
        ("series", "x", "y", "low", "high"), rows, _told(lines, drawn, x, y)
    )


Row = tuple[float, float, float | None, float | None]


def _points(line: Line) -> list[Row]:
    lists = [checked(v, line.name) for v in (line.x, line.y, line.low, line.high)]
    xs, ys, low, high = lists
    if len(xs) != len(ys) or len(low) not in (0, len(ys)) or len(low) != len(high):
        raise UsageError(
            f"cannot draw {line.name}: {len(xs)} places, {len(ys)} values, "
            f"{len(low)} lower and {len(high)} upper ends"
        )
    ends = zip(low, high, strict=True) if low else [(None, None)] * len(xs)
    return [(a, b, *pair) for a, b, pair in zip(xs, ys, ends, strict=True)]


def _has_place(point: Row, x: AxisSpec, y: AxisSpec) -> bool:
    at, *values = point
    return is_drawable(at, x.log) and all(
        value is None or is_drawable(value, y.log) for value in values
    )


def _pieces(table: Iterable[Row], x: AxisSpec, y: AxisSpec) -> list[list[Row]]:
    """The points in a row that have a place."""
    pieces: list[list[Row]] = [[]]
    for point in table:
        if _has_place(point, x, y):
            pieces[-1].append(point)
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _draw_band(frame: Frame, piece: Sequence[Row], colour: str) -> None:
    if piece[0][2] is None or len(piece) < 2:
        return
    there = [frame.place(p[0], p[3]) for p in piece if p[3] is not None]
    back = [frame.place(p[0], p[2]) for p in reversed(piece) if p[2] is not None]
    frame.area(there + back, colour, 0.22)


def _draw_piece(frame: Frame, piece: Sequence[Row], colour: str, dashes: str) -> None:
    points = [frame.place(p[0], p[1]) for p in piece]
    if len(points) > 1:
        frame.line(points, colour, 2.5, dashes)
        return
    at, _, low, high = piece[0]
    if low is not None and high is not None:
        frame.line([frame.place(at, v) for v in (low, high)], colour, 2.5)
    frame.marker(points[0], "circle", colour, 4)


def _told(
    lines: Sequence[Line], drawn: Sequence[Sequence[Row]], x: AxisSpec, y: AxisSpec
) -> str:
    told = [f"{y.label} over {x.label}."]
    for line, points in zip(lines, drawn, strict=True):
        if not points:
            continue
        values = [p[1] for p in points]
        low, high = (amount(v, y.unit) for v in (min(values), max(values)))
        told.append(f"{line.name}: {len(points)} points from {low} to {high}.")
    return " ".join(told)


def distribution(
    samples: Mapping[str, Sequence[float]],
    title: str,
    x: AxisSpec,
    of: str = "values",
    points: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    size: tuple[float, float] = (860, 480),
) -> Picture:
    """Cumulative distributions: which part of the values is at most as large.

    Args:
        samples: Values of each series, in any order.
        title: What it shows.
        x: Axis of the values.
        of: What is counted, for the upright axis.
        points: Single points to compare with: value, and part in percent.
        size: Of the picture, px.
    """
    y = AxisSpec(f"{of} up to here", "%", low=0, high=100, ticks=(0, 25, 50, 75, 100))
    given = {name: checked(values, name) for name, values in samples.items()}
    known = {
        name: sorted(v for v in values if is_drawable(v, x.log))
        for name, values in given.items()
    }
    more = {name: list(pairs) for name, pairs in (points or {}).items()}
    xs = [v for values in known.values() for v in values]
    xs += [pair[0] for pairs in more.values() for pair in pairs]
    keys = [Key(name, role(i), dash=dash(i)) for i, name in enumerate(known)]
    keys += [Key(name, "ink", "diamond") for name in more]
    frame = Frame(title, x, y, xs, [0, 100], keys, size)
    rows: list[tuple[Value, ...]] = []
    for i, (name, values) in enumerate(known.items()):
        rows += _draw_steps(frame, name, values, i)
        frame.skip(len(given[name]) - len(values), name)
    for name, pairs in more.items():
        for value, part in pairs:
            at = frame.place(value, part)
            frame.marker(at, "diamond", "ink", 5, f"{name}: {value:g}")
            rows.append((name, float(value), float(part)))
    told = (
        f"{name}: half of {len(values)} {of} up to "
        f"{amount(values[(len(values) - 1) // 2], x.unit)}."
        for name, values in known.items()
        if values
    )
    return frame.finish(("series", "value", "percent"), rows, " ".join(told))


def _draw_steps(
    frame: Frame, name: str, values: Sequence[float], index: int
) -> list[tuple[Value, ...]]:
    """One curve: straight up at each value; then on to the end of the axis."""
    if not values:
        return []
    rows: list[tuple[Value, ...]] = []
    steps: list[Point] = [frame.place(values[0], 0)]
    for i, value in enumerate(values):
        percent = 100 * (i + 1) / len(values)
        rows.append((name, value, percent))
        x, y = frame.place(value, percent)
        steps += [(x, steps[-1][1]), (x, y)]
    steps.append((frame.x.end, steps[-1][1]))
    frame.line(_without_repeats(steps), role(index), 2.5, dash(index))
    return rows


def _without_repeats(points: Sequence[Point]) -> list[Point]:
    """Points on the same pixel, or in a row between two others, once."""
    kept: list[Point] = []
    for x, y in points:
        point = (round(x, 1), round(y, 1))
        if kept and point == kept[-1]:
            continue
        if len(kept) > 1 and kept[-2][0] == kept[-1][0] == point[0]:
            kept.pop()
        kept.append(point)
    return kept
