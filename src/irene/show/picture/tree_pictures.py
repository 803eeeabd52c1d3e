"""Trees as pictures: boxes as wide as their share, and boxes with lines between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irene.errors import UsageError
from irene.show.picture.colours import shade
from irene.show.picture.frame import EDGE, Sheet, signed
from irene.show.picture.lettering import shortened, text_width
from irene.show.picture.picture import Picture
from irene.show.text import counted_name, origin, total_words
from irene.show.view import MEASURES, amount_of, main_key, weights
from irene.tree.columns import KINDS
from irene.tree.headline import model_name, tree_sizes
from irene.tree.model_tree import ModelTree
from irene.tree.node import Node

DRAWINGS = ("icicle", "annotated")
"""Kinds of pictures: boxes as wide as their share; boxes and lines with joules."""
NARROWEST = 0.0015
"""Share below which a box would be thinner than its border."""
LEVEL = 26.0
NAME_SIZE, NUMBER_SIZE = 12.5, 11.5
HIGH, BETWEEN, GAP = 38.0, 7.0, 30.0
WIDEST = 250.0


def tree_picture(
    tree: ModelTree, kind: str = "icicle", depth: int | None = None
) -> Picture:
    """Draw a tree with its name and total as title.

    Args:
        tree: Any tree; equal layers are folded.
        kind: One of `DRAWINGS`; `annotated` is the manner of Figure 5 of the IrEne
            paper (Cao et al., ACL 2021).
        depth: Levels below the model of an annotated tree; None for all.
    """
    if kind not in DRAWINGS:
        raise UsageError(f"no picture {kind!r}; there are {', '.join(DRAWINGS)}")
    title = ", ".join([model_name(tree), *tree_sizes(tree)[:2]])
    title = f"{title}: {total_words(tree)}"
    if kind == "icicle":
        return signed(icicle_chart(tree, title), origin(tree))
    return signed(tree_chart(boxes_of(tree, depth), title), origin(tree))


# Boxes as wide as their share -------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """The box of one node: its place and width are parts of the whole width."""

    node: Node
    name: str
    level: int
    start: float
    share: float


def placed_boxes(tree: ModelTree) -> list[PlacedBox]:
    """A box for every node wide enough to be seen; free space is a module's own."""
    weight = np.nan_to_num(weights(tree, main_key(tree)))
    whole = float(weight[0])
    left = np.zeros(len(tree))
    boxes = []
    for node in tree.nodes():
        start = left[node.row]
        for child in tree.children_of(node.row):
            left[child] = start
            start += weight[child]
        share = weight[node.row] / whole if whole > 0 else float(node.row == 0)
        too_deep = tree.columns.kind[node.row] > KINDS.index("ml")
        if share < NARROWEST or too_deep:
            continue
        place = left[node.row] / whole if whole > 0 else 0.0
        level = int(tree.columns.depth[node.row])
        boxes.append(
            PlacedBox(node, counted_name(node), level, float(place), float(share))
        )
    return boxes


def icicle_chart(tree: ModelTree, title: str, width: float = 860) -> Picture:
    """A row of boxes per level, as wide as their share, equal layers folded."""
    sheet = Sheet(title, width)
    top = sheet.top + 4
    whole = width - 2 * EDGE
    boxes = placed_boxes(tree.at_level("ml").fold())
    for box in boxes:
        at = (EDGE + whole * box.start, top + LEVEL * box.level)
        step = shade(box.share)
        size = (max(whole * box.share - 1, 0.5), LEVEL - 1)
        hint = f"{box.name} ({box.node.op}): {box.share:.1%}"
        sheet.rectangle(at, size, f"ramp{step}", hint=hint)
        words = shortened(box.name, 12, size[0] - 8)
        if len(words) > 2 or words == box.name:
            sheet.text((at[0] + 4, at[1] + 17), words, 12, f"on{step}")
    deepest = max((box.level for box in boxes), default=0)
    told = (
        "Levels of the model from top to bottom, each box as wide as its share of the "
        f"{MEASURES[main_key(tree)]}."
    )
    columns = ("path", "op", "level", "start", "share")
    rows = [(b.node.path, b.node.op, b.level, b.start, b.share) for b in boxes]
    return sheet.picture(top + LEVEL * (deepest + 1) + 14, columns, rows, told)


