"""A tree on the terminal: indented nodes, costs in human units, bars of shares."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irene.cli.screens.cells import empty_table, name_cell, op_cell, plain, share_cell
from irene.show.headline import is_warning, model_name, run_sizes
from irene.show.view import View, view
from irene.tree import ModelTree, human

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

__all__ = ["cost_table", "print_tree", "show"]

WIDTH_OFF_TERMINAL = 120
MATRIX_OPS = frozenset(
    {
        "Linear", "Conv1D", "Conv1d", "Conv2d", "Conv3d", "LSTM", "GRU", "RNN",
        "addmm", "baddbmm", "bmm", "conv1d", "conv2d", "conv3d", "einsum", "grouped_mm",
        "linear", "matmul", "mm", "scaled_dot_product_attention", "lm_head",
        "fused_moe", "context_attention", "generation_attention", "latent_attention",
    }
)  # fmt: skip
"""Primitives whose FLOPs are matrix products."""


def print_tree(tree: ModelTree, options: argparse.Namespace) -> None:
    """Print a tree as the view options say."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH_OFF_TERMINAL)
    show(tree, options, console)


def show(tree: ModelTree, options: argparse.Namespace, console: Console) -> None:
    """Print a tree on a given console."""
    from irene.cli.screens.energy_screen import energy_summary

    shown = tree.at_level(options.level)
    if not options.unfold:
        shown = shown.fold()
    table = _table(shown, options)
    console.print(_title(tree))
    console.print(table)
    console.print()
    for line in energy_summary(tree):
        console.print(line)
    console.print(_cost_summary(tree))
    _print_notes(console, tree)


def _table(tree: ModelTree, options: argparse.Namespace) -> Table:
    if options.top is not None:
        from irene.cli.screens.top_screen import top_table

        return top_table(tree, options)
    chosen = view(tree, options.depth, options.sort, options.all)
    if tree.energy is None:
        return cost_table(tree, chosen)
    from irene.cli.screens.energy_screen import energy_table

    return energy_table(tree, chosen)


def _title(tree: ModelTree) -> Text:
    from rich.text import Text

    title = Text(plain(model_name(tree)), style="bold")
    for part in run_sizes(tree.spec) if tree.spec else ():
        title.append(f" · {part}", style="not bold")
    return title


def cost_table(tree: ModelTree, chosen: View) -> Table:
    """Nodes with FLOPs, bytes and parameters, of all instances with their shares."""
    table = empty_table()
    table.add_column("node", no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column("op", no_wrap=True, overflow="ellipsis", style="dim", ratio=2)
    table.add_column("FLOPs", justify="right", no_wrap=True)
    table.add_column("share of FLOPs", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("share of bytes", no_wrap=True)
    table.add_column("params", justify="right", no_wrap=True)
    total = tree.total()
    for line in chosen.lines:
        node = line.node
        times = int(tree.multiplicity[node.row])
        table.add_row(
            name_cell(node, line.depth),
            op_cell(node),
            human(node.flops * times),
            share_cell(node.flops * times, total.flops),
            human(node.bytes * times),
            share_cell(node.bytes * times, total.bytes),
            human(node.params) if node.params else "",
        )
    if chosen.left_out:
        hidden = f"nodes that cost nothing, not shown: {chosen.left_out:,} (--all)"
        table.caption, table.caption_justify = hidden, "left"
    return table


def _cost_summary(tree: ModelTree) -> str:
    total = tree.total()
    matrix = sum(
        cost.flops
        for op, cost in tree.by_operator().items()
        if op.removesuffix(".backward") in MATRIX_OPS
    )
    intensity = total.flops / total.bytes if total.bytes else 0
    return (
        f"[bold]{human(total.flops, 'FLOP')}[/] "
        f"({human(matrix)} in matrix products) · "
        f"[bold]{human(total.bytes, 'B')}[/] moved · {intensity:.1f} FLOP per byte · "
        f"{human(tree.root.params)} parameters · {tree.node_count:,} nodes"
    )


def _print_notes(console: Console, tree: ModelTree) -> None:
    for note in map(plain, tree.notes):
        if is_warning(note):
            console.print(note, markup=False, style="yellow")
        else:
            console.print(f"note: {note}", markup=False)
    if tree.unsupported:
        ops = ", ".join(f"{plain(op)} ×{n}" for op, n in tree.unsupported.items())
        console.print("FLOPs not counted (no formula):", style="yellow", end=" ")
        console.print(ops, markup=False)
