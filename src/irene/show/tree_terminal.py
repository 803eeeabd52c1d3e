"""A tree on a terminal: indented nodes, costs in human units, bars of shares."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from irene.human import human, human_energy, human_range, human_spread, human_time
from irene.show.terminal import columns, note_lines, share_cell
from irene.show.text import plain, ranged_path
from irene.show.view import (
    MEASURES,
    Line,
    View,
    amount_of,
    largest_parts,
    left_out,
    main_key,
    view,
    weights,
)
from irene.tree.generation import generation_of
from irene.tree.headline import (
    energy_per_unit,
    energy_place,
    energy_source,
    model_name,
    run_time,
    tree_sizes,
    unfit,
)
from irene.tree.model_tree import OWN, ModelTree
from irene.tree.node import Node

KIND_STYLES = {"model": "bold", "module": "", "ml": "cyan", "math": "dim"}
MATRIX_OPS = frozenset(
    {
        "Linear", "Conv1D", "Conv1d", "Conv2d", "Conv3d", "LSTM", "GRU", "RNN",
        "addmm", "baddbmm", "bmm", "conv1d", "conv2d", "conv3d", "einsum", "grouped_mm",
        "linear", "matmul", "mm", "scaled_dot_product_attention", "lm_head",
        "fused_moe", "context_attention", "generation_attention", "latent_attention",
    }
)  # fmt: skip
"""Primitives whose FLOPs are matrix products."""


def tree_screen(
    tree: ModelTree,
    shown: ModelTree,
    *,
    depth: int | None = None,
    sort: str = "order",
    everything: bool = False,
    top: int | None = None,
) -> list[RenderableType]:
    """Title, table, totals and notes.

    Args:
        tree: The whole tree.
        shown: The tree as the table shows it: cut, and folded or not.
        depth: Levels below the model; None for all.
        sort: Order of siblings: `order` as they ran, or a key of `weights`.
        everything: Also show nodes that compute and move nothing.
        top: Show so many nodes with the largest parts instead; None for the tree.
    """
    if top is not None:
        table = _top_table(shown, top, sort, depth)
    else:
        chosen = view(shown, depth, sort, everything)
        make = _cost_table if shown.energy is None else _energy_table
        table = make(shown, chosen)
    energy, cost = _energy_summary(tree), _cost_summary(tree)
    return [*_title(tree), table, "", *energy, cost, *_notes(tree)]


def _title(tree: ModelTree) -> list[Text]:
    """What was run and where; that it cannot be, before anything else."""
    place, sizes = plain(energy_place(tree)), " · ".join(tree_sizes(tree))
    title = Text.assemble((plain(model_name(tree)), "bold"), place and f" {place}")
    if sizes:
        title.append(("\n" if place else " · ") + sizes)
    problem = plain(unfit(tree))
    return [title, *([Text(f"cannot run: {problem}", "bold red")] if problem else ())]


# Tables -----------------------------------------------------------------------


def _cost_table(tree: ModelTree, chosen: View) -> Table:
    """Nodes with FLOPs, bytes and parameters, of all instances with their shares."""
    table = columns(
        "<node", "<op", "FLOPs", "<share of FLOPs", "bytes", "<share of bytes",
        "params", goes=("op", "params"), dim=("op",),
    )  # fmt: skip
    total = tree.total()
    for line in chosen.lines:
        node = line.node
        times = int(tree.multiplicity[node.row])
        table.add_row(
            _name_cell(line),
            _op_cell(node),
            human(node.flops * times),
            share_cell(node.flops * times, total.flops),
            human(node.bytes * times),
            share_cell(node.bytes * times, total.bytes),
            human(node.params) if node.params else "",
        )
    if chosen.left_out:
        table.caption = f"{left_out(tree, chosen)} (--all)"
    return table


def _energy_table(tree: ModelTree, chosen: View) -> Table:
    """Nodes with energy, share and interval; lines below a line add up to it."""
    table = columns(
        "<node", "<op", "energy", "<share", "interval", "FLOPs", "bytes",
        goes=("FLOPs", "bytes", "op"), dim=("op", "FLOPs", "bytes"),
    )  # fmt: skip
    total_j = tree.total().energy_j or 0.0
    for line in chosen.lines:
        amounts = human_energy(line.weight), share_cell(line.weight, total_j)
        if line.rest:
            name = "  " * line.depth + line.name
            table.add_row(name, "", *amounts, "", "", "", style="dim")
            continue
        node, energy = line.node, line.node.energy
        times = int(tree.multiplicity[node.row])
        table.add_row(
            _name_cell(line),
            _op_cell(node),
            *amounts,
            human_spread(energy) if energy else "",
            human(node.flops * times),
            human(node.bytes * times),
        )
    if chosen.left_out:
        table.caption = f"{left_out(tree, chosen)} (--all)"
    return table


def _top_table(tree: ModelTree, top: int, sort: str, depth: int | None) -> Table:
    """The nodes with the largest parts; parts do not overlap."""
    key = main_key(tree) if sort == "order" else sort
    measure = MEASURES[key]
    table = columns(
        "#", "<node", "<op", measure, f"<share of {measure}", "together",
        goes=("op", "together"), dim=("#", "op"),
    )  # fmt: skip
    whole = float(weights(tree, key)[0])
    together = 0.0
    for place, part in enumerate(largest_parts(tree, top, key, depth), start=1):
        together += part.weight
        times = int(tree.multiplicity[part.node.row])
        name = Text(plain(ranged_path(part.node) or part.node.op))
        name.append(f" ×{times}" if times > 1 else "", style="bold yellow")
        name.append(f" {OWN}" if part.own else "", style="dim")
        table.add_row(
            str(place),
            name,
            _op_cell(part.node),
            amount_of(part.weight, key),
            share_cell(part.weight, whole),
            f"{together / whole:.1%}",
        )
    return table


def _name_cell(line: Line) -> Text:
    """The name of a node, indented, with its count."""
    count = line.node.count
    style = KIND_STYLES[line.node.kind]
    text = Text("  " * line.depth + plain(line.name), style=style)
    return text.append(f" ×{count}" if count > 1 else "", style="bold yellow")


def _op_cell(node: Node) -> Text:
    """Class or function of a node, and whether its FLOPs are unknown."""
    return Text(plain(node.op) + (" (no formula)" if node.unsupported else ""))


# Below the table --------------------------------------------------------------


def _energy_summary(tree: ModelTree) -> list[Text]:
    """Total with its interval, energy per sequence and token, and where it is from."""
    energy = tree.energy_of(0)
    if energy is None:
        return []
    total = Text(human_range(energy), style="bold")
    generation = _generation_lines(tree)
    for unit, joules in () if generation else energy_per_unit(tree):
        total.append(f" · {human_energy(joules)} per {unit}", style="not bold")
    taken = None if generation else run_time(tree)
    if taken is not None:
        seconds, low, high = map(human_time, taken)
        total.append(f" · {seconds} ({low} – {high})", style="not bold")
    return [total, *generation, Text(plain(energy_source(tree)))]


def _generation_lines(tree: ModelTree) -> list[Text]:
    """What a generation takes per request, token and second, and where it goes."""
    found = generation_of(tree)
    if found is None:
        return []
    per_token, watts = found.j_per_output_token, found.j_per_second
    whole = found.j_per_request.value or 1.0
    ends = f"{human_energy(per_token.low)} – {human_energy(per_token.high)}"
    return [
        Text(
            f"{human_energy(found.j_per_request.value)} per request · "
            f"{human_energy(per_token.value)} per output token ({ends}) · "
            f"{human_energy(found.j_per_total_token.value)} per token of both · "
            f"{watts.value:.0f} W ({watts.low:.0f} – {watts.high:.0f})",
            style="bold",
        ),
        Text(
            f"first token after {human_time(found.ttft_s.value)} · "
            f"{human_time(found.tbt_s.value)} between tokens · "
            f"{found.output_tokens_per_s:,.0f} tokens per second, prompts included"
        ),
        Text(
            f"prefill {found.prefill_j_per_request / whole:.0%}, decode "
            f"{found.decode_j_per_request / whole:.0%} · work of kernels "
            f"{found.op_j_per_request / whole:.0%}, idle power "
            f"{found.static_j_per_request / whole:.0%}, of it between kernels "
            f"{found.gap_j_per_request / whole:.0%}"
        ),
    ]


def _cost_summary(tree: ModelTree) -> Text:
    total = tree.total()
    matrix = sum(
        cost.flops
        for op, cost in tree.by_operator().items()
        if op.removesuffix(".backward") in MATRIX_OPS
    )
    intensity = total.flops / total.bytes if total.bytes else 0
    return Text.assemble(
        (human(total.flops, "FLOP"), "bold"),
        f" ({human(matrix)} in matrix products) · ",
        (human(total.bytes, "B"), "bold"),
        f" moved · {intensity:.1f} FLOP per byte · "
        f"{human(tree.root.params)} parameters · {tree.node_count:,} nodes",
    )


def _notes(tree: ModelTree) -> list[Text]:
    problem = unfit(tree)
    told = (note for note in tree.notes if not (problem and note.endswith(problem)))
    notes = [line for note in told for line in note_lines([note])]
    if tree.unsupported:
        ops = ", ".join(f"{plain(op)} ×{n}" for op, n in tree.unsupported.items())
        unknown = Text("FLOPs not counted (no formula):", style="yellow")
        notes.append(Text.assemble(unknown, f" {ops}"))
    return notes
