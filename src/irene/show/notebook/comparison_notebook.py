"""A comparison as notebooks show it, and as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from irene.show.data_frame import data_frame
from irene.show.notebook.tree_notebook import frame, heading, plain_table
from irene.show.text import human_energy

if TYPE_CHECKING:
    from irene.analyse.comparison import Comparison, Contribution, Side

__all__ = ["comparison_frame", "comparison_html"]

MOST_ROWS = 30
LONGEST_NAME = 80
ROUNDING = 1e-9
"""Part of the larger energy below which a term is what adding up has left."""


def comparison_html(found: Comparison) -> str:
    """What a notebook shows of a comparison: the difference, and what explains it.

    Args:
        found: Any comparison.
    """
    lines = [
        f"{_side(found.base)} → {_side(found.other)}, per {found.per}",
        _verdict(found),
    ]
    roles = _table(found, found.differences("role"), "role")
    paths = _table(found, found.differences("path"), "path")
    return frame(
        heading(f"{found.base.name} → {found.other.name}: {_change(found)}", lines)
        + f"<details open><summary>by role</summary>{roles}</details>"
        + f"<details><summary>by path</summary>{paths}</details>"
    )


def _side(side: Side) -> str:
    size = f" ({side.run})" if side.run else ""
    return f"{side.name}{size} {human_energy(side.energy_j)}"


def _signed(joules: float, nothing_j: float = 0.0) -> str:
    """A difference with its sign; what adding up has left is nothing."""
    told = human_energy(joules if abs(joules) > nothing_j else 0.0)
    return f"+{told}" if joules > nothing_j else told


def _change(found: Comparison) -> str:
    ratio = found.ratio
    percent = "" if ratio is None else f" ({_percent(ratio - 1)})"
    return f"{_signed(found.difference_j)} ± {human_energy(found.half_j)}{percent}"


def _percent(share: float) -> str:
    return f"{share:+.1%}".replace("-", "−")


def _verdict(found: Comparison) -> str:
    if found.is_real:
        return "a real difference: its interval leaves zero out"
    return "no real difference: its interval holds zero"


def _table(found: Comparison, rows: Sequence[Contribution], by: str) -> str:
    if not rows:
        return "nothing differs"
    heads = (by, "first", "second", "difference", "FLOPs", "bytes", "efficiency")
    terms = ("difference_j", "flops_j", "bytes_j", "efficiency_j")
    nothing_j = ROUNDING * max(found.base.energy_j, found.other.energy_j)
    shown = [
        [
            row.name[:LONGEST_NAME],
            human_energy(row.base_j),
            human_energy(row.other_j),
            *(_signed(getattr(row, term), nothing_j) for term in terms),
        ]
        for row in rows[:MOST_ROWS]
    ]
    left_out = len(rows) - len(shown)
    more = f"<div>and {left_out:,} more</div>" if left_out else ""
    return plain_table(heads, shown) + more


def comparison_frame(found: Comparison, by: str | None = None) -> Any:
    """All contributions, those of nothing too, as a pandas DataFrame.

    Args:
        found: Any comparison.
        by: `role` or `path`; by default as the trees are aligned.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    from irene.analyse.comparison import Contribution

    rows = found.by_role if (by or found.aligned_by) == "role" else found.by_path
    names = [*(field.name for field in fields(Contribution)), "difference_j"]
    return data_frame({name: [getattr(row, name) for row in rows] for name in names})
