"""Shapes and words on a ground, in pixels from the upper left corner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

Point = tuple[float, float]

DASHES = ("", "8 4", "2 3", "10 3 2 3", "1 4", "14 4", "5 2 1 2")
"""Beside its colour, each series has dashes of its own."""

MARKERS: dict[str, tuple[Point, ...]] = {
    "circle": (),
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "nabla": ((0, 1.2), (1.1, -0.9), (-1.1, -0.9)),
    "bar": ((-0.4, -1.4), (0.4, -1.4), (0.4, 1.4), (-0.4, 1.4)),
}
"""Corners of the marks around a point; each group of points has a shape of its own."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One element of a picture; colours are roles, and a mark stands for data."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    fill: str = ""
    stroke: str = ""
    words: str = ""
    hint: str = ""
    inside: tuple[Shape, ...] = ()
    is_mark: bool = False

    def roles(self) -> set[str]:
        """Roles of all colours in it."""
        own = {self.fill, self.stroke} - {"", "none"}
        return own.union(*(shape.roles() for shape in self.inside))

    def svg(self, palette: Mapping[str, str]) -> str:
        """The element.

        Args:
            palette: Colour of every role. They are written into the element, so that
                it is right too where style sheets are not read.
        """
        written = "".join(
            f' {name}="{escape(value)}"' for name, value in self._all(palette).items()
        )
        hint = f"<title>{clean(self.hint)}</title>" if self.hint else ""
        content = "".join(shape.svg(palette) for shape in self.inside)
        content = hint + clean(self.words) + content
        return (
            f"<{self.tag}{written}>{content}</{self.tag}>"
            if content
            else f"<{self.tag}{written}/>"
        )

    def _all(self, palette: Mapping[str, str]) -> dict[str, str]:
        classes = ["mark"] if self.is_mark else []
        given = dict(self.attributes)
        for name, letter, role in (
            ("fill", "f", self.fill),
            ("stroke", "s", self.stroke),
        ):
            if not role:
                continue
            given[name] = palette.get(role, role)
            if role != "none":
                classes.append(f"{letter}-{role}")
        return {"class": " ".join(classes), **given} if classes else given


@dataclass(slots=True)
class Canvas:
    """Collects shapes; later ones lie above earlier ones.

    Attributes:
        shapes: What was drawn so far.
    """

    shapes: list[Shape] = field(default_factory=list)

    def rectangle(
        self, at: Point, size: Point, fill: str, stroke: str = "", hint: str = "",
        opacity: float = 1.0, corner: float = 0.0, mark: bool = True,
    ) -> None:  # fmt: skip
        """A filled rectangle; `at` is its upper left corner."""
        given = {
            **{name: pixels(value) for name, value in zip("xy", at, strict=True)},
            "width": pixels(max(size[0], 0.0)),
            "height": pixels(max(size[1], 0.0)),
        }
        if opacity < 1:
            given["fill-opacity"] = pixels(opacity, 2)
        if corner:
            given["rx"] = pixels(corner)
        self.shapes.append(Shape("rect", given, fill, stroke, "", hint, (), mark))

    def line(
        self, points: Sequence[Point], role: str, width: float = 1.5, dash: str = "",
        mark: bool = True,
    ) -> None:  # fmt: skip
        """Straight lines from point to point."""
        given = {
            "points": _path(points),
            "stroke-width": pixels(width),
            "stroke-linejoin": "round",
        }
        if dash:
            given["stroke-dasharray"] = dash
        self.shapes.append(Shape("polyline", given, "none", role, is_mark=mark))

    def whisker(self, low: Point, high: Point, role: str) -> None:
        """An interval from left to right: a line with a bar across each end."""
        self.line([low, high], role, 1.5)
        for x, y in (low, high):
            self.line([(x, y - 4), (x, y + 4)], role, 1.5)

    def area(
        self, points: Sequence[Point], role: str, opacity: float = 1.0, hint: str = ""
    ) -> None:
        """A filled outline."""
        given = {"points": _path(points)}
        if opacity < 1:
            given["fill-opacity"] = pixels(opacity, 2)
        self.shapes.append(Shape("polygon", given, role, hint=hint, is_mark=True))

    def marker(
        self, at: Point, kind: str, role: str, size: float = 5.5, hint: str = "",
        mark: bool = True,
    ) -> None:  # fmt: skip
        """A mark of `MARKERS` around a point."""
        x, y = at
        if kind == "circle":
            given = {"cx": pixels(x), "cy": pixels(y), "r": pixels(size)}
            self.shapes.append(
                Shape("circle", given, role, "paper", "", hint, (), mark)
            )
            return
        corners = [(x + size * a, y + size * b) for a, b in MARKERS[kind]]
        given = {"points": _path(corners)}
        self.shapes.append(Shape("polygon", given, role, "paper", "", hint, (), mark))

    def text(
        self, at: Point, words: str, size: float = 13, role: str = "ink",
        anchor: str = "start", bold: bool = False, upwards: bool = False,
    ) -> None:  # fmt: skip
        """Words whose baseline starts, is centred or ends at a point."""
        x, y = map(pixels, at)
        given = {"x": x, "y": y, "font-size": pixels(size)}
        if anchor != "start":
            given["text-anchor"] = anchor
        if bold:
            given["font-weight"] = "bold"
        if upwards:
            given["transform"] = f"rotate(-90 {x} {y})"
        self.shapes.append(Shape("text", given, role, words=words))


def clean(text: str) -> str:
    """Text as it may stand in XML: escaped, and nothing that XML does not allow."""
    allowed = "".join(c if _is_character(c) else "\ufffd" for c in text)
    return escape(allowed)


def _is_character(c: str) -> bool:
    code = ord(c)
    if code < 0x20:
        return c in "\t\n\r"
    return not (
        0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE
    )


def pixels(value: float, digits: int = 1) -> str:
    """A length as it is written: no more digits than can be seen."""
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _path(points: Sequence[Point]) -> str:
    return " ".join(f"{pixels(x)},{pixels(y)}" for x, y in points)
