"""`irene plan-training`: what a training takes, before it runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irene.cli.asking.answering import Asking
from irene.cli.options import MODEL
from irene.cli.output import print_notes
from irene.human import human
from irene.show.terminal import columns, value
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from irene.analyse.training_plan import TrainingPlan

USAGE = "MODEL --tokens N [options]"
EXAMPLES = """\
examples:
  irene plan-training gpt2 --tokens 2e9 --batch 8 --seq 1024 --on h100 --gpus 8
  irene plan-training llama-3.2-1b --tokens 1e10 --gpus 64 --checkpointing \\
      --price 0.12 --price-per-gpu-hour 2.5 --region SE --pue 1.2
"""


def _print(console: Console, found: TrainingPlan, _: argparse.Namespace) -> None:
    told = f"{human(found.tokens)} tokens in {found.steps:,} steps on {found.gpus} GPU"
    console.print(f"{plain(found.model)}: {told}, {plain(found.run)}", style="bold")
    table = columns("<", "", "interval")
    amounts = {
        "kWh": found.kwh, "hours": found.hours, "money": found.money,
        "kg CO₂e": found.kg_co2e,
    }  # fmt: skip
    for unit, amount in amounts.items():
        if amount is not None:
            ends = f"{value(amount.low)} – {value(amount.high)}"
            table.add_row(unit, value(amount.value), ends)
    console.print(found.energy_source, style="dim")
    console.print(table)
    whole_j = sum(found.parts.values())
    shares = [
        f"{name.replace('_', ' ')} {joules / whole_j:.0%}"
        for name, joules in found.parts.items()
        if joules
    ]
    place = f"{found.region.name} {found.region.gco2e_per_kwh:g} g CO₂e per kWh"
    console.print(f"{', '.join(shares)} · PUE {found.pue:g} · {place}", style="dim")
    print_notes(console, found.notes)


COMMAND = Asking(question="plan-training", show=_print, subject_help=MODEL)
