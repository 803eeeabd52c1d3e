"""The tables on the page of a tree: node by node, and by operator."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from irene.show.picture.icicle import shade
from irene.show.text import (
    human,
    human_energy,
    human_range,
    human_spread,
    member_names,
    ranged_path,
)
from irene.show.view import MEASURES, Line, View, main_key, view
from irene.tree.columns import Shape
from irene.tree.model_tree import OWN, Cost, ModelTree
from irene.tree.node import Node

__all__ = ["operator_section", "tree_section"]

OPEN_SHARE = 0.02
"""Modules with this share are open when the page is."""
MEASURED = {
    "times_mean": (1e3, "ms"),
    "times_spread": (100, "%"),
    "cpu": (1, "%"),
    "gpu": (1, "%"),
    "mem": (1, "%"),
    "gpu_mem": (1, "%"),
    "gpu_clk": (1, "MHz"),
    "gpu_mem_clk": (1, "MHz"),
}
"""Measured values that are told of a node, how they are scaled, and their units."""
ROUNDING = 1e-9
"""Own energy below this part of a node's is what adding up has left."""


def tree_section(tree: ModelTree, level: str) -> str:
    """The collapsible table of all nodes, with its search box.

    Args:
        tree: The tree, folded as it is to be shown.
        level: The deepest kind of node in it.
    """
    chosen = view(tree)
    key = main_key(tree)
    heads = [("node", ""), ("op", "wide"), (MEASURES[key], "number"), ("share", "")]
    if key == "energy":
        heads += [("interval", "number wide"), ("FLOPs", "number wide")]
    heads.append(("bytes", "number wide"))
    rows = "\n".join(_row(tree, line, above) for above, line in _with_children(chosen))
    return (
        f"<section>\n<h2>The tree</h2>\n{_tools()}"
        f'<table id="tree"><thead><tr>{_heads(heads)}</tr></thead>\n'
        f'<tbody data-measure="{MEASURES[key]}">\n{rows}\n</tbody></table>\n'
        f'<p class="soft">{_remarks(chosen, level, key)}</p>\n</section>\n'
    )


def _with_children(chosen: View) -> Iterable[tuple[bool, Line]]:
    """Every line, and whether lines follow that are below it."""
    depths = [line.depth for line in chosen.lines]
    following = zip(depths, [*depths[1:], 0], strict=True)
    return zip((after > here for here, after in following), chosen.lines, strict=True)


def _tools() -> str:
    return (
        '<div class="tools needs-script" hidden>'
        '<input id="search" type="search" placeholder="query, Linear, layer.0 …" '
        'aria-label="Search nodes by name or op" autocomplete="off">'
        '<button id="expand" type="button">Expand all</button>'
        '<button id="collapse" type="button">Collapse all</button>'
        '<output id="found" for="search"></output></div>\n'
    )


def _heads(heads: list[tuple[str, str]]) -> str:
    return "".join(
        f'<th scope="col" class="{names}">{escape(text)}</th>' for text, names in heads
    )


def _remarks(chosen: View, level: str, key: str) -> str:
    remarks = ["×N stands for N equal nodes; numbers are of all of them together."]
    if key == "energy":
        remarks.append("(own) is what no node below carries.")
    if chosen.left_out:
        share = (
            f", {chosen.left_out_share:.1%} of the energy" if key == "energy" else ""
        )
        remarks.append(
            f"Left out, as they compute nothing: {chosen.left_out:,} views{share}."
        )
    if level != "math":
        remarks.append(f"The tree is large: it is shown down to {level}.")
    return " ".join(remarks)


def _row(tree: ModelTree, line: Line, has_children: bool) -> str:
    node, key = line.node, main_key(tree)
    total = tree.total()
    whole = (total.energy_j if key == "energy" else total.flops) or 0.0
    share = line.weight / whole if whole > 0 and line.weight == line.weight else 0.0
    amount = human_energy(line.weight) if key == "energy" else human(line.weight)
    times = int(tree.multiplicity[node.row])
    is_open = share >= OPEN_SHARE and node.kind in ("model", "module")
    return (
        f"<tr{_row_attributes(line, share, times)}"
        f"{' data-open' if has_children and is_open else ''} "
        f'title="{escape(_tooltip(tree, line))}">'
        f'<th scope="row"><div class="name">{"<i></i>" * line.depth}'
        f"{_name(line, has_children)}</div></th>"
        f'<td class="op wide">{"" if line.rest else escape(node.op)}</td>'
        f'<td class="number">{escape(amount)}</td>{_share_cell(share)}'
        f"{_minor_cells(line, times, key)}</tr>"
    )


