"""`irene suggest`: what to change, and what it saves."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from irene.cli.asking.answering import Asking
from irene.cli.output import machine_words, print_notes, print_unfit
from irene.human import human_energy
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from irene.analyse.suggest import Advice, Suggestion

USAGE = "MODEL|TREE.json [options]"
EXAMPLES = """\
MODEL may also be a saved tree of a model that the catalogue has.

examples:
  irene suggest bert-base-uncased -b 1 -s 128
  irene suggest gpt2 -b 8 -s 130
  irene suggest llama-3.2-1b -b 4 --json
"""


def _print(console: Console, found: Advice, _: argparse.Namespace) -> None:
    from irene.tree.headline import unit_words

    unit, _token = unit_words(found.spec.phase if found.spec else "")
    console.print(
        f"{plain(found.model)} for {machine_words(found.hardware)}: "
        f"{human_energy(found.per_sequence_j)} per {unit}",
        style="bold",
    )
    console.print(found.run, style="dim")
    notes = print_unfit(console, found.notes)
    effort = ""
    for each in found.suggestions:
        if each.effort != effort:
            effort = each.effort
            console.print()
            console.print(_HEADINGS[effort], style="bold")
        _print_one(console, each, unit, found.notes)
    if not found.suggestions:
        console.print("nothing to suggest: no rule finds a saving of 1 % or more")
    console.print()
    if found.silent:
        console.print(f"nothing to say about: {', '.join(found.silent)}", style="dim")
    console.print(
        "savings are predictions of one change each; they do not add up", style="dim"
    )
    print_notes(console, notes)


_HEADINGS = {
    "setting": "a setting",
    "retraining": "needs training",
    "another model": "another model",
}


def _print_one(
    console: Console, each: Suggestion, unit: str, known: Sequence[str]
) -> None:
    from rich.padding import Padding
    from rich.text import Text

    unsure = "" if each.is_real else ", not certain"
    saving = f"{human_energy(each.saving_j)} per {unit}"
    console.print(f"{f'−{each.share:.0%}':>6}  {each.title}", style="green")
    lines = [
        Text(f"{saving} ± {human_energy(each.half_j)}{unsure}; {each.why}"),
        Text(f"accuracy: {each.accuracy}"),
        *(Text(note, style="yellow") for note in each.notes if note not in known),
    ]
    for line in lines:
        console.print(Padding(line, (0, 0, 0, 8), expand=False))


COMMAND = Asking(question="suggest", show=_print, doing="asking", predicts_anew=True)
