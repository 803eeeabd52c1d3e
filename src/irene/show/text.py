"""A tree as plain text, for logs, notebooks and `print`, and the names of its nodes."""

from __future__ import annotations

import math
from datetime import date
from typing import TYPE_CHECKING

from irene import __version__
from irene.human import human, human_energy, human_range, human_spread

if TYPE_CHECKING:
    from irene.tree.model_tree import ModelTree
    from irene.tree.node import Node

BAR_LENGTH = 10
EIGHTHS = " ▏▎▍▌▋▊▉█"
ROUNDING_J = 5e-12
"""A smaller difference is what adding up has left."""


def plain(text: str) -> str:
    """Text of a file without what would steer the terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def plain_lines(text: str) -> str:
    """The same of several lines, which stay apart."""
    return "\n".join(map(plain, text.split("\n")))


def bar(share: float) -> str:
    """A share as characters, at most ten wide.

    Args:
        share: 0 to 1; what is beyond, or not a number, is cut.
    """
    known = 0.0 if math.isnan(share) else min(max(share, 0.0), 1.0)
    eighths = round(known * BAR_LENGTH * 8)
    return (EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8]).strip()


def signed_energy(joules: float, nothing_j: float = ROUNDING_J) -> str:
    """A difference of energies: `+1.20 J`, `−350 mJ`; rounding is none.

    Args:
        joules: The difference, J.
        nothing_j: What is smaller is no difference, J.
    """
    if abs(joules) <= nothing_j:
        return "0 J"
    return f"+{human_energy(joules)}" if joules > 0 else human_energy(joules)


def member_names(node: Node) -> str:
    """Name of a node; `layer.0…11` for a folded one, its calls for a repeated one."""
    name = _ranged_name(node)
    return f"{name} #{node.call}" if node.count == 1 and node.call > 1 else name


def total_words(tree: ModelTree) -> str:
    """Energy of the whole with its interval, or its FLOPs where it has none."""
    energy = tree.energy_of(0)
    return human_range(energy) if energy else human(tree.root.flops, "FLOP")


def counted_name(node: Node) -> str:
    """Name of a node, or its op, with the number of equal ones it stands for."""
    times = f" ×{node.count}" if node.count > 1 else ""
    return f"{member_names(node) or node.op}{times}"


def ranged_path(node: Node) -> str:
    """Path of a node, with the ranges of the folded nodes above it."""
    parts: list[str] = []
    here: Node | None = node
    while here is not None and here.row:
        parts.append(_ranged_name(here))
        apart = here.tree.strings[int(here.tree.columns.name[here.row])].startswith("/")
        here = None if apart else here.parent
    path = ".".join(reversed(parts))
    return f"{path} #{node.call}" if node.count == 1 and node.call > 1 else path


def _ranged_name(node: Node) -> str:
    names = [name.lstrip("/") for name in node.members]
    if len(set(names)) == 1:
        return names[0]
    first, last = names[0].split("."), names[-1].split(".")
    differing = [a for a, b in zip(first, last, strict=True) if a != b]
    if len(differing) != 1:
        return f"{names[0]} … {names[-1]}"
    return ".".join(
        a if a == b else f"{a}…{b}" for a, b in zip(first, last, strict=True)
    )


def tree_text(tree: ModelTree, depth: int | None, level: str) -> str:
    """The folded tree, one line per node, costs of all instances and their share.

    Energy, its interval and share where the tree has them; else FLOPs come first. What
    costs next to nothing is told in the last line.
    """
    rows, hidden = _text_rows(tree, depth, level)
    names = max(len(row[0]) for row in rows)
    widths = [max(len(row[i]) for row in rows) for i in range(1, len(rows[0]))]
    return "\n".join(
        f"{row[0]:{names}} {row[1]:{widths[0]}} "
        + " ".join(f"{cell:>{w}}" for cell, w in zip(row[2:], widths[1:], strict=True))
        for row in rows
    ) + (f"\n{hidden}" if hidden else "")


def tree_latex(tree: ModelTree, depth: int | None, level: str) -> str:
    """The folded tree as a LaTeX table (booktabs), with a line to cite below it."""
    (head, *rows), hidden = _text_rows(tree, depth, level)
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{ll{'r' * (len(head) - 2)}}}", "\\toprule",
        *(f"{' & '.join(map(_latex, row))} \\\\" for row in [head]), "\\midrule",
        *(f"{' & '.join(map(_latex, row))} \\\\" for row in rows),
        "\\bottomrule", "\\end{tabular}",
        *([f"% {hidden}"] if hidden else ()), f"% {citation(tree)}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def citation(tree: ModelTree) -> str:
    """What was run, where, by which predictor and program: a line that can be cited."""
    from irene.tree.headline import energy_source, model_name, run_words

    told = (model_name(tree), run_words(tree), energy_source(tree))
    return f"{' · '.join(filter(None, told))} · irene {__version__}"


def origin(tree: ModelTree) -> str:
    """Where the energy comes from, by which program, and when it was shown."""
    from irene.tree.headline import energy_source

    return dated(energy_source(tree) or "costs only: this tree carries no energy")


def dated(told: str) -> str:
    """A line about where numbers come from, with the program and the day."""
    return " · ".join(filter(None, (told, f"irene {__version__}, {date.today()}")))


LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#",
    "$": r"\$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "×": r"$\times$", "…": r"\dots{}", "µ": r"\textmu{}", "±": r"$\pm$", "−": "$-$",
})  # fmt: skip


def _latex(cell: str) -> str:
    indent = len(cell) - len(cell.lstrip())
    text = cell.strip().translate(LATEX)
    return f"\\hspace{{{indent / 2:g}em}}{text}" if indent and text else text


def _text_rows(
    tree: ModelTree, depth: int | None, level: str
) -> tuple[list[tuple[str, ...]], str]:
    """Head and lines, and what is not shown."""
    from irene.show.view import left_out, view

    folded = tree.at_level(level).fold()
    total = folded.total()
    with_energy = total.energy_j is not None
    first = ("energy", "share", "interval", "FLOPs") if with_energy else (
        "FLOPs", "share"
    )  # fmt: skip
    rows: list[tuple[str, ...]] = [("", "op", *first, "bytes", "params")]
    chosen = view(folded, depth)
    for line in chosen.lines:
        node, indent = line.node, "  " * line.depth
        if line.rest:
            part = line.weight / (total.energy_j or total.flops or 1.0)
            amount = human_energy(line.weight) if with_energy else human(line.weight)
            empty = [""] * (4 if with_energy else 2)
            rows.append((indent + line.name, "", amount, f"{part:.1%}", *empty))
            continue
        times = int(folded.multiplicity[node.row])
        count = f" ×{node.count}" if node.count > 1 else ""
        name = indent + (member_names(node) or "(model)") + count
        flops, energy = human(node.flops * times), node.energy
        share = node.flops * times / max(total.flops, 1)
        costs: tuple[str, ...] = (flops, f"{share:.1%}")
        if with_energy:
            joules = energy.joules * times if energy else math.nan
            part = joules / (total.energy_j or 1.0)
            spread = human_spread(energy) if energy else ""
            costs = (human_energy(joules), f"{part:.1%}", spread, flops)
        told = (human(node.bytes * times), human(node.params))
        rows.append((name, node.op, *costs, *told))
    return rows, left_out(folded, chosen)
