"""The most expensive nodes of a tree as a flat list, on the terminal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irene.cli.screens.cells import empty_table, op_cell, plain, share_cell
from irene.show.text import human_energy, ranged_path
from irene.show.view import MEASURES, Part, largest_parts, main_key, weights
from irene.tree import OWN, ModelTree, human

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

__all__ = ["top_table"]


def top_table(tree: ModelTree, options: argparse.Namespace) -> Table:
    """The `--top` nodes with the largest parts; parts do not overlap."""
    key = main_key(tree) if options.sort == "order" else options.sort
    parts = largest_parts(tree, options.top, key, options.depth)
    table = empty_table()
    table.add_column("#", justify="right", style="dim")
    table.add_column("node", no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column("op", no_wrap=True, overflow="ellipsis", style="dim", ratio=1)
    table.add_column(MEASURES[key], justify="right", no_wrap=True)
    table.add_column(f"share of {MEASURES[key]}", no_wrap=True)
    table.add_column("together", justify="right", no_wrap=True)
    whole = float(weights(tree, key)[0])
    together = 0.0
    for place, part in enumerate(parts, start=1):
        together += part.weight
        table.add_row(
            str(place),
            _path_cell(tree, part),
            op_cell(part.node),
            (human_energy if key == "energy" else human)(part.weight),
            share_cell(part.weight, whole),
            f"{together / whole:.1%}",
        )
    return table


def _path_cell(tree: ModelTree, part: Part) -> Text:
    from rich.text import Text

    text = Text(plain(ranged_path(part.node) or part.node.op))
    times = int(tree.multiplicity[part.node.row])
    if times > 1:
        text.append(f" ×{times}", style="bold yellow")
    if part.own:
        text.append(f" {OWN}", style="dim")
    return text
