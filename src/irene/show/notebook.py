"""Trees, ledgers and comparisons as notebooks show them.

Viewers of notebooks clean what they show: scripts go, style sheets go, sometimes styles
on elements, too. So a tree is made of elements that fold by themselves, bars are
characters, colours are the viewer's own, and nothing is lost where styles are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from irene.human import human, human_energy, human_range
from irene.show.page.shell import rendered
from irene.show.text import bar, signed_energy, total_words
from irene.show.view import Line, amount_of, main_key, view
from irene.tree.headline import (
    energy_per_unit,
    energy_source,
    is_warning,
    model_name,
    run_words,
)
from irene.tree.model_tree import OWN, ModelTree

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.account.ledger.rows import RestRow, Row
    from irene.analyse.comparison import Comparison, Contribution, Side

MOST_LINES = 250
MOST_NOTES = 8
LONGEST_NAME, LONGEST_CELL, LONGEST_NOTE = 60, 80, 300
OPEN_SHARE = 0.5
"""Modules with this share are open at first."""
MOST_OPS = 20
MOST_CONTRIBUTIONS = 30
ROUNDING = 1e-9
"""Part of the larger energy below which a term is what adding up has left."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table that folds.

    Attributes:
        title: What is seen when it is closed.
        heads: Names of the columns; the first is text, the others are numbers.
        rows: As many cells each.
        is_open: Whether it is open at first.
        more: How many rows are left out.
        nothing: What is said where there is no row.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_open: bool = False
    more: int = 0
    nothing: str = "none"


def _shown(
    title: str,
    lines: Sequence[str],
    tree: ModelTree | None = None,
    sections: Sequence[Section] = (),
    notes: Sequence[str] = (),
) -> str:
    """A heading with lines below it, a tree, tables, and notes, warnings first."""
    ordered = sorted(notes, key=lambda note: not is_warning(note))[:MOST_NOTES]
    return rendered(
        "notebook.html",
        title=title,
        lines=[line for line in lines if line],
        tree=tree and _tree(tree),
        sections=sections,
        notes=[note[:LONGEST_NOTE] for note in ordered],
    )


# A tree -----------------------------------------------------------------------


def tree_notebook(tree: ModelTree) -> str:
    """What a notebook shows of a tree: its headline, and its nodes folded.

    Args:
        tree: Any tree; shares are of energy, or of FLOPs if it carries none.
    """
    energy, total = tree.energy_of(0), tree.total()
    each = [f"{human_energy(j)} per {unit}" for unit, j in energy_per_unit(tree)]
    costs = [human(total.flops, "FLOP"), f"{human(total.bytes, 'B')} moved"]
    lines = [
        run_words(tree),
        " · ".join([*each, *(costs if energy else costs[1:])]),
        energy_source(tree),
    ]
    title = f"{model_name(tree)}: {total_words(tree)}"
    return _shown(title, lines, tree, notes=tree.notes)


def _tree(tree: ModelTree) -> dict[str, Any]:
    """The nodes as lists in lists, equal layers folded, large trees cut."""
    lines, left_out = _lines(tree)
    whole, key = lines[0].weight, main_key(tree)
    following = [line.depth for line in lines[1:]] + [0]
    rows = []
    for line, after in zip(lines, following, strict=True):
        share = line.weight / whole if whole > 0 else 0.0
        name, op = _name(line)
        rows.append(
            {
                "name": name,
                "op": op,
                "is_rest": line.rest,
                "amount": amount_of(line.weight, key),
                "percent": "" if math.isnan(share) else f"{share:.1%}",
                "bar": bar(share),
                "has_children": after > line.depth,
                "is_open": line.depth == 0 or line.weight >= OPEN_SHARE * whole > 0,
                "closes": max(line.depth - after, 0),
            }
        )
    return {"rows": rows, "left_out": left_out}