def _row_attributes(line: Line, share: float, times: int) -> str:
    identity = ' class="rest"' if line.rest else f' id="n{line.node.row}"'
    path = "" if line.rest else ranged_path(line.node)
    return (
        f'{identity} data-depth="{line.depth}" data-share="{share:.6f}" '
        f'data-times="{times}" data-path="{escape(path)}"'
    )


def _name(line: Line, has_children: bool) -> str:
    node = line.node
    if line.rest:
        hidden = f", {line.left_out} not shown" if line.left_out else ""
        return f'<span class="leaf" tabindex="0">{OWN[:-1]}{hidden})</span>'
    name = escape(member_names(node) or node.op)
    if node.count > 1:
        name += f' <b class="times">×{node.count}</b>'
    if has_children:
        return f'<button type="button" class="{node.kind}">{name}</button>'
    return f'<span class="leaf {node.kind}" tabindex="0">{name}</span>'


def _share_cell(share: float) -> str:
    width = min(max(share, 0.0), 1.0)
    return (
        f'<td class="share"><span>{share:.1%}</span><svg class="bar">'
        f'<rect class="c{shade(share)}" width="{width:.1%}" height="100%"/></svg></td>'
    )


def _minor_cells(line: Line, times: int, key: str) -> str:
    node, energy = line.node, line.node.energy
    cells = [human(node.bytes * times)]
    if key == "energy":
        spread = human_spread(energy) if energy else ""
        cells = [spread, human(node.flops * times), *cells]
    if line.rest:
        cells = [""] * len(cells)
    return "".join(f'<td class="number less wide">{cell}</td>' for cell in cells)


def _tooltip(tree: ModelTree, line: Line) -> str:
    """What there is to know about a row, one fact per line."""
    node = line.node
    if line.rest:
        return (
            f"{ranged_path(node) or node.op}: {human_energy(line.weight)} "
            "that no node below carries"
        )
    times = int(tree.multiplicity[node.row])
    facts = [f"{ranged_path(node) or node.op} · {node.op}"]
    if times > 1:
        facts.append(f"{times:,} equal nodes; one of them:")
    facts += [*_energy_facts(node), *_measured_facts(node)]
    facts.append(
        f"{human(node.flops, 'FLOP')}{' (no formula)' if node.unsupported else ''} · "
        f"{human(node.bytes_read, 'B')} read · {human(node.bytes_written, 'B')} written"
        + (f" · {human(node.params)} parameters" if node.params else "")
    )
    shapes = f"{_shapes(node.inputs)} → {_shapes(node.outputs)} {node.dtype}".strip()
    return "\n".join([*facts, shapes])


def _energy_facts(node: Node) -> list[str]:
    energy, own = node.energy, node.own_j
    if energy is None:
        return []
    fact = f"{human_range(energy)}, {energy.source}"
    if own is not None and node.children and abs(own) > ROUNDING * energy.joules:
        fact += f" · own {human_energy(own)}"
    return [fact]


def _measured_facts(node: Node) -> list[str]:
    known = node.features
    facts = [
        f"{name.removesuffix('_mean')} {known[name] * scale:.4g} {unit}"
        for name, (scale, unit) in MEASURED.items()
        if name in known
    ]
    return [" · ".join(facts)] if facts else []


def _shapes(shapes: tuple[Shape, ...]) -> str:
    return ", ".join("×".join(map(str, s)) or "scalar" for s in shapes) or "nothing"


def operator_section(tree: ModelTree) -> str:
    """The table of what every operator costs in all."""
    costs, key = tree.by_operator(), main_key(tree)
    whole = tree.total().energy_j if key == "energy" else tree.total().flops
    heads = [("op", ""), ("calls", "number"), (MEASURES[key], "number"), ("share", "")]
    heads += [("FLOPs", "number wide")] if key == "energy" else []
    heads.append(("bytes", "number wide"))
    rows = "\n".join(
        _operator_row(op, cost, key, whole or 0.0) for op, cost in costs.items()
    )
    return (
        "<section>\n<h2>By operator</h2>\n"
        f"<table><thead><tr>{_heads(heads)}</tr></thead>\n<tbody>\n{rows}\n</tbody>"
        "</table>\n</section>\n"
    )


def _operator_row(op: str, cost: Cost, key: str, whole: float) -> str:
    value = cost.flops if key == "flops" else cost.energy_j or 0.0
    share = value / whole if whole > 0 and value == value else 0.0
    amount = human_energy(value) if key == "energy" else human(value)
    minor = [human(cost.flops)] if key == "energy" else []
    cells = "".join(
        f'<td class="number less wide">{cell}</td>'
        for cell in [*minor, human(cost.bytes)]
    )
    return (
        f'<tr><th scope="row">{escape(op)}</th><td class="number">{cost.calls:,}</td>'
        f'<td class="number">{amount}</td>{_share_cell(share)}{cells}</tr>'
    )
