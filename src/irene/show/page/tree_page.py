"""A tree as one page: no network, no files beside it, nothing but text is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from irene import __version__
from irene.human import human, human_energy, human_range, human_spread
from irene.show.page.shell import page, percent
from irene.show.picture.colours import SHARES
from irene.show.picture.tree_pictures import PlacedBox, placed_boxes
from irene.show.text import origin, ranged_path, total_words
from irene.show.view import MEASURES, Line, View, amount_of, main_key, view
from irene.tree.columns import Shape
from irene.tree.generation import generation_of
from irene.tree.headline import energy_per_unit, model_name, tree_sizes
from irene.tree.model_tree import ModelTree
from irene.tree.node import Node

Columns = Sequence[tuple[str, str]]
"""Names of columns and classes of their cells."""

MOST_ROWS = 4000
"""A tree with more rows is cut to a higher level, so that a browser stays quick."""
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


def tree_page(tree: ModelTree, title: str | None = None) -> str:
    """One self-contained page."""
    shown = ShownTree(tree, title)
    return page("tree.html", shown.window_title, heading=shown.heading, shown=shown)


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A row of the table of nodes, which stands for so many of the unfolded tree."""

    line: Line
    share: float
    times: int
    has_children: bool
    amount: str
    minor: list[str]
    facts: str

    @property
    def path(self) -> str:
        """Path to search in; a rest has none."""
        return "" if self.line.rest else ranged_path(self.line.node)

    @property
    def is_open(self) -> bool:
        """Whether the rows below it show at first."""
        is_module = self.line.node.kind in ("model", "module")
        return self.has_children and is_module and self.share >= OPEN_SHARE


class ShownTree:
    """What pages say of a tree; equal layers are folded, large trees cut.

    Args:
        tree: Any tree.
        title: Heading of the page; the model's name if None.
        levels: Deepest kinds of node to show, the first that is small enough.
        most_rows: Rows that are small enough; None for `MOST_ROWS`.
    """

    def __init__(
        self,
        tree: ModelTree,
        title: str | None = None,
        levels: Sequence[str] = ("math", "ml", "module"),
        most_rows: int | None = None,
    ) -> None:
        self.whole, self.model = tree, model_name(tree)
        self.heading = title or self.model
        for level in levels:
            shown = tree.at_level(level).fold()
            if len(shown) <= (most_rows or MOST_ROWS):
                break
        self.tree, self.level = shown, level
        self.is_cut = level != levels[0]
        self.key = main_key(tree)
        self.measure = MEASURES[self.key]
        self.energy, self.total = tree.energy_of(0), tree.total()
        self.rates, self.generation = energy_per_unit(tree), generation_of(tree)

    # The top of the page ------------------------------------------------------

    @property
    def window_title(self) -> str:
        """Heading and total."""
        return f"{self.heading}: {total_words(self.whole)}"

    @property
    def run(self) -> str:
        """What was run, beyond the heading."""
        named = [] if self.heading == self.model else [self.model]
        return " · ".join([*named, *tree_sizes(self.whole)])

    @property
    def origin(self) -> str:
        """Where the energy comes from."""
        return origin(self.whole)

    @property
    def notes(self) -> list[str]:
        """What a reader should know."""
        notes = [*self.whole.notes]
        if self.whole.unsupported:
            ops = ", ".join(f"{op} ×{n}" for op, n in self.whole.unsupported.items())
            notes.append(f"FLOPs not counted (no formula): {ops}")
        return notes

    @property
    def facts(self) -> dict[str, object]:
        """Where everything comes from."""
        tree = self.whole
        hardware = tree.hardware.to_dict() if tree.hardware else {}
        return {
            "produced by": tree.energy.produced_by if tree.energy else None,
            **{f"hardware: {name}": value for name, value in hardware.items()},
            **tree.provenance,
            "run": tree.spec.digest if tree.spec else None,
            "page": f"irene {__version__}",
        }

    # The picture --------------------------------------------------------------

    @cached_property
    def boxes(self) -> list[PlacedBox]:
        """Boxes of the nodes that are wide enough."""
        return placed_boxes(self.tree)

    @property
    def levels(self) -> int:
        """Rows of boxes."""
        return max((box.level for box in self.boxes), default=0) + 1

    @property
    def legend(self) -> list[str]:
        """Shares of the colours."""
        names = [f"under {percent(SHARES[0])}", *(f"from {percent(s)}" for s in SHARES)]
        return [name.replace(".0%", "%") for name in names]

    # The tables ---------------------------------------------------------------

    @property
    def columns(self) -> Columns:
        """Of the table of nodes."""
        wide = "number wide"
        more = [("interval", wide), ("FLOPs", wide)] if self.key == "energy" else []
        first = [("node", ""), ("op", "wide"), (self.measure, "number"), ("share", "")]
        return [*first, *more, ("bytes", wide)]

    @cached_property
    def view(self) -> View:
        """The lines of the table of nodes."""
        return view(self.tree)

    @property
    def rows(self) -> list[TreeRow]:
        """The table of nodes."""
        lines = self.view.lines
        depths = [*(line.depth for line in lines[1:]), 0]
        return [
            self._row(line, after > line.depth)
            for line, after in zip(lines, depths, strict=True)
        ]

    def _row(self, line: Line, has_children: bool) -> TreeRow:
        node, energy = line.node, line.node.energy
        times = int(self.tree.multiplicity[node.row])
        minor = [human(node.bytes * times)]
        if self.key == "energy":
            spread = human_spread(energy) if energy else ""
            minor = [spread, human(node.flops * times), *minor]
        if line.rest:
            minor = [""] * len(minor)
        return TreeRow(
            line,
            self.share(line.weight),
            times,
            has_children,
            amount_of(line.weight, self.key),
            minor,
            "\n".join(_facts(line, times)),
        )

    def share(self, value: float) -> float:
        """Part of the whole that an energy, or a number of FLOPs, is."""
        total = self.total
        whole = (total.energy_j if self.key == "energy" else total.flops) or 0.0
        return value / whole if whole > 0 and value == value else 0.0


def _facts(line: Line, times: int) -> list[str]:
    """What there is to know about a row."""
    node = line.node
    path = ranged_path(node) or node.op
    if line.rest:
        return [f"{path}: {human_energy(line.weight)} that no node below carries"]
    facts = [f"{path} · {node.op}"]
    if times > 1:
        facts.append(f"{times:,} equal nodes; one of them:")
    facts += [*_energy_facts(node), *_measured_facts(node)]
    facts.append(
        f"{human(node.flops, 'FLOP')}{' (no formula)' if node.unsupported else ''} · "
        f"{human(node.bytes_read, 'B')} read · {human(node.bytes_written, 'B')} written"
        + (f" · {human(node.params)} parameters" if node.params else "")
    )
    shapes = f"{_shapes(node.inputs)} → {_shapes(node.outputs)} {node.dtype}".strip()
    return [*facts, shapes]


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
