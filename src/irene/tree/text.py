"""A tree as plain text, for logs, notebooks and `print`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irene.tree.model_tree import ModelTree
    from irene.tree.node import Node

__all__ = ["human", "member_names", "table"]

STEPS = ("", "k", "M", "G", "T", "P", "E")


def human(value: float, unit: str = "") -> str:
    """A number in units of 1000, at most four digits: `178.8 G`, `1.57 k`, `12`.

    Args:
        value: Any non-negative number.
        unit: Appended to the prefix (`B`, `J`, `FLOP`).
    """
    step = 0
    while value >= 999.95 and step < len(STEPS) - 1:
        value /= 1000
        step += 1
    if step == 0 and value == int(value):
        digits = f"{int(value)}"
    else:
        digits = f"{value:.{2 if value < 9.995 else 1}f}"
    return f"{digits} {STEPS[step]}{unit}".rstrip()


def member_names(node: Node) -> str:
    """Name of a node; `layer.0…11` for a folded one, its calls for a repeated one."""
    names = [name.lstrip("/") for name in node.members]
    if len(names) == 1:
        return f"{names[0]} #{node.call}" if node.call > 1 else names[0]
    if len(set(names)) == 1:
        return names[0]
    first, last = names[0].split("."), names[-1].split(".")
    differing = [a for a, b in zip(first, last, strict=True) if a != b]
    if len(differing) != 1:
        return f"{names[0]} … {names[-1]}"
    return ".".join(
        a if a == b else f"{a}…{b}" for a, b in zip(first, last, strict=True)
    )


def table(tree: ModelTree, depth: int | None, level: str) -> str:
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
