"""`irene leaderboard`: all models of the catalogue by their energy."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irene.cli.asking.answering import Asking, plain_picture
from irene.cli.output import machine_words, print_left_out
from irene.human import human, human_energy, human_spread
from irene.show.terminal import columns

if TYPE_CHECKING:
    from rich.console import Console

    from irene.analyse.leaderboard import Leaderboard

USAGE = "[WORD …] [options]"
SCORE = "SST-2 %"
EXAMPLES = """\
The first time takes minutes; what was predicted is kept in the user's cache.

examples:
  irene leaderboard --kind encoder -b 16 -s 128
  irene leaderboard qwen --max-params 2e9
  irene leaderboard --family bert --csv > bert.csv
  irene leaderboard --kind decoder --phase decode --context 1024 --limit 20
  irene leaderboard --kind decoder --on h200 -b 64 --prompt 750 --output 500 \\
      --max-j-per-token 0.2
"""


def _print(console: Console, found: Leaderboard, _: argparse.Namespace) -> None:
    from irene.tree.headline import run_sizes, unit_words

    unit, token = unit_words(found.run.phase)
    scored = [SCORE] if any(each.accuracy for each in found.models) else []
    table = columns(
        "#", "<model", "<kind", "params", f"J per {unit}", f"per {token}", "interval",
        *scored, "FLOPs", "<", goes=("FLOPs", "kind", "params", *scored),
    )  # fmt: skip
    for place, each in enumerate(found.models, start=1):
        table.add_row(
            str(place),
            each.model,
            each.kind,
            human(each.params),
            human_energy(each.per_sequence_j or 0.0),
            "–" if each.per_token_j is None else human_energy(each.per_token_j),
            human_spread(each.energy),
            *("" if each.accuracy is None else f"{each.accuracy:g}" for _ in scored),
            human(each.flops),
            "does not fit" if each.fits is False else "*" * each.is_extrapolated,
        )
    run = ", ".join(run_sizes(found.run))
    title = f"{len(found.models)} models for {machine_words(found.hardware)}: {run}"
    console.print(title, style="bold")
    console.print(table)
    if unit == "sequence":
        console.print(
            "a sequence is one input: an image or clip for models that read no tokens, "
            "whatever --seq says",
            style="dim",
        )
    if scored:
        console.print(f"{SCORE}: published, of the fine-tuned model", style="dim")
    if any(each.is_extrapolated for each in found.models):
        console.print(f"* outside what {found.hardware} was measured on", style="dim")
    print_left_out(console, found.left_out)


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD",
        help="all must occur in a model's name, family or kind",
    )  # fmt: skip


COMMAND = Asking(
    question="leaderboard", show=_print, draw=plain_picture, add=_add,
    without=("search",),
    more=lambda options: {"search": " ".join(options.words)},
)  # fmt: skip
