"""Tables, figures and sections of a page; all text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from irene.show.picture import Picture
from irene.show.picture.icicle import shade

__all__ = ["Share", "figure", "items", "paragraph", "section", "table"]


@dataclass(frozen=True, slots=True)
class Share:
    """A cell that shows a share as number and bar.

    Attributes:
        value: 0 to 1.
    """

    value: float


Cell = str | Share


def section(name: str, title: str, body: str) -> str:
    """A part of the page that can be linked to.

    Args:
        name: Its anchor.
        title: Its heading, plain text.
        body: Elements.
    """
    return (
        f'<section id="{escape(name)}" aria-labelledby="{escape(name)}-title">\n'
        f'<h2 id="{escape(name)}-title">{escape(title)}</h2>\n{body}</section>\n'
    )


def paragraph(text: str, soft: bool = False) -> str:
    """A paragraph of plain text.

    Args:
        text: Any text.
        soft: Whether it is of less weight.
    """
    return f"<p{' class=soft' if soft else ''}>{escape(text)}</p>\n"


def items(texts: Iterable[str]) -> str:
    """A list of plain texts, nothing for none."""
    found = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{found}</ul>\n" if found else ""


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    words: Sequence[int] = (),
    minor: Sequence[int] = (),
) -> str:
    """A table; its first column names the rows.

    Args:
        heads: Names of the columns.
        rows: As many cells each.
        words: Further columns of words; all others are numbers.
        minor: Columns that narrow screens leave out.
    """
    kinds = [
        " ".join(
            filter(
                None,
                ("" if i in (0, *words) else "number", "wide" if i in minor else ""),
            )
        )
        for i in range(len(heads))
    ]
    head = "".join(
        f'<th scope="col" class="{kind}">{escape(text)}</th>'
        for kind, text in zip(kinds, heads, strict=True)
    )
    body = "\n".join(
        f"<tr>{''.join(map(_cell, range(len(row)), row, kinds))}</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>\n"
    )


def _cell(column: int, cell: Cell, kind: str) -> str:
    if isinstance(cell, Share):
        width = min(max(cell.value, 0.0), 1.0)
        return (
            f'<td class="share"><span>{cell.value:.1%}</span>'
            '<svg class="bar" aria-hidden="true">'
            f'<rect class="c{shade(cell.value)}" width="{width:.1%}" height="100%"/>'
            "</svg></td>"
        )
    if column == 0:
        return f'<th scope="row">{escape(cell)}</th>'
    return f'<td class="{kind}">{escape(cell)}</td>'


def figure(picture: Picture, caption: str) -> str:
    """A picture with what it shows and the numbers behind it.

    Args:
        picture: What is drawn.
        caption: What a reader should see in it.
    """
    rows = ([_told(value) for value in row] for row in picture.rows)
    return (
        f"<figure>\n{picture.svg()}<figcaption>{escape(caption)}</figcaption>\n"
        f"</figure>\n<details><summary>The numbers of this picture</summary>\n"
        f"{table(picture.columns, rows)}</details>\n"
    )


def _told(value: str | float | int | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.6g}"
