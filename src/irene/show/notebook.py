"""Trees, ledgers and comparisons as notebooks show them.

Viewers of notebooks clean what they show: scripts go, style sheets go, sometimes styles
on elements, too. So a tree is made of elements that fold by themselves, bars are
characters, colours are the viewer's own, and nothing is lost where styles are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from irene.human import human, human_energy, human_range
from irene.show.page.shell import rendered
from irene.show.text import signed_energy, total_words
from irene.show.view import Line, main_key, view
from irene.tree.headline import (
    energy_per_unit,
    energy_source,
    is_warning,
    model_name,
    run_words,
)
from irene.tree.model_tree import ModelTree

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.analyse.comparison import Comparison, Side

MOST_LINES = 250
MOST_NOTES = 8
LONGEST_NOTE = 300
MOST_OPS = 20
ROUNDING = 1e-9
"""Part of the larger energy below which a term is what adding up has left."""


def _shown(
    template: str,
    title: str,
    lines: Sequence[str],
    tree: ModelTree | None = None,
    notes: Sequence[str] = (),
    **values: Any,
) -> str:
    """A heading with lines below it, a tree, tables, and notes, warnings first."""
    ordered = sorted(notes, key=lambda note: not is_warning(note))[:MOST_NOTES]
    shown, left_out = _lines(tree) if tree is not None else ([], 0)
    depths = [*(line.depth for line in shown[1:]), 0]
    return rendered(
        template,
        title=title,
        lines=[line for line in lines if line],
        rows=list(zip(shown, depths, strict=False)),
        key=tree and main_key(tree),
        left_out=left_out,
        notes=[note[:LONGEST_NOTE] for note in ordered],
        **values,
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
    return _shown("notebook.html", title, lines, tree, tree.notes)


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


# A ledger ---------------------------------------------------------------------


def ledger_notebook(ledger: Ledger) -> str:
    """What a notebook shows of a ledger: the whole, the tree, the dearest ops."""
    share = ledger.attributed_j / ledger.measured_j if ledger.measured_j > 0 else 0.0
    lines = [
        f"{ledger.source} by {ledger.produced_by} over {ledger.window_s:.3f} s",
        f"{share:.1%} charged to {len(ledger.events):,} events",
    ]
    title = f"energy: {human_range(ledger.total())}"
    return _shown(
        "notebook_ledger.html", title, lines, ledger.tree(), ledger.notes,
        ledger=ledger, most=MOST_OPS,
    )  # fmt: skip


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
    nothing_j = ROUNDING * max(base.energy_j, other.energy_j)
    return _shown(
        "notebook_comparison.html", title, lines, comparison=comparison,
        nothing_j=nothing_j,
    )  # fmt: skip


def _side(side: Side) -> str:
    size = f" ({side.run})" if side.run else ""
    return f"{side.name}{size} {human_energy(side.energy_j)}"
