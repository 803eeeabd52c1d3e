"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers.

    Args:
        header: Titles of the columns.
        rows: Cells.
    """
    ruler = ["---", *["---:"] * (len(header) - 1)]
    lines = [_line(header), "|" + "|".join(ruler) + "|"]
    return "\n".join([*lines, *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def number(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def span(ends: tuple[float, float], digits: int = 2) -> str:
    """A range, or a dash where it has no width."""
    low, high = ends
    return "–" if low == high else f"{low:.{digits}f} to {high:.{digits}f}"
