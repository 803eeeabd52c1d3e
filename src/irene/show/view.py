"""What of a tree is shown, in which order, and how its parts add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats, Ints
from irene.errors import UsageError
from irene.human import human, human_energy
from irene.show.text import member_names
from irene.tree.model_tree import OWN, ModelTree
from irene.tree.node import Node

MEASURES = {"energy": "energy", "flops": "FLOPs", "bytes": "bytes"}
"""What costs that add up are called."""

VISIBLE_SHARE = 0.0005
"""Share of the energy from which a node that computes nothing is shown."""
SMALL_SHARE = 1e-5
"""Share of the energy below which a functional op is left out, as a view is."""
REST_SHARE = 0.01
"""A rest is shown if it is this share of its node."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a node, or the rest of a node that no shown child carries.

    Attributes:
        node: The node.
        depth: Levels below the model.
        weight: Energy, J, or FLOPs where the tree has no energy, of all instances.
        rest: False for the node itself.
        left_out: Nodes in this rest that are not shown.
    """

    node: Node
    depth: int
    weight: float
    rest: bool = False
    left_out: int = 0

    @property
    def name(self) -> str:
        """What the line is called, without its count."""
        if self.rest:
            hidden = f", {self.left_out} not shown" if self.left_out else ""
            return OWN.replace(")", f"{hidden})")
        return member_names(self.node) or self.node.op


@dataclass(frozen=True, slots=True)
class View:
    """The lines of a tree, and how many nodes are left out, with which share."""

    lines: list[Line]
    left_out: int
    left_out_share: float


@dataclass(frozen=True, slots=True)
class Part:
    """What a node costs beyond its children, all instances; `own` where it has some."""

    node: Node
    weight: float
    own: bool


def main_key(tree: ModelTree) -> str:
    """What shares are shares of: `energy`, or `flops` where there is none."""
    return "flops" if tree.energy is None else "energy"


def amount_of(value: float, key: str) -> str:
    """A weight for people: joules, or a number where it is no energy."""
    return human_energy(value) if key == "energy" else human(value)


def weights(tree: ModelTree, key: str) -> Floats:
    """One number per row, for all its instances together.

    Args:
        tree: Any tree.
        key: `energy` (J; not-a-number where unknown), `flops`, `bytes` or `params`.
    """
    columns = tree.columns
    if key == "energy":
        if tree.energy is None:
            raise UsageError("this tree carries no energy; `irene predict` adds it")
        return tree.energy.joules * tree.multiplicity
    if key == "bytes":
        per_instance: Ints = columns.bytes_read + columns.bytes_written
    else:
        per_instance = getattr(columns, key)
    return per_instance.astype(np.float64) * tree.multiplicity


def view(
    tree: ModelTree,
    depth: int | None = None,
    sort: str = "order",
    everything: bool = False,
) -> View:
    """Choose the lines of a tree so that those below a line add up to it.

    Args:
        tree: The tree, folded and cut as it is to be shown.
        depth: Levels below the model; None for all.
        sort: Order of siblings: `order` as they ran, or a key of `weights`.
        everything: Also show nodes that compute and move next to nothing.
    """
    weight = weights(tree, main_key(tree))
    order = None if sort == "order" else weights(tree, sort)
    shown = np.ones(len(tree), bool) if everything else _worth_showing(tree, weight)
    lines: list[Line] = []
    left_out, left_out_weight = 0, 0.0
    stack = [Line(tree.root, 0, float(weight[0]))]
    while stack:
        line = stack.pop()
        lines.append(line)
        if line.rest or (depth is not None and line.depth >= depth):
            continue
        children = tree.children_of(line.node.row)
        visible = [row for row in children if shown[row]]
        hidden = [row for row in children if not shown[row]]
        if order is not None:
            visible.sort(key=lambda row: -np.nan_to_num(order[row]))
        left_out += _nodes_below(tree, hidden)
        left_out_weight += _sum(weight, hidden)
        below = [
            Line(Node(tree, row), line.depth + 1, float(weight[row])) for row in visible
        ]
        stack.extend(reversed(below + _rest(tree, line, weight, visible, hidden)))
    share = left_out_weight / weight[0] if weight[0] > 0 else 0.0
    return View(lines, left_out, float(share))


def left_out(tree: ModelTree, chosen: View) -> str:
    """What of a tree is not shown, in words; "" where all is."""
    if not chosen.left_out:
        return ""
    if tree.energy is None:
        return f"nodes that cost nothing, not shown: {chosen.left_out:,}"
    share = f"{chosen.left_out_share:.1%} of the energy"
    return f"views and ops below 0.001%, not shown: {chosen.left_out:,}, {share}"


def _rest(
    tree: ModelTree, line: Line, weight: Floats, visible: list[int], hidden: list[int]
) -> list[Line]:
    """The line of what no visible child carries, if it is worth one."""
    if tree.energy is None or not visible or np.isnan(line.weight):
        return []
    rest = line.weight - _sum(weight, visible)
    if abs(rest) <= REST_SHARE * line.weight:
        return []
    left_out = _nodes_below(tree, hidden) if _sum(weight, hidden) else 0
    return [Line(line.node, line.depth + 1, rest, rest=True, left_out=left_out)]


def _sum(weight: Floats, rows: list[int]) -> float:
    return float(np.nansum(weight[rows])) if rows else 0.0


def _nodes_below(tree: ModelTree, rows: list[int]) -> int:
    """Nodes of the unfolded tree in the subtrees of some rows."""
    return sum(int(tree.multiplicity[row : tree.ends[row]].sum()) for row in rows)


def _worth_showing(tree: ModelTree, weight: Floats) -> npt.NDArray[np.bool_]:
    """Rows that matter, or have such a row below them.

    A row matters that computes, holds or moves something; where energy is known, with
    more than next to nothing of it.
    """
    columns = tree.columns
    busy = (columns.flops + columns.bytes_read + columns.bytes_written) > 0
    if tree.energy is not None:
        busy &= ~(weight < SMALL_SHARE * weight[0])
        busy |= weight > VISIBLE_SHARE * weight[0]
    busy |= columns.params > 0
    busy[0] = True
    found: npt.NDArray[np.bool_] = columns.inclusive(busy.astype(np.int64)) > 0
    return found


def largest_parts(
    tree: ModelTree, count: int, key: str, depth: int | None = None
) -> list[Part]:
    """The nodes with the largest part of the cost, without overlap.

    A node counts with what its children do not carry, so that all parts together are
    the whole model.
    """
    weight = weights(tree, key)
    carried = np.zeros(len(tree))
    reach = tree.columns.depth <= (len(tree) if depth is None else depth)
    below = np.flatnonzero(reach)[1:]
    np.add.at(carried, tree.parents[below], np.nan_to_num(weight[below]))
    part = np.where(reach, weight - carried, 0.0)
    has_children = np.zeros(len(tree), bool)
    has_children[tree.parents[below]] = True
    ranked = np.argsort(-np.nan_to_num(part), kind="stable")[:count]
    return [
        Part(Node(tree, int(row)), float(part[row]), bool(has_children[row]))
        for row in ranked
        if part[row] > 0
    ]
