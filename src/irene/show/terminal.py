"""What tables on a terminal are made of: columns, cells, notes, numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from irene.show.text import BAR_LENGTH, bar, plain

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def columns(
    *names: str,
    goes: Sequence[str] = (),
    wide: Collection[str] = (),
    dim: Collection[str] = (),
) -> Table:
    """A table without rules or rows; numbers to the right, names to the left.

    Args:
        *names: Of the columns; those that begin with `<` hold words.
        goes: Columns that may go where there is no room, the first to go first.
        wide: Columns of words that take several lines rather than lose some.
        dim: Columns of less weight.
    """
    from irene.show.fitted import Fitted

    table = Fitted(goes)
    for name in names:
        title = name.removeprefix("<")
        table.add_column(
            title,
            justify="left" if name.startswith("<") else "right",
            no_wrap=title not in wide,
            overflow="fold" if title in wide else "ellipsis",
            style="dim" if title in dim else None,
        )
    return table


def share_cell(part: float, whole: float) -> Text:
    """A share in percent and as a bar; nothing where it is not known."""
    from rich.text import Text

    if math.isnan(part) or math.isnan(whole):
        return Text()
    share = part / whole if whole else 0.0
    return Text(f"{share:6.1%} ").append(f"{bar(share):<{BAR_LENGTH}}", style="green")


def note_lines(notes: Iterable[str]) -> list[Text]:
    """Warnings in yellow, every note once."""
    from rich.text import Text

    from irene.tree.headline import is_warning

    return [
        Text(note, style="yellow") if is_warning(note) else Text(f"note: {note}")
        for note in dict.fromkeys(map(plain, notes))
    ]


def percent(part: float, whole: float) -> str:
    """A change in percent with its sign, "" where there is no whole."""
    if not whole:
        return ""
    change = 100 * part / whole
    if abs(change) < 0.05:
        return "0.0%"
    return f"{change:+.1f}%".replace("-", "−")


def value(number: float | None, unit: str = "") -> str:
    """A number with three significant digits, a dash where there is none."""
    if number is None:
        return "–"
    size = abs(number)
    if size >= 1e4:
        text = f"{number:,.0f}"
    else:
        text = f"{number:.3g}" if size >= 1e-3 or not size else f"{number:.2e}"
    return f"{text} {unit}".rstrip()
