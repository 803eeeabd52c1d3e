"""Budgets of a project in Markdown, for comments, and as JUnit tests, for pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from irene.human import human_energy
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
    lines = [MARKER, f"### Energy: {_verdict(found)}", ""]
    lines += ["| | model | J per token | J per sequence | change |", "|---" * 5 + "|"]
    for row in found.rows:
        state = "⚠️" if row.problem else "❌" if row.over else "✅"
        cells = [state, _code(row.budget.name), *amounts(row), change_words(row)]
        lines.append(f"| {' | '.join(cells)} |")
    for row in found.rows:
        if told := told_of(row, _code):
            lines += ["", f"{_code(row.budget.name)}: {'; '.join(told)}"]
    base = f", compared with {_code(found.base)}" if found.base else ""
    return "\n".join([*lines, "", f"Predicted by irene, not measured{base}.", ""])


def _verdict(found: Check) -> str:
    broken = sum(bool(row.problem) for row in found.rows)
    over = sum(bool(row.over) for row in found.rows)
    told = [f"{over} of {len(found.rows)} over budget"] * bool(over)
    told += [f"{broken} without a prediction"] * bool(broken)
    return ", ".join(told) or "within budget"


def _code(text: str) -> str:
    """As code in a cell of a table."""
    return f"`{plain(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def check_junit(found: Check) -> str:
    """One test per budget: failed where it is over, in error where it is unknown."""
    problems = [row for row in found.rows if row.problem]
    over = [row for row in found.rows if row.over]
    suite = ElementTree.Element(
        "testsuite", name="irene check", tests=str(len(found.rows)),
        failures=str(len(over)), errors=str(len(problems)),
    )  # fmt: skip
    for row in found.rows:
        name = plain(row.budget.name)
        case = ElementTree.SubElement(
            suite, "testcase", classname="irene.check", name=name
        )
        if row.problem:
            ElementTree.SubElement(case, "error", message=plain(row.problem))
        if row.over:
            failed = ElementTree.SubElement(
                case, "failure", message="; ".join(row.over)
            )
            failed.text = "\n".join(node_words(row))
        energies = {"token": row.j_per_token, "sequence": row.j_per_sequence}
        known = [f"{j} J per {of}" for of, j in energies.items() if j is not None]
        told = " ".join([*known[:1], change_words(row)]).strip()
        ElementTree.SubElement(case, "system-out").text = told
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
