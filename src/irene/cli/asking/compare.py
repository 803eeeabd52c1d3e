"""`irene compare`: what differs between models, sizes, machines or saved trees."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from irene.cli.asking.answering import Asking, plain_picture
from irene.cli.asking.curves import print_curves
from irene.cli.output import print_left_out, print_notes, print_unfit
from irene.human import human, human_energy
from irene.show.terminal import columns, percent
from irene.show.text import plain, signed_energy

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from irene.analyse.comparison import Comparison, Comparisons, Contribution, Side
    from irene.analyse.curve import Curves

USAGE = "A B [C …] [options]"
EXAMPLES = """\
A, B, …: a saved tree, or a model with its own size and machine after an @:
  gpt2  gpt2@b16s256  gpt2@s256,fp16,sdpa  llama-3.2-1b@decode,c512  gpt2@on=lab.json
  b batch, s length, d decoder length, c context; the rest is as the options say

examples:
  irene compare bert-base-uncased roberta-base distilbert-base-uncased -b 8
  irene compare gpt2@b1 gpt2@b16 --per sequence
  irene compare bert-base-uncased gpt2 --by role --all
  irene compare predicted.json measured.json
  irene compare bert-base-uncased gpt2 --over batch_size
"""


def _print_all(
    console: Console, found: Comparisons | Curves, options: argparse.Namespace
) -> None:
    from irene.analyse.comparison import Comparisons

    if not isinstance(found, Comparisons):
        print_curves(console, found)
        return
    notes = print_unfit(console, found.notes)
    _print(console, found.comparisons, options)
    print_left_out(console, found.left_out)
    print_notes(console, [*_coverage(found.comparisons), *notes])


def _coverage(found: Sequence[Comparison]) -> list[str]:
    """A warning where the energies are not of the same thing."""
    sides = [found[0].base, *(each.other for each in found)]
    covers = dict.fromkeys(side.covers for side in sides if side.covers)
    if len(covers) < 2:
        return []
    return [f"warning: these energies cover different things: {', '.join(covers)}"]


def _print(
    console: Console, found: Sequence[Comparison], options: argparse.Namespace
) -> None:
    console.print(_overview(found))
    for each in found:
        console.print()
        console.print(_sides(each.base, each.other), style="bold")
        console.print(_verdict(each))
        views = [options.by] if options.by else _views(each)
        for view in views:
            rows = (each.by_role if view == "role" else each.by_path) if (
                options.all
            ) else each.differences(view)  # fmt: skip
            if rows:
                console.print(_contributions(view, rows, each))


def _views(each: Comparison) -> list[str]:
    return ["role", "path"] if each.aligned_by == "path" else ["role"]


def _overview(found: Sequence[Comparison]) -> Table:
    sides = [found[0].base, *(each.other for each in found)]
    apart = {
        name: told
        for name, told in (("run", _runs(sides)), ("energy is", _sources(sides)))
        if len(set(told)) > 1
    }
    table = columns(
        "<model", f"J per {found[0].unit}", "interval", "ratio", "FLOPs", "bytes",
        *(f"<{name}" for name in apart), wide=tuple(apart), goes=("bytes", "FLOPs"),
    )  # fmt: skip
    ratios = [None, *(each.ratio for each in found)]
    for place, (side, ratio) in enumerate(zip(sides, ratios, strict=True)):
        _add_side(table, side, ratio, [told[place] for told in apart.values()])
    same = {"run": _runs(sides)[0], "energy is": _sources(sides)[0]}
    table.caption = "\n".join(told for name, told in same.items() if name not in apart)
    return table


def _runs(sides: Sequence[Side]) -> list[str]:
    return [side.run for side in sides]


def _sources(sides: Sequence[Side]) -> list[str]:
    """Where each energy is from: machine and what of it, without the predictor."""
    return [side.source.partition(" · by ")[0] for side in sides]


def _sides(base: Side, other: Side) -> str:
    """Both names; of one model what tells its two sides apart."""
    names = [plain(base.name), plain(other.name)]
    for told in (_sources, _runs):
        if names[0] == names[1]:
            names = [f"{base.name} {each}" for each in map(plain, told([base, other]))]
    return " → ".join(names)


def _add_side(
    table: Table, side: Side, ratio: float | None, more: Sequence[str]
) -> None:
    table.add_row(
        side.name,
        human_energy(side.energy_j),
        f"{human_energy(side.low_j)} – {human_energy(side.high_j)}",
        "" if ratio is None else f"×{ratio:.2f}",
        human(side.flops),
        human(side.bytes),
        *more,
    )


def _verdict(each: Comparison) -> str:
    change = percent(each.difference_j, each.base.energy_j)
    if not each.differences("role") and not each.differences("path"):
        return "no difference"
    told = (
        f"{signed_energy(each.difference_j)} per {each.unit} ({change}), "
        f"± {human_energy(each.half_j)}"
    )
    return told if each.is_real else f"no real difference: {told}"


def _contributions(view: str, rows: Sequence[Contribution], each: Comparison) -> Table:
    table = columns(
        f"<{view}", "before", "after", "difference", "of all", "by FLOPs", "by bytes",
        "by efficiency", goes=("by bytes", "by FLOPs", "by efficiency"),
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row.name,
            human_energy(row.base_j) if row.base_count else "–",
            human_energy(row.other_j) if row.other_count else "–",
            signed_energy(row.difference_j),
            percent(row.difference_j, each.base.energy_j),
            signed_energy(row.flops_j),
            signed_energy(row.bytes_j),
            signed_energy(row.efficiency_j),
        )
    return table


def _add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the table")
    group.add_argument(
        "--by", choices=("role", "path"),
        help="how parts are aligned (default: by path if the names agree, and by role)",
    )  # fmt: skip
    group.add_argument(
        "--all", action="store_true", help="show parts that do not differ, too"
    )


COMMAND = Asking(
    question="compare", show=_print_all, draw=plain_picture, add=_add,
    positional="subject",
    subject_help="saved tree, or MODEL[@SIZE,…]; all are compared with the first",
)  # fmt: skip
