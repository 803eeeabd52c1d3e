"""Picture: a drawing that carries the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from irene.errors import MissingExtraError, UsageError
from irene.show.picture.colours import Theme, colours, style_sheet
from irene.show.picture.shapes import Shape, clean, pixels
from irene.tables import csv_of_rows
from irene.whole_file import whole_file

Value = str | float | int | None
FONTS = (
    "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', 'Noto Sans', 'Open Sans', "
    "Roboto, Ubuntu, Cantarell, sans-serif"
)
SUFFIXES = (".svg", ".png", ".html")
LARGEST_SCALE = 16.0


@dataclass(frozen=True, slots=True)
class Picture:
    """A finished drawing and the table that was drawn.

    Attributes:
        title: What it shows.
        width: Of the whole picture, px.
        height: Of the whole picture, px.
        shapes: What is drawn, the lowest first.
        columns: Names of the columns of the table.
        rows: What was drawn, a row for each value.
        description: More about it, for those who cannot see it.
        notes: What a reader should know: values that could not be drawn, and so on.
    """

    title: str
    width: float
    height: float
    shapes: tuple[Shape, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    description: str = ""
    notes: tuple[str, ...] = ()

    def svg(self, theme: Theme = "auto") -> str:
        """The picture as SVG text that needs nothing else.

        Args:
            theme: `auto` follows the reader's choice of light or dark on screen, and
                is light on paper; `light` and `dark` are so everywhere.
        """
        palette = colours("light" if theme == "auto" else theme)
        size = f"{pixels(self.width)} {pixels(self.height)}"
        ground = Shape("rect", {"width": "100%", "height": "100%"}, "paper")
        shapes = (ground, *self.shapes)
        roles = set().union(*(shape.roles() for shape in shapes))
        style = f"<style>{style_sheet(roles)}</style>" if theme == "auto" else ""
        told = " ".join(filter(None, (self.description, *self.notes)))
        lines = [
            '<svg xmlns="http://www.w3.org/2000/svg" class="irene-picture" role="img" '
            f'viewBox="0 0 {size}" width="{pixels(self.width)}" '
            f'height="{pixels(self.height)}" font-family="{FONTS}" '
            f'style="max-width:100%;height:auto">',
            f"<title>{clean(self.title)}</title>",
            f"<desc>{clean(told)}</desc>" if told else "",
            style,
            *(shape.svg(palette) for shape in shapes),
            "</svg>",
        ]
        return "\n".join(filter(None, lines)) + "\n"

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.svg()

    def csv(self) -> str:
        """The table that was drawn, as CSV; numbers in full."""
        return csv_of_rows(self.columns, self.rows)

    def html(self) -> str:
        """The picture and its table as one page that loads nothing."""
        from irene.show.page.shell import page

        return page(
            "picture.html",
            self.title,
            styles=("picture.css",),
            script="",
            has_pictures=True,
            picture=self,
        )

    def png(self, scale: float = 2.0, theme: Theme = "light") -> bytes:
        """The picture as PNG.

        Args:
            scale: Pixels of the image for each of the picture.
            theme: `light` or `dark`; an image cannot follow the reader.

        Raises:
            MissingExtraError: The renderer is not installed.
            UsageError: This machine has no font.
        """
        if not 0 < scale <= LARGEST_SCALE:
            raise UsageError(
                f"cannot draw a PNG at a scale of {scale}; above 0, up to 16"
            )
        if not _has_font():
            raise UsageError(
                "no font was found on this machine, and a PNG would have no words in "
                "it: install one (such as fonts-dejavu-core), or save the picture as "
                ".svg"
            )
        return _resvg(self.svg("light" if theme == "auto" else theme), scale)

    def save(self, path: Path | str) -> tuple[Path, Path]:
        """Write the picture, and its table as CSV beside it.

        Returns:
            The two files.

        Raises:
            UsageError: It ends in something else, or cannot be written.
            MissingExtraError: For a PNG, the renderer is not installed.
        """
        path = Path(path)
        suffix = _suffix(path)
        if suffix == ".png":
            content = self.png()
        else:
            text = self.svg() if suffix == ".svg" else self.html()
            content = text.encode("utf-8")
        table = path.with_suffix(".csv")
        for file, data in ((path, content), (table, self.csv().encode("utf-8"))):
            with whole_file(file) as out:
                out.write(data)
        return path, table


def check_drawable(path: Path) -> None:
    """Refuse now what could not be drawn later, after a long run.

    Raises:
        UsageError: It ends in something else than `.svg`, `.png` or `.html`, or this
            machine has no font for a PNG.
        MissingExtraError: For a PNG, the renderer is not installed.
    """
    if _suffix(path) == ".png":
        Picture("", 1, 1, (), (), ()).png(1)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"cannot draw {path.name!r}: its name must end in .svg, .png or .html"
        )
    return suffix


@cache
def _has_font() -> bool:
    """Whether a letter leaves a trace."""
    page = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" '
        f'font-family="{FONTS}"><text x="2" y="16">{{}}</text></svg>'
    )
    return _resvg(page.format("M"), 1.0) != _resvg(page.format(""), 1.0)


def _resvg(svg: str, scale: float) -> bytes:
    try:
        import resvg_py
    except ImportError as error:
        raise MissingExtraError(
            "a PNG needs resvg: pip install 'irene-energy[pictures]' (an .svg needs "
            "nothing)"
        ) from error
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=scale))


def in_a_column(title: str, pictures: Sequence[Picture]) -> Picture:
    """Pictures below each other as one.

    The tables become one with a first column that names the picture.
    """
    shapes, height = [], 0.0
    for picture in pictures:
        place = {"transform": f"translate(0 {pixels(height)})"}
        shapes.append(Shape("g", place, inside=picture.shapes))
        height += picture.height
    columns = list(dict.fromkeys(name for p in pictures for name in p.columns))
    rows = [
        (p.title, *(dict(zip(p.columns, row, strict=True)).get(n) for n in columns))
        for p in pictures
        for row in p.rows
    ]
    return Picture(
        title,
        max(picture.width for picture in pictures),
        height,
        tuple(shapes),
        ("picture", *columns),
        tuple(rows),
        " ".join(filter(None, (p.description for p in pictures))),
        tuple(note for p in pictures for note in p.notes),
    )