def _lines(tree: ModelTree) -> tuple[list[Line], int]:
    """The lines to show, and how many there would be more."""
    shown = tree.at_level("ml").fold()
    lines = every = view(shown).lines
    depth = max(line.depth for line in lines)
    while len(lines) > MOST_LINES and depth > 1:
        depth -= 1
        lines = [line for line in every if line.depth <= depth]
    if len(lines) > MOST_LINES:
        lines = view(shown, 1, main_key(tree)).lines[:MOST_LINES]
    return lines, len(every) - len(lines)


def _name(line: Line) -> tuple[str, str]:
    """Name and op of a line; no op where it is the name already."""
    node, name = line.node, _shortened(line.name)
    if line.rest:
        return OWN, ""
    times = f" ×{node.count}" if node.count > 1 else ""
    return f"{name}{times}", "" if node.op == name else _shortened(node.op)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


# A ledger ---------------------------------------------------------------------


def ledger_notebook(ledger: Ledger) -> str:
    """What a notebook shows of a ledger: the whole, the tree, the dearest ops."""
    share = ledger.attributed_j / ledger.measured_j if ledger.measured_j > 0 else 0.0
    lines = [
        f"{ledger.source} by {ledger.produced_by} over {ledger.window_s:.3f} s",
        f"{share:.1%} charged to {len(ledger.events):,} events",
    ]
    rows = ledger.by_op()
    ops = [
        [*_cells(row), f"{row.count:,}", f"{row.time_s:.4g} s"]
        for row in rows[:MOST_OPS]
    ]
    title = "ops" if len(rows) <= MOST_OPS else f"the {MOST_OPS} dearest ops"
    heads = ("op", "energy", "share", "calls", "time")
    rest = [_cells(row) for row in ledger.rest()]
    sections = [
        Section(title, heads, ops),
        Section("what belongs to no op", ("", "energy", "share"), rest),
    ]
    whole = f"energy: {human_range(ledger.total())}"
    return _shown(whole, lines, ledger.tree(), sections, ledger.notes)


def _cells(row: Row | RestRow) -> list[str]:
    energy = human_energy(row.energy.joules) if row.energy else "–"
    return [row.name[:LONGEST_CELL], energy, f"{row.share:.1%}"]


# A comparison -----------------------------------------------------------------


def comparison_notebook(comparison: Comparison) -> str:
    """What a notebook shows of a comparison: the difference, and what explains it."""
    base, other, ratio = comparison.base, comparison.other, comparison.ratio
    change = "" if ratio is None else f" ({ratio - 1:+.1%})".replace("-", "−")
    difference = signed_energy(comparison.difference_j)
    title = (
        f"{base.name} → {other.name}: {difference} ± "
        f"{human_energy(comparison.half_j)}{change}"
    )
    verdict = (
        "a real difference: its interval leaves zero out"
        if comparison.is_real
        else "no real difference: its interval holds zero"
    )
    lines = [f"{_side(base)} → {_side(other)}, per {comparison.unit}", verdict]
    return _shown(
        title, lines, sections=[_part(comparison, by) for by in ("role", "path")]
    )


def _side(side: Side) -> str:
    size = f" ({side.run})" if side.run else ""
    return f"{side.name}{size} {human_energy(side.energy_j)}"


def _part(comparison: Comparison, by: str) -> Section:
    rows = comparison.differences(by)
    heads = (by, "first", "second", "difference", "FLOPs", "bytes", "efficiency")
    nothing_j = ROUNDING * max(comparison.base.energy_j, comparison.other.energy_j)

    def cells(row: Contribution) -> list[str]:
        terms = (row.difference_j, row.flops_j, row.bytes_j, row.efficiency_j)
        return [
            row.name[:LONGEST_CELL],
            human_energy(row.base_j),
            human_energy(row.other_j),
            *(signed_energy(term, nothing_j) for term in terms),
        ]

    shown = [cells(row) for row in rows[:MOST_CONTRIBUTIONS]]
    more = len(rows) - len(shown)
    return Section(f"by {by}", heads, shown, by == "role", more, "nothing differs")
