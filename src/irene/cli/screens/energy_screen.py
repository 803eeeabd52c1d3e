"""A tree that carries energy, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from irene.cli.screens.cells import empty_table, name_cell, op_cell, plain, share_cell
from irene.show.headline import energy_per_unit, energy_source
from irene.show.text import human_energy, human_range, human_spread
from irene.show.view import Line, View
from irene.tree import OWN, ModelTree, human
from irene.tree.generation import generation_of

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

__all__ = ["energy_summary", "energy_table", "human_time"]


def energy_table(tree: ModelTree, chosen: View) -> Table:
    """Nodes with energy, share and interval; lines below a line add up to it."""
    table = empty_table()
    table.add_column("node", no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column("op", no_wrap=True, overflow="ellipsis", style="dim", ratio=2)
    table.add_column("energy", justify="right", no_wrap=True)
    table.add_column("share of energy", no_wrap=True)
    table.add_column("interval", no_wrap=True, justify="right")
    table.add_column("FLOPs", justify="right", no_wrap=True, style="dim")
    table.add_column("bytes", justify="right", no_wrap=True, style="dim")
    total_j = tree.total().energy_j or 0.0
    for line in chosen.lines:
        cells = _rest_cells(line) if line.rest else _node_cells(tree, line)
        name, op, interval, flops, moved = cells
        energy, share = human_energy(line.weight), share_cell(line.weight, total_j)
        style = "dim" if line.rest else None
        table.add_row(name, op, energy, share, interval, flops, moved, style=style)
    if chosen.left_out:
        table.caption = (
            f"nodes that compute nothing (views), not shown: {chosen.left_out:,}, "
            f"{chosen.left_out_share:.1%} of the energy (--all)"
        )
        table.caption_justify = "left"
    return table


def _node_cells(tree: ModelTree, line: Line) -> tuple[Text | str, ...]:
    node, energy = line.node, line.node.energy
    times = int(tree.multiplicity[node.row])
    return (
        name_cell(node, line.depth),
        op_cell(node),
        human_spread(energy) if energy else "",
        human(node.flops * times),
        human(node.bytes * times),
    )


def _rest_cells(line: Line) -> tuple[Text | str, ...]:
    views = f", {line.left_out} not shown" if line.left_out else ""
    return "  " * line.depth + OWN.replace(")", f"{views})"), "", "", "", ""


def energy_summary(tree: ModelTree) -> list[Text]:
    """Total with its interval, energy per sequence and token, and where it is from."""
    from rich.text import Text

    energy = tree.energy_of(0)
    if energy is None:
        return []
    total = Text(human_range(energy), style="bold")
    generation = _generation_lines(tree)
    for unit, joules in () if generation else energy_per_unit(tree):
        total.append(f" · {human_energy(joules)} per {unit}", style="not bold")
    lines = [total, *generation, Text(plain(energy_source(tree)))]
    if tree.hardware and tree.hardware.description:
        lines.append(
            Text(f"{plain(tree.hardware.name)}: {plain(tree.hardware.description)}")
        )
    return lines


def _generation_lines(tree: ModelTree) -> list[Text]:
    """What a generation takes per request, token and second, and where it goes."""
    from rich.text import Text

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
            f"{watts.value:.0f} W ({watts.low:.0f} – {watts.high:.0f})",
            style="bold",
        ),
        Text(
            f"first token after {human_time(found.ttft_s.value)} · "
            f"{human_time(found.tbt_s.value)} between tokens · "
            f"{found.output_tokens_per_s:,.0f} tokens per second"
        ),
        Text(
            f"prefill {found.prefill_j_per_request / whole:.0%}, decode "
            f"{found.decode_j_per_request / whole:.0%} · work of kernels "
            f"{found.op_j_per_request / whole:.0%}, idle power "
            f"{found.static_j_per_request / whole:.0%}, of it between kernels "
            f"{found.gap_j_per_request / whole:.0%}"
        ),
    ]


def human_time(seconds: float) -> str:
    """A time in the unit that suits it: `12.3 ms`, `1.20 s`."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
