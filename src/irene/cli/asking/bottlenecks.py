"""`irene bottlenecks`: what to look at first, and what is wasted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from irene.cli.asking.answering import Asking
from irene.cli.output import print_notes, print_unfit
from irene.errors import UsageError
from irene.human import human_energy, human_range
from irene.show.terminal import columns, share_cell, value
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from irene.analyse.bottlenecks import Bottleneck, Bottlenecks
    from irene.show.picture import Picture

USAGE = "MODEL|TREE.json [options]"
EXAMPLES = """\
MODEL may also be a saved tree, predicted or measured.

examples:
  irene bottlenecks bert-base-uncased -b 8 -s 128
  irene bottlenecks gpt2 --by primitive
  irene bottlenecks measured.json --by layer
  irene bottlenecks roberta-base -b 16 --plot bottlenecks.svg
"""
BY = ("module", "class", "role", "primitive", "layer", "level")
OVERVIEW = ("module", "role", "primitive")
SAME_SHARE = 1e-6


def _shown(
    found: Bottlenecks, view: str, options: argparse.Namespace
) -> Sequence[Bottleneck]:
    """Rows to show, the largest first; layers in order."""
    if options.all:
        return found.views[view]
    top = {row.name for row in found.top(options.top / 100, view)}
    return [row for row in found.views[view] if row.name in top]


def _print(console: Console, found: Bottlenecks, options: argparse.Namespace) -> None:
    console.print(f"{plain(found.model)}: {human_range(found.energy)}", style="bold")
    console.print(found.run, style="dim")
    notes = print_unfit(console, found.notes)
    for view in _views(options):
        rows = _shown(found, view, options)
        rest = len(found.views[view]) - len(rows)
        console.print()
        console.print(_table(view, _folded(rows) if view == "layer" else rows))
        if rest > 0:
            share = 1 - sum(row.share for row in rows)
            console.print(f"and {rest} more, {share:.1%} together (--all)", style="dim")
    best, total = found.best, found.energy.joules
    console.print()
    console.print(
        f"above the machine's best: {human_energy(found.wasted_j)}, "
        f"{found.wasted_j / total:.0%} of all"
    )
    console.print(
        f"its best: {value(best.joules_per_flop * 1e12, 'mJ per GFLOP')}, "
        f"{value(best.joules_per_byte * 1e9, 'J per GB')}, which meet at "
        f"{best.ridge:.0f} FLOP per byte ({best.source})"
    )
    print_notes(console, notes)


def _folded(rows: Sequence[Bottleneck]) -> list[Bottleneck]:
    """Equal layers that follow each other as one row, what they use added up."""
    groups: list[list[Bottleneck]] = []
    for row in rows:
        same = groups and abs(groups[-1][0].share - row.share) < SAME_SHARE
        if same and groups[-1][0].name.startswith("layer "):
            groups[-1].append(row)
        else:
            groups.append([row])
    return [_joined(group) if len(group) > 1 else group[0] for group in groups]


def _joined(group: Sequence[Bottleneck]) -> Bottleneck:
    first, last = group[0], group[-1].name.removeprefix("layer ")
    added = {
        name: sum(getattr(row, name) for row in group)
        for name in ("energy_j", "share", "flops", "bytes", "at_best_j", "wasted_j")
    }
    name = f"{first.name}…{last}, each {first.share:.1%}"
    return replace(first, name=name, together=group[-1].together, **added)


def _table(view: str, rows: Sequence[Bottleneck]) -> Table:
    table = columns(
        f"<{view}", "energy", "<share", "together", "J/GFLOP", "J/GB", "FLOP/B",
        "<bound by", "above best",
        goes=("FLOP/B", "J/GB", "J/GFLOP", "together", "bound by"),
    )  # fmt: skip
    whole = rows[0].energy_j / rows[0].share if rows and rows[0].share else 0.0
    for row in rows:
        table.add_row(
            row.name,
            human_energy(row.energy_j),
            share_cell(row.energy_j, whole),
            f"{row.together:.1%}",
            value(row.joules_per_gflop),
            value(row.joules_per_gb),
            value(row.flop_per_byte),
            row.bound,
            f"{row.wasted_j / row.energy_j:.0%}" if row.energy_j else "",
        )
    return table


def _draw(found: Bottlenecks, options: argparse.Namespace) -> Picture:
    from irene.show.picture.answer_pictures import bottleneck_bars

    return bottleneck_bars(found, _shown(found, _views(options)[0], options))


def _views(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(dict.fromkeys(options.by or OVERVIEW))


def _checked(options: argparse.Namespace) -> dict[str, Any]:
    if not 0 < options.top <= 100:
        raise UsageError(f"--top is a share from 0 to 100 %, got {options.top:g}")
    return {}


def _add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the view")
    group.add_argument(
        "--by", choices=BY, action="append",
        help="how to add up, may be given several times (default: module, role and "
        "primitive)",
    )  # fmt: skip
    group.add_argument(
        "--top", type=float, default=90.0, metavar="PERCENT",
        help="show the largest that together have this share (default 90)",
    )  # fmt: skip
    group.add_argument("--all", action="store_true", help="show all, however small")


COMMAND = Asking(
    question="bottlenecks", show=_print, draw=_draw, add=_add, more=_checked
)
