"""What the screens of analysis share: a console, notes, numbers for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from irene.cli.screens.cells import empty_table, plain
from irene.show.headline import is_warning
from irene.show.text import human_energy

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from irene.analyse.subject import LeftOut

__all__ = [
    "columns",
    "merged_notes",
    "percent",
    "print_left_out",
    "print_notes",
    "screen",
    "signed_energy",
    "value",
]

WIDTH_OFF_TERMINAL = 120
ROUNDING_J = 5e-12
BEYOND = re.compile(r"(extrapolation: [a-z ]+ )([\d,]+)( is outside .*)")


def screen() -> Console:
    """Standard output; off a terminal wide enough for the tables."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        return console
    return Console(highlight=False, width=WIDTH_OFF_TERMINAL)


def columns(*names: str, wide: Sequence[str] = ()) -> Table:
    """An empty table with columns; numbers to the right, names to the left.

    Args:
        *names: Of the columns; those that begin with `<` hold words.
        wide: Columns of words that may take what room there is.
    """
    table = empty_table()
    for name in names:
        words = name.startswith("<")
        title = name.removeprefix("<")
        table.add_column(
            title,
            justify="left" if words else "right",
            no_wrap=title not in wide,
            overflow="fold" if title in wide else "ellipsis",
            ratio=1 if title in wide else None,
        )
    return table


def merged_notes(notes: Iterable[str]) -> list[str]:
    """Every note once; those that differ in one number only as one line."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for note in dict.fromkeys(map(plain, notes)):
        found = BEYOND.fullmatch(note)
        key = (found[1], found[3]) if found else (note, "")
        numbers.setdefault(key, []).append(found[2] if found else "")
    return [
        f"{start}{', '.join(values)}{end}" for (start, end), values in numbers.items()
    ]


def print_notes(console: Console, notes: Iterable[str]) -> None:
    """Warnings in yellow, every line once."""
    for note in merged_notes(notes):
        style = "yellow" if is_warning(note) else None
        text = note if is_warning(note) else f"note: {note}"
        console.print(text, markup=False, style=style)


def signed_energy(joules: float) -> str:
    """A difference of energies: `+1.20 J`, `−350 mJ`; rounding is none."""
    if abs(joules) < ROUNDING_J:
        return "0 J"
    return f"+{human_energy(joules)}" if joules > 0 else human_energy(joules)


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
    if number == 0:
        return f"0 {unit}".rstrip()
    text = f"{number:.3g}" if 1e-3 <= abs(number) < 1e4 else _large_or_small(number)
    return f"{text} {unit}".rstrip()


def _large_or_small(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1e4 else f"{number:.2e}"


def print_left_out(console: Console, left_out: Iterable[LeftOut]) -> None:
    """Which subjects of a list have no answer, and why: one line per reason."""
    by_reason: dict[str, list[str]] = {}
    for each in left_out:
        by_reason.setdefault(each.problem, []).append(each.model)
    for reason, models in by_reason.items():
        console.print(f"left out: {', '.join(models)}: {reason}", markup=False)
