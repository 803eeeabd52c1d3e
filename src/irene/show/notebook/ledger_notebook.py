"""A ledger as notebooks show it, and as a pandas DataFrame."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

from irene.account.ledger.tables import COLUMNS, MODULE_COLUMNS
from irene.show.data_frame import data_frame
from irene.show.headline import is_warning
from irene.show.notebook.tree_notebook import frame, heading, plain_table, tree_list
from irene.show.text import human_energy, human_range

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.account.ledger.rows import Row

__all__ = ["ledger_frame", "ledger_html"]

MOST_ROWS = 20
MOST_NOTES = 8
WORDS = ("name", "source", "group")
"""Columns of text."""


def ledger_html(ledger: Ledger) -> str:
    """What a notebook shows of a ledger: the whole, the tree, the dearest ops.

    Args:
        ledger: Any ledger.
    """
    share = ledger.attributed_j / ledger.measured_j if ledger.measured_j > 0 else 0.0
    lines = [
        f"{ledger.source} by {ledger.produced_by} over {ledger.window_s:.3f} s",
        f"{share:.1%} charged to {len(ledger.events):,} events",
    ]
    notes = sorted(ledger.notes, key=lambda note: not is_warning(note))[:MOST_NOTES]
    told = "".join(
        f"<div>{'⚠ ' if is_warning(note) else ''}{escape(note[:300])}</div>"
        for note in notes
    )
    return frame(
        f"{heading(f'energy: {human_range(ledger.total)}', lines)}"
        f"{tree_list(ledger.tree())}"
        f"{_ops(ledger)}{_rest(ledger)}{told}"
    )


def _ops(ledger: Ledger) -> str:
    rows = ledger.by_op()
    title = "ops" if len(rows) <= MOST_ROWS else f"the {MOST_ROWS} dearest ops"
    heads = ("op", "energy", "share", "calls", "time")
    return _folded(title, heads, map(_cells, rows[:MOST_ROWS]))


def _cells(row: Row) -> list[str]:
    energy = human_energy(row.energy.joules) if row.energy else "–"
    share = f"{row.share:.1%}"
    return [row.name[:80], energy, share, f"{row.count:,}", f"{row.time_s:.4g} s"]


def _rest(ledger: Ledger) -> str:
    rows = (
        [
            row.name,
            human_energy(row.energy.joules) if row.energy else "–",
            f"{row.share:.1%}",
        ]
        for row in ledger.rest()
    )
    return _folded("what belongs to no op", ("", "energy", "share"), rows)


def _folded(title: str, heads: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    table = plain_table(heads, rows)
    return f"<details><summary>{escape(title)}</summary>{table}</details>"


def ledger_frame(ledger: Ledger, by: str = "op") -> Any:
    """A view of a ledger as a pandas DataFrame, with the columns of its CSV.

    Args:
        ledger: Any ledger.
        by: One of `ledger_tables.VIEWS`.

    Raises:
        MissingExtraError: pandas is not installed.
        UsageError: There is no such view.
    """
    text = ledger.to_csv(by)
    names = [*COLUMNS, *(MODULE_COLUMNS if by in ("module", "layer") else ())]
    rows = list(csv.DictReader(io.StringIO(text)))
    return data_frame(
        {name: [_value(name, row[name]) for row in rows] for name in names}
    )


def _value(column: str, text: str | None) -> Any:
    """A cell of the CSV as what it was before; None where it is empty."""
    if not text:
        return None
    if column == "resolved":
        return text == "True"
    return text if column in WORDS else float(text)
