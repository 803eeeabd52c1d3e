"""`irene serve-plan`: the cheapest batch, parallelism, precision and GPU."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irene.cli.asking.answering import Asking, plain_picture
from irene.cli.options import MODEL
from irene.cli.output import machine_words, print_left_out, print_notes
from irene.human import human_energy, human_time
from irene.show.terminal import columns
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from irene.analyse.serving_plan import ServingPlan

USAGE = "MODEL --on LIST --max-latency TIME [options]"
EXAMPLES = """\
All combinations are predicted; those whose weights and cache do not fit into memory are
left out. Without a list, batches of 1, 2, 4, … 1024 streams on 1, 2, 4 and 8 GPUs are
tried, in the precision that the model is published in. A latency is the mean time
between two tokens of a stream.

examples:
  irene serve-plan llama-3.1-70b --on h100,b200 --max-latency 50ms \\
      --prompt 750 --output 500
  irene serve-plan llama-3.1-8b --on h100,l40s --quantization bf16,fp8 \\
      --max-latency 30ms --max-first-token 1s --plot plan.svg
"""


def _print(console: Console, found: ServingPlan, _: argparse.Namespace) -> None:
    table = columns(
        "<", "<on", "streams", "per output token", "interval", "between tokens",
        "first token", "tokens per s", "W", "memory",
    )  # fmt: skip
    front = [each for each in found.options if each.on_front]
    for each in front:
        is_best = each == found.best
        table.add_row(
            "●" if is_best else ("" if each.meets else "slow"),
            each.name,
            f"{each.batch_size:,}",
            human_energy(each.j_per_output_token),
            f"{human_energy(each.low_j)} – {human_energy(each.high_j)}",
            human_time(each.tbt_s),
            human_time(each.ttft_s),
            f"{each.output_tokens_per_s:,.0f}",
            f"{each.watts:,.0f}",
            f"{each.memory_share:.0%}",
            style="bold" if is_best else None,
        )
    lengths = ", ".join(f"{k.removesuffix('_len')} {v}" for k, v in found.run.items())
    on = ", ".join(map(machine_words, dict.fromkeys(each.on for each in front)))
    title = f"{plain(found.model)} for {on}: {plain(lengths)}"
    console.print(title, style="bold")
    console.print(table)
    console.print(
        f"{len(front)} of {len(found.options)} ways that fit into memory: no other is "
        "both cheaper and quicker; --csv has all of them",
        style="dim",
    )
    _print_choice(console, found)
    print_left_out(console, found.left_out)
    print_notes(console, (found.best or front[0]).notes)


def _print_choice(console: Console, found: ServingPlan) -> None:
    limits = {
        "between tokens": found.limit.between_s,
        "to the first token": found.limit.first_s,
    }
    wanted = " and ".join(
        f"at most {human_time(most)} {what}"
        for what, most in limits.items()
        if most is not None
    )
    best = found.best
    if best is None:
        console.print(f"none has {wanted}", style="yellow")
        return
    sure = "" if best.surely_meets or not wanted else "; its interval passes the limit"
    console.print(
        f"{wanted or 'any latency'}: {best.name}, {best.batch_size:,} streams, "
        f"{human_energy(best.j_per_output_token)} per output token{sure}",
        style="bold",
    )


COMMAND = Asking(
    question="serve-plan", show=_print, draw=plain_picture, subject_help=MODEL
)