# Boxes with lines between -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeBox:
    """One node of an annotated tree; nodes come in pre-order, shaded by their share."""

    name: str
    depth: int
    share: float
    text: str = ""
    joules: float | None = None


def boxes_of(tree: ModelTree, depth: int | None = None) -> list[TreeBox]:
    """The nodes of a tree with energy (or FLOPs) and share; equal layers are one."""
    shown = tree.at_level("ml").fold()
    key = main_key(shown)
    weight = np.nan_to_num(weights(shown, key)).tolist()
    found = []
    for node, value in zip(shown.nodes(), weight, strict=True):
        level = int(shown.columns.depth[node.row])
        if not value or (depth is not None and level > depth):
            continue
        share = min(value / (weight[0] or 1.0), 1.0)
        text = f"{amount_of(value, key)} · {share:.1%}"
        joules = value if key == "energy" else None
        found.append(TreeBox(counted_name(node), level, share, text, joules))
    return found


def tree_chart(boxes: Sequence[TreeBox], title: str, width: float = 860) -> Picture:
    """A tree as boxes and lines from left to right, shaded by share.

    This is how Figure 5 of the IrEne paper (Cao et al., ACL 2021) shows BERT.
    """
    widths = _column_widths(boxes)
    lefts = [EDGE + sum(widths[:d]) + d * GAP for d in range(len(widths))]
    width = max(width, lefts[-1] + widths[-1] + EDGE)
    sheet = Sheet(title, width)
    top = sheet.top + 6
    parents = _parents(boxes)
    middles = [top + middle for middle in _middles(parents)]
    for box, parent, y in zip(boxes, parents, middles, strict=True):
        left, wide = lefts[box.depth], widths[box.depth]
        if parent is not None:
            above = boxes[parent].depth
            start, bend = lefts[above] + widths[above], lefts[above + 1] - GAP / 2
            corner = (bend, middles[parent])
            link = [(start, middles[parent]), corner, (bend, y), (left, y)]
            sheet.line(link, "soft", 1.2, mark=False)
        step = shade(box.share)
        at, hint = (left, y - HIGH / 2), f"{box.name}: {box.text}"
        sheet.rectangle(at, (wide, HIGH), f"ramp{step}", "soft", hint, corner=4)
        name = shortened(box.name, NAME_SIZE, wide - 14, True)
        sheet.text((left + 7, y - 4), name, NAME_SIZE, f"on{step}", bold=True)
        words = shortened(box.text, NUMBER_SIZE, wide - 14)
        sheet.text((left + 7, y + 12), words, NUMBER_SIZE, f"on{step}")
    height = max(middles, default=top + 40.0) + HIGH / 2 + 16
    if not boxes:
        sheet.say_no_data(EDGE, top + 20, "start")
    told = "; ".join(f"{b.name} {b.text}" for b in boxes[:30])
    rows = [(b.name, b.depth, b.share, b.joules, b.text) for b in boxes]
    columns = ("name", "depth", "share", "energy_j", "text")
    return sheet.picture(height, columns, rows, told)


def _column_widths(boxes: Sequence[TreeBox]) -> list[float]:
    widths = [60.0] * (max((box.depth for box in boxes), default=0) + 1)
    for box in boxes:
        name_width = text_width(box.name, NAME_SIZE, True)
        needed = 14 + max(name_width, text_width(box.text, NUMBER_SIZE))
        widths[box.depth] = min(max(widths[box.depth], needed), WIDEST)
    return widths


def _parents(boxes: Sequence[TreeBox]) -> list[int | None]:
    """Index of every box's parent; None for those at the top."""
    above: list[int] = []
    found: list[int | None] = []
    for i, box in enumerate(boxes):
        while above and boxes[above[-1]].depth >= box.depth:
            above.pop()
        found.append(above[-1] if above else None)
        above.append(i)
    return found


def _middles(parents: Sequence[int | None]) -> list[float]:
    """Height of every box: leaves below each other, others beside their children."""
    children: list[list[int]] = [[] for _ in parents]
    for i, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(i)
    middles = [0.0] * len(parents)
    y = HIGH / 2
    for i, below in enumerate(children):
        if not below:
            middles[i] = y
            y += HIGH + BETWEEN
    for i in reversed(range(len(parents))):
        if children[i]:
            first, last = middles[children[i][0]], middles[children[i][-1]]
            middles[i] = (first + last) / 2
    return middles
