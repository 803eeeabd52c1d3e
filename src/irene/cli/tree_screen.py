"""A tree on the terminal: indented nodes, costs in human units, bars of shares."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from irene.tree import ModelTree, Node, human, member_names

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

__all__ = ["print_tree", "show", "tree_table"]

BAR_WIDTH = 10
EIGHTHS = " ▏▎▍▌▋▊▉█"
WIDTH_OFF_TERMINAL = 120
KIND_STYLES = {"model": "bold", "module": "", "ml": "cyan", "math": "dim"}
MATRIX_OPS = frozenset(
    {
        "Linear", "Conv1D", "Conv1d", "Conv2d", "Conv3d", "LSTM", "GRU", "RNN",
        "addmm", "baddbmm", "bmm", "conv1d", "conv2d", "conv3d", "einsum", "grouped_mm",
        "linear", "matmul", "mm", "scaled_dot_product_attention",
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
    shown = tree.at_level(options.level)
    if not options.unfold:
        shown = shown.fold()
    console.print(_title(tree))
    console.print(tree_table(shown, options))
    _print_summary(console, tree)


def _title(tree: ModelTree) -> str:
    spec = tree.spec
    if spec is None:
        return f"[bold]{tree.root.op}[/]"
    parts = [f"batch {spec.batch_size}"]
    if spec.phase == "decode":
        parts.append(f"one token after {spec.context_len:,}")
    else:
        parts.append(f"length {spec.seq_len:,}")
        if spec.context_len:
            parts.append(f"after {spec.context_len:,} cached")
    if spec.decoder_len:
        parts.append(f"decoder length {spec.decoder_len:,}")
    parts += [spec.dtype, f"{spec.attention} attention", spec.phase]
    return f"[bold]{spec.model}[/] · {' · '.join(parts)}"


def tree_table(tree: ModelTree, options: argparse.Namespace) -> Table:
    """The nodes as a table, costs of all instances with their shares."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    table.add_column("node", no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column("op", no_wrap=True, overflow="ellipsis", style="dim", ratio=2)
    table.add_column("FLOPs", justify="right", no_wrap=True)
    table.add_column("share of FLOPs", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("share of bytes", no_wrap=True)
    table.add_column("params", justify="right", no_wrap=True)
    total = tree.total()
    hidden = 0
    for node, guide in _visible(tree, options):
        times = int(tree.multiplicity[node.row])
        if not (node.flops or node.bytes or node.params or options.all or not node.row):
            hidden += times
            continue
        table.add_row(
            _label(node, guide),
            node.op + (" (no formula)" if node.unsupported else ""),
            human(node.flops * times),
            _share(node.flops * times, total.flops),
            human(node.bytes * times),
            _share(node.bytes * times, total.bytes),
            human(node.params) if node.params else "",
        )
    if hidden:
        table.caption = f"{hidden:,} nodes that cost nothing are not shown (--all)"
        table.caption_justify = "left"
    return table


def _visible(
    tree: ModelTree, options: argparse.Namespace
) -> Iterator[tuple[Node, str]]:
    """Nodes in the order to show, with the indentation before their names."""
    stack = [(tree.root, 0)]
    while stack:
        node, depth = stack.pop()
        yield node, "  " * depth
        if options.depth is not None and depth >= options.depth:
            continue
        children = _sorted(node, options.sort)
        stack.extend((child, depth + 1) for child in reversed(children))


def _sorted(node: Node, order: str) -> list[Node]:
    children = list(node.children)
    if order != "order":
        children.sort(
            key=lambda child: getattr(child, order) * child.count, reverse=True
        )
    return children


def _label(node: Node, guide: str) -> Text:
    from rich.text import Text

    name = member_names(node) or node.op
    text = Text(guide + name, style=KIND_STYLES[node.kind])
    if node.count > 1:
        text.append(f" ×{node.count}", style="bold yellow")
    return text


def _share(part: float, whole: float) -> Text:
    from rich.text import Text

    share = part / whole if whole else 0.0
    eighths = round(share * BAR_WIDTH * 8)
    bar = EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    text = Text(f"{share:6.1%} ")
    text.append(f"{bar:<{BAR_WIDTH}}", style="green")
    return text


def _print_summary(console: Console, tree: ModelTree) -> None:
    total = tree.total()
    matrix = sum(
        cost.flops
        for op, cost in tree.by_operator().items()
        if op.removesuffix(".backward") in MATRIX_OPS
    )
    intensity = total.flops / total.bytes if total.bytes else 0
    console.print(
        f"\n[bold]{human(total.flops, 'FLOP')}[/] "
        f"({human(matrix)} in matrix products) · "
        f"[bold]{human(total.bytes, 'B')}[/] moved · {intensity:.1f} FLOP per byte · "
        f"{human(tree.root.params)} parameters · {tree.node_count:,} nodes"
    )
    for note in tree.notes:
        console.print(f"note: {note}", markup=False)
    if tree.unsupported:
        ops = ", ".join(f"{op} ×{n}" for op, n in tree.unsupported.items())
        console.print(f"[yellow]FLOPs not counted (no formula):[/] {ops}")
