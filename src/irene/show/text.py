"""A tree as plain text, for logs, notebooks and `print`; numbers for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irene.energy import Energy
    from irene.tree.model_tree import ModelTree
    from irene.tree.node import Node

__all__ = [
    "human",
    "human_energy",
    "human_range",
    "human_spread",
    "member_names",
    "ranged_path",
    "table",
]

STEPS = ("", "k", "M", "G", "T", "P", "E")
ENERGY_STEPS = (
    (1e9, "GJ"),
    (1e6, "MJ"),
    (1e3, "kJ"),
    (1.0, "J"),
    (1e-3, "mJ"),
    (1e-6, "µJ"),
    (1e-9, "nJ"),
)
UNKNOWN = "–"


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


def human_energy(joules: float) -> str:
    """An energy in the unit that suits it: `54.8 J`, `123.4 mJ`, `1.20 kJ`.

    Args:
        joules: Any number, J; not-a-number is unknown and shown as a dash.
    """
    if math.isnan(joules):
        return UNKNOWN
    size, unit = _energy_step(joules)
    return f"{_energy_digits(joules / size)} {unit}"


def human_range(energy: Energy) -> str:
    """An energy with the ends of its interval in one unit: `54.8 J (53.9 – 55.7)`."""
    size, _ = _energy_step(energy.joules)
    low, high = (_energy_digits(end / size) for end in (energy.low, energy.high))
    return f"{human_energy(energy.joules)} ({low} – {high})"


def human_spread(energy: Energy) -> str:
    """How far the interval reaches, relative to the value: `±2.0%`, `−3.0% +12%`."""
    if energy.joules <= 0:
        return ""
    down = _percent((energy.joules - energy.low) / energy.joules)
    up = _percent((energy.high - energy.joules) / energy.joules)
    return f"±{up}" if down == up else f"−{down} +{up}"


def _energy_step(joules: float) -> tuple[float, str]:
    steps = (step for step in ENERGY_STEPS if abs(joules) >= 0.99995 * step[0])
    return next(steps, (1.0, "J") if joules == 0 else ENERGY_STEPS[-1])


def _energy_digits(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:.{2 if abs(value) < 9.995 else 1}f}".replace("-", "−")


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


def member_names(node: Node) -> str:
    """Name of a node; `layer.0…11` for a folded one, its calls for a repeated one."""
    name = _ranged_name(node)
    return f"{name} #{node.call}" if node.count == 1 and node.call > 1 else name


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
