"""A tree as plain text, for logs, notebooks and `print`, and the names of its nodes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from irene.human import human, human_energy, human_range

if TYPE_CHECKING:
    from irene.tree.model_tree import ModelTree
    from irene.tree.node import Node

__all__ = [
    "bar",
    "counted_name",
    "member_names",
    "plain",
    "ranged_path",
    "signed_energy",
    "total_words",
    "tree_text",
]

BAR_LENGTH = 10
EIGHTHS = " ▏▎▍▌▋▊▉█"
ROUNDING_J = 5e-12
"""A smaller difference is what adding up has left."""


def plain(text: str) -> str:
    """Text of a file without what would steer the terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def bar(share: float) -> str:
    """A share as characters, at most ten wide.

    Args:
        share: 0 to 1; what is beyond, or not a number, is cut.
    """
    known = 0.0 if math.isnan(share) else min(max(share, 0.0), 1.0)
    eighths = round(known * BAR_LENGTH * 8)
    return (EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8]).strip()


def signed_energy(joules: float, nothing_j: float = ROUNDING_J) -> str:
    """A difference of energies: `+1.20 J`, `−350 mJ`; rounding is none.

    Args:
        joules: The difference, J.
        nothing_j: What is smaller is no difference, J.
    """
    if abs(joules) <= nothing_j:
        return "0 J"
    return f"+{human_energy(joules)}" if joules > 0 else human_energy(joules)


def member_names(node: Node) -> str:
    """Name of a node; `layer.0…11` for a folded one, its calls for a repeated one."""
    name = _ranged_name(node)
    return f"{name} #{node.call}" if node.count == 1 and node.call > 1 else name


def total_words(tree: ModelTree) -> str:
    """Energy of the whole with its interval, or its FLOPs where it has none."""
    energy = tree.energy_of(0)
    return human_range(energy) if energy else human(tree.root.flops, "FLOP")


def counted_name(node: Node) -> str:
    """Name of a node, or its op, with the number of equal ones it stands for."""
    times = f" ×{node.count}" if node.count > 1 else ""
    return f"{member_names(node) or node.op}{times}"


def ranged_path(node: Node) -> str:
    """Path of a node, with the ranges of the folded nodes above it."""
    parts: list[str] = []
    here: Node | None = node
    while here is not None and here.row:
        parts.append(_ranged_name(here))
        apart = here.tree.strings[int(here.tree.columns.name[here.row])].startswith("/")
        here = None if apart else here.parent
    path = ".".join(reversed(parts))
    return f"{path} #{node.call}" if node.count == 1 and node.call > 1 else path


def _ranged_name(node: Node) -> str:
    names = [name.lstrip("/") for name in node.members]
    if len(set(names)) == 1:
        return names[0]
    first, last = names[0].split("."), names[-1].split(".")
    differing = [a for a, b in zip(first, last, strict=True) if a != b]
    if len(differing) != 1:
        return f"{names[0]} … {names[-1]}"
    return ".".join(
        a if a == b else f"{a}…{b}" for a, b in zip(first, last, strict=True)
    )


def tree_text(tree: ModelTree, depth: int | None, level: str) -> str:
    """The folded tree, one line per node, costs of all instances and their share."""
    folded = tree.at_level(level).fold()
    total = max(folded.total().flops, 1)
    lines = [f"{'':48} {'op':30} {'FLOPs':>9} {'share':>6} {'bytes':>9} {'params':>9}"]
    for node in folded.nodes():
        indent = int(folded.columns.depth[node.row])
        if depth is not None and indent > depth:
            continue
        times = int(folded.multiplicity[node.row])
        count = f" ×{node.count}" if node.count > 1 else ""
        name = "  " * indent + (member_names(node) or "(model)") + count
        lines.append(
            f"{name:48} {node.op:30} {human(node.flops * times):>9} "
            f"{node.flops * times / total:6.1%} {human(node.bytes * times):>9} "
            f"{human(node.params):>9}"
        )
    return "\n".join(lines)
