"""A tree as a picture, by the name of the kind of picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from irene.errors import UsageError
from irene.show.headline import model_name, run_sizes
from irene.show.text import human, human_range
from irene.tree.model_tree import ModelTree

if TYPE_CHECKING:
    from irene.show.picture import Picture

__all__ = ["DRAWINGS", "draw_tree"]

DRAWINGS = ("icicle", "annotated")
"""Kinds of pictures: boxes as wide as their share; boxes and lines with joules."""


def draw_tree(
    tree: ModelTree, kind: str = "icicle", depth: int | None = None
) -> Picture:
    """Draw a tree.

    Args:
        tree: Any tree; equal layers are folded.
        kind: One of `DRAWINGS`; `annotated` is the manner of Figure 5 of the IrEne
            paper (Cao et al., ACL 2021).
        depth: Levels below the model of an annotated tree; None for all.

    Raises:
        UsageError: There is no such kind.
    """
    from irene.show.picture.tree_chart import boxes_of, icicle_chart, tree_chart

    if kind not in DRAWINGS:
        raise UsageError(f"no picture {kind!r}; there are {', '.join(DRAWINGS)}")
    if kind == "icicle":
        return icicle_chart(tree, _title(tree))
    return tree_chart(boxes_of(tree, depth), _title(tree))


def _title(tree: ModelTree) -> str:
    energy = tree.energy_of(0)
    total = human_range(energy) if energy else human(tree.total().flops, "FLOP")
    sizes = f", {', '.join(run_sizes(tree.spec)[:2])}" if tree.spec else ""
    return f"{model_name(tree)}{sizes}: {total}"
