"""What tables on a terminal are made of: columns, cells, notes, numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from irene.errors import UsageError
from irene.show.text import BAR_LENGTH, bar, plain, plain_lines

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from irene.analyse.subject import LeftOut

T = TypeVar("T")
MOST_NAMED = 5
"""How many of those that were left out for the same reason are named."""


def columns(
    *names: str,
    goes: Collection[str] = (),
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

    table = Fitted(tuple(goes))
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


def listed(
    rows: Iterable[T],
    cells: Mapping[str, Callable[[T], Any]],
    *,
    bold: Callable[[T], bool] | None = None,
    **how: Collection[str],
) -> Table:
    """A table with a row for each of some things.

    Args:
        rows: The things.
        cells: Names of the columns, as `columns` takes them, and what each shows.
        bold: Which of them stand out.
        **how: As `columns` takes it.
    """
    table = columns(*cells, **how)
    for row in rows:
        told = (cell(row) for cell in cells.values())
        table.add_row(*told, style="bold" if bold and bold(row) else None)
    return table


def bold(text: str) -> Text:
    """A heading."""
    return _styled(text, "bold")


def dim(text: str) -> Text:
    """What matters less."""
    return _styled(text, "dim")


def _styled(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(plain_lines(text), style=style)


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


def unfit_lines(notes: Iterable[str]) -> tuple[list[Text], list[str]]:
    """What does not fit into memory, to be said first; and the other notes."""
    from irene.tree.headline import NO_ROOM

    notes = list(notes)
    unfit = dict.fromkeys(note for note in notes if NO_ROOM in note)
    told = (plain(f"cannot run: {note.removeprefix('warning: ')}") for note in unfit)
    return [_styled(line, "bold red") for line in told], [
        note for note in notes if NO_ROOM not in note
    ]


def left_out_lines(left_out: Iterable[LeftOut]) -> Iterator[str]:
    """Which subjects of a list have no answer, and why: one line per kind of reason."""
    by_kind: dict[str, list[LeftOut]] = {}
    for each in left_out:
        kind = re.sub(r"'[^']*'|[\d.,]+", "", each.problem.replace(each.model, ""))
        by_kind.setdefault(kind, []).append(each)
    for first, *others in by_kind.values():
        names = ", ".join(plain(each.model) for each in others[:MOST_NAMED])
        more = f" and {len(others) - MOST_NAMED} more" if others[MOST_NAMED:] else ""
        told = f"left out: {plain(first.model)}: {plain(first.problem)}"
        yield f"{told}; likewise {names}{more}" if others else told


def machine_words(on: str) -> str:
    """A machine for a headline: its name, what it is, and of which year.

    Args:
        on: Name or file, as it was asked for; a stranger's name stays as it is.
    """
    from irene.predict.machines.finding import find_machine

    try:
        return plain(find_machine(on).hardware.words)
    except UsageError:
        return plain(on)


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
