"""`irene what-if`: other sizes, settings and architectures, as a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from irene.cli.asking.answering import Asking, plain_picture
from irene.cli.asking.curves import print_curves
from irene.cli.output import machine_words, print_notes, print_unfit
from irene.errors import UsageError
from irene.human import human_energy, human_spread
from irene.show.terminal import columns, percent
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from irene.analyse.curve import Curves
    from irene.analyse.grid import Outcome, WhatIf
    from irene.analyse.sensitivity import Sensitivity

USAGE = "MODEL [options]"
EXAMPLES = """\
Lists are written 1,8,32 or 64:512:64 (from:to:step). FIELD is any field of the model's
config, or `model` for another model. The first size is the base that others are
compared with.

examples:
  irene what-if bert-base-uncased --set hidden_act=relu --set num_hidden_layers=6
  irene what-if bert-base-uncased --batch 1,8,32 --seq 64:512:64 --plot sizes.svg
  irene what-if gpt2 -b 8 --set activation_function=gelu_new,gelu_pytorch_tanh,relu
  irene what-if bert-base-uncased -b 8 --norm rms_norm --attention eager,sdpa
  irene what-if bert-base-uncased -b 8 --sensitivity
  irene what-if bert-base-uncased -b 8 --over seq_len --under 20
  irene what-if llama-3.1-8b --on b200 --batch 1,4,16,64,256 --phase decode \\
      --context 1024,8192 --plot batches.svg
  irene what-if llama-3.1-8b --on b200 -b 64 --prompt 750 --output 500 \\
      --quantization bf16,fp8
"""


def _checked(options: argparse.Namespace) -> dict[str, Any]:
    if options.sensitivity and options.plot:
        raise UsageError("--sensitivity goes without --plot")
    return {}


def _print_either(
    console: Console, found: WhatIf | Sensitivity | Curves, _: argparse.Namespace
) -> None:
    from irene.analyse.curve import Curves
    from irene.analyse.grid import WhatIf

    if isinstance(found, WhatIf):
        _print(console, found)
    elif isinstance(found, Curves):
        print_curves(console, found)
    else:
        _print_sensitivity(console, found)


def _print(console: Console, found: WhatIf) -> None:
    from irene.tree.headline import NO_ROOM, unit_words

    names = list(found.choices)
    each, token = unit_words(found.phase)
    numbers = ["J per run", "interval", f"per {each}", f"per {token}", "before"]
    numbers.append("change")
    heads = *(f"<{plain(name)}" for name in names), *numbers, ""
    table = columns(*heads, goes=("before",))
    for row in (found.base, *found.rows):
        if row is not found.base and row.settings == found.base.settings:
            continue  # the base is shown already
        shown = [str(row.settings[name]) for name in names]
        style = "bold" if row is found.base else None
        unfit = any(NO_ROOM in note for note in row.notes)
        fits = "does not fit" if unfit else ""
        table.add_row(*_cells(row, found, shown), fits, style=style)
    title = f"{plain(found.model)} for {machine_words(found.hardware)}"
    console.print(title, style="bold")
    notes = [note for row in (found.base, *found.rows) for note in row.notes]
    notes = print_unfit(console, notes)
    console.print(table)
    console.print(
        f"before, change: of energy per {each}, against the model as it is at the "
        "same size (at the first, if only sizes change); ~ the interval of the change "
        "holds zero",
        style="dim",
    )
    problems = [row.problem for row in found.rows if row.problem]
    print_notes(console, [f"warning: {problem}" for problem in problems] + notes)


def _cells(row: Outcome, found: WhatIf, shown: list[str]) -> list[str]:
    energy = row.energy
    if energy is None:
        return [*shown, "cannot run", "", "", "", "", ""]
    is_base = row is found.base
    change = "base" if is_base else percent(-row.saving_j, row.before_j)
    unsure = "" if is_base or row.saving_is_real else "~"
    return [
        *shown,
        human_energy(energy.joules),
        human_spread(energy),
        human_energy(row.per_sequence_j or 0.0),
        human_energy(row.per_token_j or 0.0),
        "" if is_base else human_energy(row.before_j),
        f"{unsure}{change}",
    ]


def _print_sensitivity(console: Console, found: Sensitivity) -> None:
    from irene.tree.headline import run_sizes

    table = columns("<field", "value", "tried", "elasticity")
    nothing = [row.field for row in found.fields if row.elasticity == 0]
    for row in found.fields:
        if row.elasticity:
            tried = f"{row.lower:,} and {row.upper:,}"
            table.add_row(row.field, f"{row.value:,}", tried, f"{row.elasticity:+.2f}")
    run = ", ".join(run_sizes(found.run))
    title = f"{plain(found.model)} for {machine_words(found.hardware)}, {run}"
    console.print(title, style="bold")
    console.print(table)
    console.print(
        "elasticity: d ln energy / d ln field; 1: twice the value takes twice the "
        "energy of a run",
        style="dim",
    )
    if nothing:
        console.print(f"no effect: {', '.join(map(plain, nothing))}")
    failed = [
        f"{row.field}: {row.problem}" for row in found.fields if row.elasticity is None
    ]
    print_notes(console, [f"not tried: {line}" for line in failed])


COMMAND = Asking(
    question="what-if", show=_print_either, draw=plain_picture, predicts_anew=True,
    more=_checked,
)  # fmt: skip
