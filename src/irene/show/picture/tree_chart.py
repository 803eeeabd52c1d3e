"""Trees: boxes as wide as their share, and boxes with lines between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irene.show.picture.frame import EDGE, draw_title, with_notes
from irene.show.picture.icicle import placed_boxes, shade
from irene.show.picture.lettering import shortened, text_width
from irene.show.picture.picture import Picture
from irene.show.picture.shapes import Canvas
from irene.show.text import human, human_energy, member_names
from irene.show.view import MEASURES, main_key, weights
from irene.tree.columns import KINDS
from irene.tree.model_tree import ModelTree
from irene.tree.node import Node

__all__ = ["TreeBox", "boxes_of", "icicle_chart", "tree_chart"]

LEVEL = 26.0
NAME_SIZE, NUMBER_SIZE = 12.5, 11.5
HIGH, BETWEEN, GAP = 38.0, 7.0, 30.0
WIDEST = 250.0


def icicle_chart(tree: ModelTree, title: str, width: float = 860) -> Picture:
    """A row of boxes per level, as wide as their share; free space is a module's own.

    Args:
        tree: The tree; equal layers are folded.
        title: What it shows.
        width: Of the picture, px; its height follows from the levels.
    """
    shown = tree.at_level("ml").fold()
    key = main_key(shown)
    canvas = Canvas()
    top = draw_title(canvas, title, width) + 4
    whole = width - 2 * EDGE
    boxes = placed_boxes(shown)
    deepest = max((box.level for box in boxes), default=0)
    rows: list[tuple[str | float, ...]] = []
    for box in boxes:
        node = Node(shown, box.row)
        at = (EDGE + whole * box.start, top + LEVEL * box.level)
        step = shade(box.share)
        size = (max(whole * box.share - 1, 0.5), LEVEL - 1)
        hint = f"{box.name} ({node.op}): {box.share:.1%}"
        canvas.rectangle(at, size, f"ramp{step}", hint=hint)
        words = shortened(box.name, 12, size[0] - 8)
        if len(words) > 2 or words == box.name:
            canvas.text((at[0] + 4, at[1] + 17), words, 12, f"on{step}")
        rows.append((node.path, node.op, box.level, box.start, box.share))
    told = (
        "Levels of the model from top to bottom, each box as wide as its share of the "
        f"{MEASURES[key]}."
    )
    columns = ("path", "op", "level", "start", "share")
    size = (width, top + LEVEL * (deepest + 1) + 14)
    return with_notes(title, size, canvas.shapes, columns, rows, told, ())


@dataclass(frozen=True, slots=True)
class TreeBox:
    """One node of an annotated tree.

    Attributes:
        name: What it is called.
        depth: Levels below the root; nodes come in pre-order.
        share: Its part of the whole, 0 to 1; its shade.
        text: Second line, such as its joules.
        joules: Its energy for the table, J; None if not known.
    """

    name: str
    depth: int
    share: float
    text: str = ""
    joules: float | None = None


def boxes_of(tree: ModelTree, depth: int | None = None) -> list[TreeBox]:
    """The nodes of a tree with energy (or FLOPs) and share; equal layers are one.

    Args:
        tree: Any tree.
        depth: Levels below the model to show; None for all down to ML primitives.
    """
    shown = tree.at_level("ml").fold()
    key = main_key(shown)
    weight = np.nan_to_num(weights(shown, key))
    whole = float(weight[0]) or 1.0
    found = []
    for node in shown.nodes():
        level = int(shown.columns.depth[node.row])
        if depth is not None and level > depth:
            continue
        if shown.columns.kind[node.row] > KINDS.index("ml") or not weight[node.row]:
            continue
        times = f" ×{node.count}" if node.count > 1 else ""
        value = float(weight[node.row])
        number = human_energy(value) if key == "energy" else human(value, "")
        share = min(value / whole, 1.0)
        found.append(
            TreeBox(
                f"{member_names(node) or node.op}{times}",
                level,
                share,
                f"{number} · {share:.1%}",
                value if key == "energy" else None,
            )
        )
    return found


def tree_chart(boxes: Sequence[TreeBox], title: str, width: float = 860) -> Picture:
    """A tree as boxes and lines from left to right, shaded by share.

    This is how Figure 5 of the IrEne paper (Cao et al., ACL 2021) shows BERT.

    Args:
        boxes: Nodes in pre-order.
        title: What it shows.
        width: At least so wide, px.
    """
    canvas = Canvas()
    widths = _column_widths(boxes)
    lefts = np.concatenate(([0.0], np.cumsum([w + GAP for w in widths]))) + EDGE
    width = max(width, float(lefts[-1]) - GAP + EDGE)
    top = draw_title(canvas, title, width) + 6
    middles = _middles(boxes)
    parents = _parents(boxes)
    for i, box in enumerate(boxes):
        y = top + middles[i]
        left = float(lefts[box.depth])
        if parents[i] is not None:
            _draw_link(canvas, boxes, i, parents[i] or 0, lefts, widths, middles, top)
        step = shade(box.share)
        size = (widths[box.depth], HIGH)
        hint = f"{box.name}: {box.text}"
        at = (left, y - HIGH / 2)
        canvas.rectangle(at, size, f"ramp{step}", "soft", hint, corner=4)
        room = size[0] - 14
        name = shortened(box.name, NAME_SIZE, room, True)
        canvas.text((left + 7, y - 4), name, NAME_SIZE, f"on{step}", bold=True)
        words = shortened(box.text, NUMBER_SIZE, room)
        canvas.text((left + 7, y + 12), words, NUMBER_SIZE, f"on{step}")
    height = top + max(middles, default=40.0) + HIGH / 2 + 16
    if not boxes:
        canvas.text((EDGE, top + 20), "no data", 14, "soft")
    told = "; ".join(f"{b.name} {b.text}" for b in boxes[:30])
    rows = [(b.name, b.depth, b.share, b.joules, b.text) for b in boxes]
    columns = ("name", "depth", "share", "energy_j", "text")
    return with_notes(title, (width, height), canvas.shapes, columns, rows, told, ())


def _column_widths(boxes: Sequence[TreeBox]) -> list[float]:
    deepest = max((box.depth for box in boxes), default=0)
    widths = [60.0] * (deepest + 1)
    for box in boxes:
        needed = 14 + max(
            text_width(box.name, NAME_SIZE, True), text_width(box.text, NUMBER_SIZE)
        )
        widths[box.depth] = min(max(widths[box.depth], needed), WIDEST)
    return widths


def _parents(boxes: Sequence[TreeBox]) -> list[int | None]:
    last: dict[int, int] = {}
    found: list[int | None] = []
    for i, box in enumerate(boxes):
        above = [last[d] for d in last if d < box.depth]
        found.append(max(above) if above else None)
        last = {d: j for d, j in last.items() if d < box.depth}
        last[box.depth] = i
    return found


def _middles(boxes: Sequence[TreeBox]) -> list[float]:
    """Height of every box: leaves below each other, others beside their children."""
    parents = _parents(boxes)
    children: list[list[int]] = [[] for _ in boxes]
    for i, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(i)
    middles = [0.0] * len(boxes)
    y = HIGH / 2
    for i in range(len(boxes)):
        if not children[i]:
            middles[i] = y
            y += HIGH + BETWEEN
    for i in reversed(range(len(boxes))):
        if children[i]:
            first, last = middles[children[i][0]], middles[children[i][-1]]
            middles[i] = (first + last) / 2
    return middles


def _draw_link(
    canvas: Canvas,
    boxes: Sequence[TreeBox],
    child: int,
    parent: int,
    lefts: np.ndarray,
    widths: Sequence[float],
    middles: Sequence[float],
    top: float,
) -> None:
    depth = boxes[parent].depth
    start = float(lefts[depth]) + widths[depth]
    end = float(lefts[boxes[child].depth])
    bend = start + GAP / 2
    a, b = top + middles[parent], top + middles[child]
    canvas.line([(start, a), (bend, a), (bend, b), (end, b)], "soft", 1.2, mark=False)
