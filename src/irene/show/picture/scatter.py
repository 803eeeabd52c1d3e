"""Points with names and intervals, and the step line of the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from irene.show.picture.axis import AxisSpec, is_drawable
from irene.show.picture.frame import Frame, Key, checked, marker_kind, role
from irene.show.picture.lettering import Box, Places, text_width
from irene.show.picture.picture import Picture
from irene.show.picture.units import amount

NAME_SIZE = 12.5
RADIUS = 6.0
COLUMNS = ("name", "group", "x", "y", "x_low", "x_high", "front")


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of a scatter chart.

    Attributes:
        x: Its place from left to right.
        y: Its place from below to above.
        name: Written beside it; "" for none.
        group: Points of a group have one colour and mark.
        low: Lower end of the interval of x, or None.
        high: Upper end of the interval of x, or None.
        on_front: Whether none has more y for less x; None where nobody asked.
    """

    x: float
    y: float
    name: str = ""
    group: str = ""
    low: float | None = None
    high: float | None = None
    on_front: bool | None = None


def scatter(
    dots: Sequence[Dot],
    title: str,
    x: AxisSpec,
    y: AxisSpec,
    size: tuple[float, float] = (860, 480),
) -> Picture:
    """Points, each with its name where there is room, and the front if it is known."""
    known = [dot for dot in dots if _has_place(dot, x, y)]
    xs = [v for d in known for v in (d.x, d.low, d.high) if v is not None]
    groups = list(dict.fromkeys(dot.group for dot in known))
    keys = [Key(g, role(i), marker_kind(i)) for i, g in enumerate(groups) if g]
    best = sorted((dot for dot in known if dot.on_front), key=lambda dot: dot.x)
    if best:
        keys.append(Key("Pareto front: nothing is better in both", "soft", dash="6 4"))
    frame = Frame(title, x, y, xs, [d.y for d in known], keys, size, padding=0.06)
    places = Places(frame.box, _draw_front(frame, best) if best else [])
    for dot in known:
        if dot.low is not None and dot.high is not None:
            ends = frame.place(dot.low, dot.y), frame.place(dot.high, dot.y)
            frame.whisker(*ends, "soft")
    for dot in known:
        index = groups.index(dot.group)
        told = f"{amount(dot.x, x.unit)}, {amount(dot.y, y.unit)}"
        hint = f"{dot.name or dot.group}: {told}".lstrip(": ")
        at = frame.place(dot.x, dot.y)
        frame.marker(at, marker_kind(index), role(index), RADIUS, hint)
    _draw_names(frame, known, places)
    frame.skip(len(dots) - len(known), title)
    told = f"{len(known)} points: {y.label} against {x.label}."
    if best:
        names = ", ".join(dot.name or f"{dot.x:g}" for dot in best)
        told += f" Nothing is better in both than {names}."
    rows = [
        (d.name, d.group, d.x, d.y, d.low, d.high,
         None if d.on_front is None else int(d.on_front))
        for d in known
    ]  # fmt: skip
    return frame.finish(COLUMNS, rows, told)


def _has_place(dot: Dot, x: AxisSpec, y: AxisSpec) -> bool:
    of = dot.name or dot.group or "a point"
    xs, ys = checked((dot.x, dot.low, dot.high), of), checked((dot.y,), of)
    return all(is_drawable(v, x.log) for v in xs) and is_drawable(ys[0], y.log)


def _draw_front(frame: Frame, best: Sequence[Dot]) -> list[Box]:
    """Steps between the best points, and on to the edges; the ground that they take."""
    places = [frame.place(d.x, d.y) for d in best]
    steps = [(places[0][0], frame.y.start), places[0]]
    for x, y in places[1:]:
        steps += [(x, steps[-1][1]), (x, y)]
    steps.append((frame.x.end, steps[-1][1]))
    frame.line(steps, "soft", 1.8, "6 4")
    return [
        Box(min(a, c) - 1, min(b, d) - 1, max(a, c) + 1, max(b, d) + 1)
        for (a, b), (c, d) in pairwise(steps)
    ]


def _draw_names(frame: Frame, dots: Sequence[Dot], places: Places) -> None:
    for dot in dots:
        x, y = frame.place(dot.x, dot.y)
        places.taken.append(Box(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS))
        if dot.low is not None and dot.high is not None:
            low, high = frame.x.place(dot.low), frame.x.place(dot.high)
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
