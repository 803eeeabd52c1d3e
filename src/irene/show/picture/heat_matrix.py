"""A table whose cells are shaded by their values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irene.errors import UsageError
from irene.show.picture.axis import is_drawable
from irene.show.picture.colours import STEPS
from irene.show.picture.frame import EDGE, Sheet, checked
from irene.show.picture.lettering import shortened, text_width
from irene.show.picture.picture import Picture
from irene.show.picture.units import amount

HIGH, NAME_SIZE, CELL_SIZE = 28.0, 12.5, 12.0
NARROWEST, WIDEST = 44.0, 130.0
LONGEST_NAME = 0.34


def heat_matrix(
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    unit: str = "",
    row_label: str = "",
    column_label: str = "",
    width: float = 860,
) -> Picture:
    """Cells with their values, the darker (on dark paper: lighter) the larger.

    Args:
        values: One row of cells for each of `rows`; not-a-number is an empty cell.
        rows: Names of the rows.
        columns: Names of the columns.
        title: What it shows.
        unit: Of the values, without prefix.
        row_label: What rows are.
        column_label: What columns are.
        width: Of the picture, px; its height follows from the rows.
    """
    table = _checked(values, len(rows), len(columns), title)
    sheet = Sheet(title, width)
    widest = max((text_width(n, NAME_SIZE) for n in (*rows, row_label)), default=0.0)
    left = EDGE + min(widest, LONGEST_NAME * width) + 10
    cell = (width - left - EDGE) / max(len(columns), 1)
    cell = min(max(cell, NARROWEST), WIDEST)
    top = _draw_column_names(sheet, columns, column_label, left, cell)
    sheet.text((EDGE, top - 8), row_label, NAME_SIZE, "soft")
    known = [v for row in table for v in row if is_drawable(v)]
    for i, name in enumerate(rows):
        y = top + i * HIGH
        words = shortened(name, NAME_SIZE, left - EDGE - 10)
        sheet.text((left - 8, y + HIGH / 2 + 4), words, NAME_SIZE, "ink", "end")
        for j, value in enumerate(table[i]):
            told = amount(value, unit)
            step = _step(value, known)
            at = (left + j * cell, y)
            fill = "raised" if step is None else f"ramp{step}"
            ink = "soft" if step is None else f"on{step}"
            hint = f"{name}, {columns[j]}: {told}"
            sheet.rectangle(at, (cell - 2, HIGH - 2), fill, hint=hint)
            words = shortened(told, CELL_SIZE, cell - 4)
            middle = (at[0] + cell / 2 - 1, y + HIGH / 2 + 3.5)
            sheet.text(middle, words, CELL_SIZE, ink, "middle")
    if not known:
        sheet.say_no_data(left, top + len(rows) * HIGH + 18, "start")
    cells = len(rows) * len(columns)
    if len(known) < cells:
        sheet.notes.append(f"{cells - len(known)} of {cells} cells are not known.")
    found = [
        (row, column, value)
        for row, line in zip(rows, table, strict=True)
        for column, value in zip(columns, line, strict=True)
        if is_drawable(value)
    ]
    sheet.width = max(width, left + cell * len(columns) + EDGE)
    names = (row_label or "row", column_label or "column", "value")
    ends = [amount(end, unit) for end in (min(known), max(known))] if known else []
    told = f"From {ends[0]} to {ends[1]}." if ends else ""
    return sheet.picture(top + HIGH * len(rows) + 26, names, found, told)


def _checked(
    values: Sequence[Sequence[float]], rows: int, columns: int, title: str
) -> list[list[float]]:
    table = [checked(row, title) for row in values]
    if len(table) != rows or any(len(row) != columns for row in table):
        raise UsageError(
            f"cannot draw {title!r}: cells do not fit {rows} rows and {columns} columns"
        )
    return table


def _draw_column_names(
    sheet: Sheet, columns: Sequence[str], label: str, left: float, cell: float
) -> float:
    """Names above the columns, upright where they are wider; where the cells begin."""
    top = sheet.top + 4
    if label:
        sheet.text((left, top + 14), label, NAME_SIZE, "soft")
        top += 20
    widest = max((text_width(name, NAME_SIZE) for name in columns), default=0.0)
    if widest <= cell - 6:
        for j, name in enumerate(columns):
            at = (left + (j + 0.5) * cell, top + 14)
            sheet.text(at, name, NAME_SIZE, "ink", "middle")
        return top + 22
    height = min(widest, 160.0)
    for j, name in enumerate(columns):
        at = (left + (j + 0.5) * cell + 4, top + height)
        words = shortened(name, NAME_SIZE, height)
        sheet.text(at, words, NAME_SIZE, "ink", upwards=True)
    return top + height + 8


def _step(value: float, known: Sequence[float]) -> int | None:
    if not is_drawable(value):
        return None
    low, high = min(known), max(known)
    part = (value - low) / (high - low) if high > low else 0.0
    return min(int(part * STEPS), STEPS - 1) if math.isfinite(part) else 0
