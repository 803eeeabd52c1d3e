"""Cells of the tables on the terminal: names, bars, text that cannot misbehave."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from irene.tree import Node, member_names

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

__all__ = ["empty_table", "name_cell", "op_cell", "plain", "share_cell"]

BAR_WIDTH = 10
EIGHTHS = " ▏▎▍▌▋▊▉█"
KIND_STYLES = {"model": "bold", "module": "", "ml": "cyan", "math": "dim"}


def plain(text: str) -> str:
    """Text of a file without what would steer the terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def empty_table() -> Table:
    """A table without rules, as all trees are shown in."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")


def name_cell(node: Node, depth: int) -> Text:
    """The name of a node, indented, with its count."""
    from rich.text import Text

    name = plain(member_names(node) or node.op)
    text = Text("  " * depth + name, style=KIND_STYLES[node.kind])
    if node.count > 1:
        text.append(f" ×{node.count}", style="bold yellow")
    return text


def op_cell(node: Node) -> Text:
    """Class or function of a node, and whether its FLOPs are unknown."""
    from rich.text import Text

    return Text(plain(node.op) + (" (no formula)" if node.unsupported else ""))


def share_cell(part: float, whole: float) -> Text:
    """A share in percent and as a bar."""
    from rich.text import Text

    if math.isnan(part) or math.isnan(whole):
        return Text()
    share = part / whole if whole else 0.0
    eighths = min(max(round(share * BAR_WIDTH * 8), 0), BAR_WIDTH * 8)
    bar = EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    text = Text(f"{share:6.1%} ")
    text.append(f"{bar:<{BAR_WIDTH}}", style="green")
    return text
