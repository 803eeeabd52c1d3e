"""A small drawing module: shapes, text and axes as plain SVG, nothing to install.

Pictures have a light background of their own, so that they can be read on a dark page.
Colours are those of Okabe and Ito, which colour-blind readers can tell apart; shapes
and dashes say the same once more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

INK, FAINT, GRID, PAPER = "#222222", "#5a5a5a", "#dddddd", "#ffffff"
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"
SKY, PURPLE, GREY = "#56b4e9", "#cc79a7", "#999999"

Point = tuple[float, float]


@dataclass
class Picture:
    """Shapes on a light ground, in pixels from the upper left corner.

    Attributes:
        width: Of the whole picture.
        height: Of the whole picture.
        title: What it shows; read aloud to those who cannot see it.
        shapes: What was drawn so far.
    """

    width: float
    height: float
    title: str
    shapes: list[str] = field(default_factory=list)

    def rectangle(self, at: Point, size: Point, fill: str, **more: object) -> None:
        """A filled rectangle; `at` is its upper left corner."""
        x, y = map(_px, at)
        width, height = map(_px, size)
        self._add("rect", x=x, y=y, width=width, height=height, fill=fill, **more)

    def line(self, points: Sequence[Point], colour: str, width: float = 1.5,
             dash: str = "") -> None:  # fmt: skip
        """Straight lines from point to point."""
        path = " ".join(f"{_px(x)},{_px(y)}" for x, y in points)
        dashes = {"stroke-dasharray": dash} if dash else {}
        self._add(
            "polyline",
            points=path,
            fill="none",
            stroke=colour,
            **{"stroke-width": _px(width), "stroke-linejoin": "round"},
            **dashes,
        )

    def marker(self, at: Point, shape: str, colour: str, size: float = 6) -> None:
        """A circle, square, diamond or triangle around a point."""
        x, y = at
        if shape == "circle":
            self._add("circle", cx=_px(x), cy=_px(y), r=_px(size), fill=colour)
            return
        corners = _CORNERS[shape]
        points = " ".join(
            f"{_px(x + size * a)},{_px(y + size * b)}" for a, b in corners
        )
        self._add("polygon", points=points, fill=colour)

    def text(self, at: Point, words: str, size: float = 14, colour: str = INK,
             anchor: str = "start", bold: bool = False,
             upwards: bool = False) -> None:  # fmt: skip
        """Words whose baseline starts, is centred or ends at a point."""
        x, y = map(_px, at)
        more = {"font-size": _px(size), "text-anchor": anchor}
        if bold:
            more["font-weight"] = "bold"
        if upwards:
            more["transform"] = f"rotate(-90 {x} {y})"
        self._add("text", escape(words), x=x, y=y, fill=colour, **more)

    def save(self, path: Path) -> None:
        """Write the picture."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.source(), encoding="utf-8")

    def source(self) -> str:
        """The picture as SVG."""
        size = f"{_px(self.width)} {_px(self.height)}"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" '
            f'font-family="Helvetica, Arial, sans-serif">'
        )
        ground = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        title = f"<title>{escape(self.title)}</title>"
        return "\n".join([head, title, ground, *self.shapes, "</svg>", ""])

    def _add(self, name: str, content: str = "", **attributes: object) -> None:
        written = " ".join(f'{k}="{v}"' for k, v in attributes.items())
        end = f">{content}</{name}>" if content else "/>"
        self.shapes.append(f"<{name} {written}{end}")


_CORNERS: dict[str, tuple[Point, ...]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
}


def _px(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Axis:
    """From values to pixels.

    Attributes:
        low: Value at the start.
        high: Value at the end.
        start: Pixel of the start.
        end: Pixel of the end.
        ticks: Values that are labelled.
        label: What it shows, with its unit.
        logarithmic: Whether equal ratios are equally far apart.
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    label: str
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Pixel of a value; values beyond the ends are put at the ends."""
        value = min(max(value, self.low), self.high)
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        part = (value - low) / (high - low)
        return self.start + part * (self.end - self.start)


def draw_axes(picture: Picture, x: Axis, y: Axis) -> None:
    """Grid, ticks and labels of a chart."""
    for tick in x.ticks:
        at = x.place(tick)
        picture.line([(at, y.start), (at, y.end)], GRID, 1)
        picture.text((at, y.start + 20), f"{tick:g}", 13, FAINT, "middle")
    for tick in y.ticks:
        at = y.place(tick)
        picture.line([(x.start, at), (x.end, at)], GRID, 1)
        picture.text((x.start - 8, at + 5), f"{tick:g}", 13, FAINT, "end")
    picture.line([(x.start, y.end), (x.start, y.start), (x.end, y.start)], FAINT, 1.2)
    middle = ((x.start + x.end) / 2, (y.start + y.end) / 2)
    if x.label:
        picture.text((middle[0], y.start + 44), x.label, 14, INK, "middle")
    picture.text((x.start - 46, middle[1]), y.label, 14, INK, "middle", upwards=True)
