"""Points with names and intervals, and the step line of the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from irene.show.picture.axis import AxisSpec, is_drawable
from irene.show.picture.frame import Frame, Key, checked, marker_kind, role
from irene.show.picture.lettering import Box, Places, text_width
from irene.show.picture.picture import Picture
from irene.show.picture.units import amount

__all__ = ["Better", "Dot", "pareto_front", "scatter"]

Better = Literal["less", "more"]
NAME_SIZE = 12.5
RADIUS = 6.0


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of a scatter chart.

    Attributes:
        x: Its place from left to right.
        y: Its place from below to above.
        name: Written beside it; "" for none.
        group: Points of a group have one colour and mark.
        x_low: Lower end of the interval of x, or None.
        x_high: Upper end of the interval of x, or None.
        y_low: Lower end of the interval of y, or None.
        y_high: Upper end of the interval of y, or None.
    """

    x: float
    y: float
    name: str = ""
    group: str = ""
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None


def pareto_front(
    dots: Sequence[Dot], better: tuple[Better, Better] = ("less", "more")
) -> list[Dot]:
    """The points that no other is better than in both, by growing x.

    Args:
        dots: Any points; those that are not numbers are left out.
        better: Whether less or more of x, and of y, is better.
    """
    x_sign, y_sign = (1 if side == "less" else -1 for side in better)
    known = [dot for dot in dots if is_drawable(dot.x) and is_drawable(dot.y)]
    front: list[Dot] = []
    for dot in sorted(known, key=lambda d: (x_sign * d.x, y_sign * d.y)):
        if not front or y_sign * dot.y < y_sign * front[-1].y:
            front.append(dot)
    return sorted(front, key=lambda d: d.x)


def scatter(
    dots: Sequence[Dot],
    title: str,
    x: AxisSpec,
    y: AxisSpec,
    front: tuple[Better, Better] | None = None,
    size: tuple[float, float] = (860, 480),
) -> Picture:
    """Points, each with its name where there is room for it.

    Args:
        dots: The points.
        title: What it shows.
        x: From left to right.
        y: From below to above.
        front: Draw the Pareto front: whether less or more of x, and of y, is better.
        size: Of the picture, px.

    Raises:
        UsageError: A value is infinite.
    """
    known = [dot for dot in dots if _has_place(dot, x, y)]
    xs = [v for d in known for v in (d.x, d.x_low, d.x_high) if v is not None]
    ys = [v for d in known for v in (d.y, d.y_low, d.y_high) if v is not None]
    groups = list(dict.fromkeys(dot.group for dot in known))
    keys = [Key(g, role(i), marker_kind(i)) for i, g in enumerate(groups) if g]
    best = pareto_front(known, front) if front else []
    if front:
        keys.append(Key("Pareto front: nothing is better in both", "soft", dash="6 4"))
    frame = Frame(title, x, y, xs, ys, keys, size, padding=0.06)
    places = Places(frame.box)
    if front:
        places.taken += _draw_front(frame, best, front)
    for dot in known:
        _draw_intervals(frame, dot)
    for dot in known:
        index = groups.index(dot.group)
        at = frame.place(dot.x, dot.y)
        told = f"{amount(dot.x, x.unit)}, {amount(dot.y, y.unit)}"
        hint = f"{dot.name or dot.group}: {told}".lstrip(": ")
        frame.marker(at, marker_kind(index), role(index), RADIUS, hint)
    _draw_names(frame, known, places)
    frame.skip(len(dots) - len(known), title)
    told = f"{len(known)} points: {y.label} against {x.label}."
    if best:
        names = ", ".join(dot.name or f"{dot.x:g}" for dot in best)
        told += f" Nothing is better in both than {names}."
    return frame.finish(COLUMNS, _rows(known, best if front else None), told)


COLUMNS = ("name", "group", "x", "y", "x_low", "x_high", "y_low", "y_high", "front")


def _rows(
    dots: Sequence[Dot], best: Sequence[Dot] | None
) -> list[tuple[str | float | None, ...]]:
    """The table; its last column says who is on the front, if there is one."""
    on_front = {id(dot) for dot in best or ()}
    return [
        (d.name, d.group, d.x, d.y, d.x_low, d.x_high, d.y_low, d.y_high,
         None if best is None else int(id(d) in on_front))
        for d in dots
    ]  # fmt: skip


def _has_place(dot: Dot, x: AxisSpec, y: AxisSpec) -> bool:
    of = dot.name or dot.group or "a point"
    xs = checked((dot.x, dot.x_low, dot.x_high), of)
    ys = checked((dot.y, dot.y_low, dot.y_high), of)
    return all(is_drawable(v, x.log) for v in xs) and all(
        is_drawable(v, y.log) for v in ys
    )


def _draw_front(
    frame: Frame, best: Sequence[Dot], better: tuple[Better, Better]
) -> list[Box]:
    """Steps between the best points, and on to the edges where they are still best.

    Returns:
        The ground that the steps take.
    """
    places = [frame.place(d.x, d.y) for d in best]
    if not places:
        return []
    level_first = better[0] == "less"
    steps = [places[0]]
    for x, y in places[1:]:
        corner = (x, steps[-1][1]) if level_first else (steps[-1][0], y)
        steps += [corner, (x, y)]
    worst_y = frame.y.start if better[1] == "more" else frame.y.end
    if level_first:
        steps = [(steps[0][0], worst_y), *steps, (frame.x.end, steps[-1][1])]
    else:
        steps = [(frame.x.start, steps[0][1]), *steps, (steps[-1][0], worst_y)]
    frame.line(steps, "soft", 1.8, "6 4")
    return [
        Box(min(a, c) - 1, min(b, d) - 1, max(a, c) + 1, max(b, d) + 1)
        for (a, b), (c, d) in pairwise(steps)
    ]


def _draw_intervals(frame: Frame, dot: Dot) -> None:
    if dot.x_low is not None and dot.x_high is not None:
        ends = frame.place(dot.x_low, dot.y), frame.place(dot.x_high, dot.y)
        frame.whisker(*ends, "soft", upright=False)
    if dot.y_low is not None and dot.y_high is not None:
        ends = frame.place(dot.x, dot.y_low), frame.place(dot.x, dot.y_high)
        frame.whisker(*ends, "soft", upright=True)


def _draw_names(frame: Frame, dots: Sequence[Dot], places: Places) -> None:
    for dot in dots:
        x, y = frame.place(dot.x, dot.y)
        places.taken.append(Box(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS))
        if dot.x_low is not None and dot.x_high is not None:
            low, high = frame.x.place(dot.x_low), frame.x.place(dot.x_high)
            places.taken.append(Box(low, y - 2, high, y + 2))
    homeless = 0
    for dot in dots:
        if not dot.name:
            continue
        at = frame.place(dot.x, dot.y)
        found = places.find(at, dot.name, NAME_SIZE)
        if found is None:
            homeless += 1
            continue
        (x, y), far = found
        if far:
            near = min(max(at[0], x - 2), x + text_width(dot.name, NAME_SIZE) + 2)
            frame.line([at, (near, y - 4)], "soft", 0.8, mark=False)
        frame.text((x, y), dot.name, NAME_SIZE)
    if homeless:
        names = "name has" if homeless == 1 else "names have"
        frame.notes.append(f"{homeless} {names} no room here; the table has them.")
