"""The picture of a tree: a row of boxes per level, as wide as their share."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from irene.show.text import member_names
from irene.show.view import main_key, weights
from irene.tree.columns import KINDS
from irene.tree.model_tree import ModelTree
from irene.tree.node import Node

__all__ = ["PlacedBox", "icicle", "placed_boxes", "shade"]

LEVEL_HEIGHT = 24
NARROWEST = 0.0015
"""Share below which a box would be thinner than its border."""
NARROWEST_LABEL = 0.05
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares at which the next colour begins."""


def shade(share: float) -> int:
    """Number of the colour of a share, 0 to 7; one ramp for picture and tables."""
    return int(np.searchsorted(STEPS, share, side="right"))


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """The box of one node.

    Attributes:
        row: The node's row in its tree.
        name: Of the node, with the number of equal ones it stands for.
        level: Below the model.
        start: Where it begins, as a part of the whole width.
        share: How wide it is, as a part of the whole width.
    """

    row: int
    name: str
    level: int
    start: float
    share: float


def placed_boxes(tree: ModelTree) -> list[PlacedBox]:
    """A box for every node wide enough to be seen; space without one is a module's own.

    Args:
        tree: The tree, folded as it is to be shown.
    """
    weight = np.nan_to_num(weights(tree, main_key(tree)))
    whole = weight[0]
    left = np.zeros(len(tree))
    boxes = []
    for row in range(len(tree)):
        _place_children(tree, row, weight, left)
        share = weight[row] / whole if whole > 0 else float(row == 0)
        too_deep = tree.columns.kind[row] > KINDS.index("ml")
        if share < NARROWEST or too_deep:
            continue
        node = Node(tree, row)
        times = f" ×{node.count}" if node.count > 1 else ""
        name = f"{member_names(node) or node.op}{times}"
        start = left[row] / whole if whole > 0 else 0.0
        level = int(tree.columns.depth[row])
        boxes.append(PlacedBox(row, name, level, float(start), float(share)))
    return boxes


def icicle(tree: ModelTree, label: str) -> str:
    """The tree as an SVG element; space without a box is a module's own.

    Boxes are placed in percent and their text in pixels, so that the picture takes any
    width and stays readable.

    Args:
        tree: The tree, folded as it is to be shown.
        label: What the picture shows, for those who do not see it.
    """
    boxes = placed_boxes(tree)
    height = (max((box.level for box in boxes), default=0) + 1) * LEVEL_HEIGHT
    drawn = "".join(_box(tree, box) for box in boxes)
    return (
        f'<svg class="icicle" role="img" height="{height}" '
        f'aria-label="{escape(label)}">{drawn}</svg>'
    )


def _place_children(
    tree: ModelTree, row: int, weight: np.ndarray, left: np.ndarray
) -> None:
    """Set the children of a row side by side, from where the row begins."""
    position = left[row]
    for child in tree.children_of(row):
        left[child] = position
        position += weight[child]


def _box(tree: ModelTree, box: PlacedBox) -> str:
    name, op = escape(box.name), escape(Node(tree, box.row).op)
    label = box.share >= NARROWEST_LABEL
    text = f'<text x="5" y="16">{name}</text>' if label else ""
    return (
        f'<svg data-row="n{box.row}" x="{box.start:.3%}" '
        f'y="{box.level * LEVEL_HEIGHT}" '
        f'width="{box.share:.3%}" height="{LEVEL_HEIGHT}">'
        f"<title>{name} ({op}): {box.share:.1%}</title>"
        f'<rect class="c{shade(box.share)}" width="100%" height="100%"/>{text}</svg>'
    )
