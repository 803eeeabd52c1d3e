"""A tree as notebooks show it: lists that fold, without script or style sheet.

Viewers of notebooks clean what they show: scripts go, style sheets go, sometimes styles
on elements, too. So the tree is made of elements that fold by themselves, bars are
characters, colours are the viewer's own, and nothing is lost where styles are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from irene.show.headline import (
    energy_per_unit,
    energy_source,
    is_warning,
    model_name,
    run_sizes,
)
from irene.show.text import human, human_energy, human_range, member_names
from irene.show.view import Line, main_key, view
from irene.tree.model_tree import OWN, ModelTree

__all__ = ["bar", "frame", "heading", "plain_table", "tree_html", "tree_list"]

MOST_LINES = 250
LONGEST_NAME = 60
OPEN_SHARE = 0.5
"""Modules with this share are open at first."""
MOST_NOTES = 8
BAR_LENGTH = 10
EIGHTHS = " ▏▎▍▌▋▊▉█"
OUTSIDE = "font:13px/1.6 system-ui,sans-serif;max-width:62em;text-align:left"
LIST = "list-style:none;margin:0;padding:0 0 0 1.1em"
TOP_LIST = "list-style:none;margin:.4em 0;padding:0"
LINE = "display:inline-flex;gap:1em;vertical-align:top;width:calc(100% - {less}em)"
BESIDE_MARKER, BESIDE_NOTHING = 1.6, 0.5
"""What a line leaves free, so that numbers of all lines end at one place."""
NAME = "flex:1 1 auto;overflow-wrap:anywhere"
NUMBER = "flex:none;width:6em;text-align:right;font-variant-numeric:tabular-nums"
BAR = "flex:none;width:6.5em;background:none;color:#c8622d;white-space:pre"
LEAF = "padding-left:1.1em"
SOFT = "opacity:.7"


def tree_html(tree: ModelTree) -> str:
    """What a notebook shows of a tree: its headline, and its nodes folded.

    Args:
        tree: Any tree; shares are of energy, or of FLOPs if it carries none.
    """
    return frame(f"{heading(*_headline(tree))}{tree_list(tree)}{_notes(tree.notes)}")


def frame(body: str) -> str:
    """The element around everything that a notebook shows.

    Args:
        body: Elements, with all text in them escaped.
    """
    text = f'<div class="irene" style="{OUTSIDE}">{body}</div>'
    # A name from a file may hold half a character, which no notebook could.
    return text.encode("utf-8", "replace").decode("utf-8")


def heading(title: str, lines: Iterable[str] = ()) -> str:
    """A line in bold, and lines that say more.

    Args:
        title: Plain text.
        lines: Plain texts; empty ones are left out.
    """
    more = "".join(
        f'<br><span style="{SOFT}">{escape(line)}</span>' for line in lines if line
    )
    return f"<div><b>{escape(title)}</b>{more}</div>"


def bar(share: float) -> str:
    """A share as characters, at most ten wide.

    Args:
        share: 0 to 1; what is beyond, or not a number, is cut.
    """
    known = 0.0 if math.isnan(share) else min(max(share, 0.0), 1.0)
    eighths = round(known * BAR_LENGTH * 8)
    return (EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8]).strip()


def plain_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column is text, the others are numbers.

    Args:
        heads: Plain texts.
        rows: Plain texts, as many each as there are heads.
    """

    def cells(tag: str, texts: Sequence[str]) -> str:
        sides = ["left", *["right"] * (len(texts) - 1)]
        return "".join(
            f'<{tag} style="text-align:{side};padding:0 .8em 0 0">'
            f"{escape(text)}</{tag}>"
            for side, text in zip(sides, texts, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f"<table><thead><tr>{cells('th', heads)}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


# The tree ---------------------------------------------------------------------


def _headline(tree: ModelTree) -> tuple[str, list[str]]:
    energy, total = tree.energy_of(0), tree.total()
    what = human_range(energy) if energy else human(total.flops, "FLOP")
    each = [f"{human_energy(j)} per {unit}" for unit, j in energy_per_unit(tree)]
    costs = [human(total.flops, "FLOP"), f"{human(total.bytes, 'B')} moved"]
    return f"{model_name(tree)}: {what}", [
        " · ".join(run_sizes(tree.spec)) if tree.spec else "",
        " · ".join([*each, *(costs if energy else costs[1:])]),
        energy_source(tree),
    ]


def tree_list(tree: ModelTree) -> str:
    """The nodes as a list in lists, equal layers folded, large trees cut.

    Args:
        tree: Any tree.
    """
    lines, left_out = _lines(tree)
    whole = lines[0].weight
    pieces = []
    following = [line.depth for line in lines[1:]] + [0]
    for line, after in zip(lines, following, strict=True):
        below = after > line.depth
        told = _line(tree, line, whole, BESIDE_MARKER if below else BESIDE_NOTHING)
        if below:
            is_open = " open" if _is_open(line, whole) else ""
            pieces.append(
                f'<li><details{is_open}><summary>{told}</summary><ul style="{LIST}">'
            )
        else:
            pieces.append(f'<li><div style="{LEAF}">{told}</div></li>')
        pieces.append("</ul></details></li>" * max(line.depth - after, 0))
    more = f'<div style="{SOFT}">{_left_out(left_out)}</div>' if left_out else ""
    return f'<ul style="{TOP_LIST}">{"".join(pieces)}</ul>{more}'


def _is_open(line: Line, whole: float) -> bool:
    return line.depth == 0 or line.weight >= OPEN_SHARE * whole > 0


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


def _left_out(count: int) -> str:
    return f"{count:,} lines more than fit here: to_html() makes a page of them all"


def _line(tree: ModelTree, line: Line, whole: float, less: float) -> str:
    is_energy = main_key(tree) == "energy"
    amount = human_energy(line.weight) if is_energy else human(line.weight)
    share = line.weight / whole if whole > 0 else 0.0
    percent = "" if math.isnan(share) else f"{share:.1%}"
    return (
        f'<span style="{LINE.format(less=less)}">'
        f'<span style="{NAME}">{_name(line)}</span> '
        f'<span style="{NUMBER}">{amount}</span> '
        f'<span style="{NUMBER}">{percent}</span> '
        f'<code style="{BAR}">{bar(share)}</code></span>'
    )


def _name(line: Line) -> str:
    node = line.node
    if line.rest:
        return f"<i>{OWN}</i>"
    name = _shortened(member_names(node) or node.op)
    times = f" ×{node.count}" if node.count > 1 else ""
    op = (
        "" if node.op == name else f' <span style="{SOFT}">{_shortened(node.op)}</span>'
    )
    return f"{name}{times}{op}"


def _shortened(text: str) -> str:
    cut = text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
    return escape(cut)


def _notes(notes: Sequence[str]) -> str:
    """Warnings first; a page has all of them."""
    ordered = sorted(notes, key=lambda note: not is_warning(note))
    return "".join(
        f"<div>{'⚠ ' if is_warning(note) else ''}{escape(note[:300])}</div>"
        for note in ordered[:MOST_NOTES]
    )
