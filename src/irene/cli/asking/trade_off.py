"""`irene trade-off`: accuracy against energy, and which model to take."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from irene.cli.asking.answering import Asking
from irene.cli.output import machine_words, print_left_out
from irene.human import human_energy
from irene.show.terminal import columns
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from irene.analyse.pareto import TradeOff
    from irene.energy import Energy
    from irene.show.picture import Picture

USAGE = "[options]"
EXAMPLES = """\
FILE.csv has the columns model and accuracy, and may have energy_j (per sequence), split
and source. A model is a name, a config.json, a saved tree, or NAME@SIZE as in
`irene compare`. Without a file the published SST-2 accuracies are shown.

examples:
  irene trade-off -b 16 -s 128
  irene trade-off --budget-j 0.5
  irene trade-off --accuracy mine.csv --at-least 92
  irene trade-off --plot trade-off.svg
"""


def _task(options: argparse.Namespace) -> str:
    return "accuracy" if options.accuracy else "SST-2 accuracy"


def _what(found: TradeOff, options: argparse.Namespace) -> str:
    from irene.tree.headline import run_sizes

    machine = machine_words(options.on or "default")
    return f"{', '.join(run_sizes(found.run))}, for {machine}"


def _print(console: Console, found: TradeOff, options: argparse.Namespace) -> None:
    with_split = any(each.split for each in found.candidates)
    table = columns(
        "<", "<model", "accuracy", *(["<on"] if with_split else []), "J per sequence",
        "interval", "<beaten by", goes=("beaten by", "on"),
    )  # fmt: skip
    for each in found.candidates:
        mark = "●" if each.on_front else ("○" if each.maybe else "")
        table.add_row(
            mark,
            each.model + (" *" if each.notes else ""),
            f"{each.accuracy:g}",
            *([each.split] if with_split else []),
            human_energy(each.energy.joules),
            _interval(each.energy),
            f"{'perhaps ' if each.maybe else ''}{each.beaten_by}",
            style="bold" if each.on_front else None,
        )
    heading = f"{_task(options)} against energy: {plain(_what(found, options))}"
    console.print(heading, style="bold")
    console.print(table)
    _print_legend(console, found, options)
    _print_choice(console, found)
    print_left_out(console, found.left_out)


def _interval(energy: Energy) -> str:
    if energy.low == energy.high:
        return "as given"
    return f"{human_energy(energy.low)} – {human_energy(energy.high)}"


def _print_legend(
    console: Console, found: TradeOff, options: argparse.Namespace
) -> None:
    legend = "● on the Pareto front: none is better in both"
    if any(each.maybe and not each.on_front for each in found.candidates):
        legend += "; ○ may be as good, intervals overlap"
    console.print(legend, style="dim")
    if any(each.notes for each in found.candidates):
        console.print(
            "* outside what the machine was measured on: a wider interval", style="dim"
        )
    if not options.accuracy:
        console.print(
            "published accuracies, on the test or the dev set of GLUE as marked; "
            "--csv has the source of each",
            style="dim",
        )


def _print_choice(console: Console, found: TradeOff) -> None:
    wanted = []
    if found.budget_j is not None:
        wanted.append(f"at most {human_energy(found.budget_j)} per sequence")
    if found.at_least is not None:
        wanted.append(f"accuracy at least {found.at_least:g}")
    if not wanted:
        return
    chosen = found.chosen
    if chosen is None:
        console.print(f"no model has {' and '.join(wanted)}", style="yellow")
        return
    console.print(
        f"{' and '.join(wanted)}: {chosen.model}, {chosen.accuracy:g} for "
        f"{human_energy(chosen.energy.joules)} per sequence",
        style="bold",
    )


def _draw(found: TradeOff, options: argparse.Namespace) -> Picture:
    from irene.show.picture import AxisSpec, trade_off_chart

    task = _task(options)
    heading = f"{task} against energy: {_what(found, options)}"
    return trade_off_chart(found, "", heading, AxisSpec(task))


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accuracy", metavar="FILE.csv",
        help="accuracies of models (default: published ones on SST-2)",
    )  # fmt: skip


def _more(options: argparse.Namespace) -> dict[str, Any]:
    from irene.analyse.pareto import accuracies_text

    text = accuracies_text(options.accuracy) if options.accuracy else None
    return {"accuracies": text}


COMMAND = Asking(question="trade-off", show=_print, draw=_draw, add=_add, more=_more)
