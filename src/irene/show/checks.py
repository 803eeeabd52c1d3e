"""Budgets of a project in Markdown, for comments, and as JUnit tests, for pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from irene.human import human_energy
from irene.show.page.shell import rendered
from irene.show.text import plain, signed_energy

if TYPE_CHECKING:
    from irene.analyse.budgets import Check, Checked

MARKER = "<!-- irene check -->"
"""First line of the Markdown, by which a comment is found again."""
MOST_NODES = 5


def change_words(row: Checked) -> str:
    """What changed against the base, in a few words."""
    if row.base_problem:
        return "new"
    if row.change_percent is None:
        return ""
    if not row.changes:
        return "no change"
    sign = "+" if row.change_percent >= 0 else "−"
    return f"{sign}{abs(row.change_percent):.3g} %"


def node_words(row: Checked) -> list[str]:
    """The nodes that made a change, the largest first."""
    changes = row.changes
    told = [f"{plain(name)} {signed_energy(j)}" for name, j in changes[:MOST_NODES]]
    rest = len(changes) - MOST_NODES
    return [*told, f"{rest} more"] if rest > 0 else told


def amounts(row: Checked) -> list[str]:
    """Energy per token and per sequence."""
    found = (row.j_per_token, row.j_per_sequence)
    return ["–" if each is None else human_energy(each) for each in found]


def told_of(row: Checked, as_node: Callable[[str], str] = plain) -> list[str]:
    """What is to be said of a budget beside its numbers."""
    told = [*filter(None, [row.problem]), *row.over]
    if row.changes:
        told.append(f"changed: {', '.join(map(as_node, node_words(row)))}")
    if row.base_problem:
        told.append(f"not in the base: {row.base_problem}")
    return told


def check_markdown(found: Check) -> str:
    """A table for a comment; it begins with `MARKER`."""
    over = sum(bool(row.over) for row in found.rows)
    broken = sum(bool(row.problem) for row in found.rows)
    told = [f"{over} of {len(found.rows)} over budget"] * bool(over)
    told += [f"{broken} without a prediction"] * bool(broken)
    return rendered(
        "check.md", marker=MARKER, verdict=", ".join(told) or "within budget",
        found=found, amounts=amounts, change=change_words, told_of=told_of, code=_code,
    )  # fmt: skip


def _code(text: str) -> str:
    """As code in a cell of a table."""
    return f"`{plain(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def check_junit(found: Check) -> str:
    """One test per budget: failed where it is over, in error where it is unknown."""
    return rendered("check.xml", found=found, change=change_words, nodes=node_words)
