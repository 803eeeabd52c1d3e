"""`irene what-if`: other sizes, settings and architectures, as a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from irene.cli.asking.analysis_options import (
    add_answer_options,
    add_on_option,
    base_variant,
    check_answer,
    put_answer,
)
from irene.cli.asking.serving_options import chosen_phase
from irene.cli.options import whole_number
from irene.errors import UsageError
from irene.spec import Attention, CacheDType, DType, Phase, Quantization

if TYPE_CHECKING:
    from rich.console import Console

    from irene.analyse.grid import Outcome, WhatIf
    from irene.analyse.sensitivity import Elasticity
    from irene.analyse.variant import Variant

__all__ = ["configure", "run"]

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
  irene what-if llama-3.1-8b --on b200 --batch 1,4,16,64,256 --phase decode \\
      --context 1024,8192 --plot batches.svg
  irene what-if llama-3.1-8b --on b200 -b 64 --prompt 750 --output 500 \\
      --quantization bf16,fp8
"""
UNITS = {"generate": ("request", "output token")}
"""What a sequence and a token are called in a phase."""
NORMS = ("layer_norm", "rms_norm", "none")
LISTS = {
    "norm": "norm",
    "dtype": "dtype",
    "attention": "attention",
    "batch_size": "batch",
    "seq_len": "seq",
    "context_len": "context",
    "prompt_len": "prompt",
    "output_len": "output",
    "quantization": "quantization",
    "cache_dtype": "cache_dtype",
    "tensor_parallel": "tensor_parallel",
}
"""Options that take lists, by what they vary."""
SERVING_LISTS = {
    "--context": "tokens in the KV cache, for prefill, decode and generate",
    "--prompt": "tokens of a prompt, for generate",
    "--output": "tokens of an answer, for generate",
    "--quantization": f"weights: of {', '.join(get_args(Quantization))}",
    "--cache-dtype": f"KV cache: of {', '.join(get_args(CacheDType))}",
    "--tensor-parallel": "GPUs that share every layer",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene what-if MODEL [options]"
    parser.epilog = EXAMPLES
    parser.add_argument(
        "model", metavar="MODEL",
        help="catalogue name, Hugging Face id, path of a config.json or saved tree",
    )  # fmt: skip
    group = parser.add_argument_group("what to vary")
    group.add_argument(
        "--set", dest="fields", action="append", default=[], metavar="FIELD=VALUE,…",
        help="a field of the config, may be given several times",
    )  # fmt: skip
    group.add_argument("-b", "--batch", metavar="LIST", help="batch sizes (default 1)")
    group.add_argument("-s", "--seq", metavar="LIST", help="lengths (default 128)")
    group.add_argument(
        "--dtype",
        metavar="LIST",
        help=f"of {', '.join(get_args(DType))} (default fp32; bf16 on GPUs)",
    )
    group.add_argument(
        "--attention", metavar="LIST",
        help=f"of {', '.join(get_args(Attention))} (default eager)",
    )  # fmt: skip
    for option, text in SERVING_LISTS.items():
        group.add_argument(option, metavar="LIST", help=text)
    group.add_argument(
        "--norm", metavar="LIST", help=f"put other norms in: {', '.join(NORMS)}"
    )
    group.add_argument(
        "--sensitivity", action="store_true",
        help="how the energy follows sizes and every number of the config",
    )  # fmt: skip
    _add_fixed(parser)
    add_answer_options(parser, table=True)


def _add_fixed(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the run")
    group.add_argument(
        "--phase", choices=get_args(Phase),
        help="default forward; generate with --prompt or --output",
    )  # fmt: skip
    group.add_argument(
        "--decoder-seq", type=whole_number, metavar="N",
        help="tokens of the decoder of an encoder-decoder model",
    )  # fmt: skip
    group.add_argument(
        "--model-class", metavar="NAME", help="class of transformers to build"
    )
    group.add_argument(
        "--no-limits", action="store_true",
        help="accept configs and sizes past the limits",
    )  # fmt: skip
    add_on_option(group)  # type: ignore[arg-type]


def run(options: argparse.Namespace) -> int:
    """Predict every combination and print the table."""
    from irene.analyse.choices import apply_choices, read_choices

    check_answer(options)
    texts = {name: getattr(options, option) for name, option in LISTS.items()}
    labels = {name: f"--{o.replace('_', '-')}" for name, o in LISTS.items()}
    choices = read_choices(options.fields, texts, {**labels, "set": "--set"})
    base, varied = apply_choices(_base(options), choices)
    if options.sensitivity:
        if options.fields or options.plot:
            raise UsageError("--sensitivity goes without --set and --plot")
        return _run_sensitivity(base, options)
    if not varied:
        raise UsageError(
            "nothing to vary: give --set FIELD=VALUE, several sizes (--batch 1,8,32), "
            "or --sensitivity"
        )
    from irene.analyse.grid import what_if
    from irene.cli.progress import progress_bar

    with progress_bar("predicting") as progress:
        found = what_if(base, varied, progress)
    picture = None
    if options.plot:
        from irene.cli.asking.analysis_pictures import what_if_chart

        picture = what_if_chart(found)
    if put_answer(options, found.to_dict(), rows=found.table(), picture=picture):
        from irene.cli.screens.analysis_screen import screen

        _print(screen(), found)
    return 0


def _base(options: argparse.Namespace) -> Variant:
    from irene.trace.limits import NO_LIMITS

    run: dict[str, Any] = {
        "batch_size": 1, "seq_len": 128, "decoder_len": options.decoder_seq,
        "phase": chosen_phase(options), "model_class": options.model_class,
        "limits": NO_LIMITS if options.no_limits else None,
    }  # fmt: skip
    return base_variant(options.model, options.on, run)


def _run_sensitivity(base: Variant, options: argparse.Namespace) -> int:
    from irene.analyse.sensitivity import sensitivity, sensitivity_document
    from irene.cli.progress import progress_bar

    with progress_bar("varying") as progress:
        found = sensitivity(base, progress)
    document = sensitivity_document(base, found)
    if put_answer(options, document, rows=[row.to_dict() for row in found]):
        from irene.cli.screens.analysis_screen import screen

        _print_sensitivity(screen(), base, found)
    return 0


def _print(console: Console, found: WhatIf) -> None:
    from irene.cli.screens.analysis_screen import columns, print_notes
    from irene.cli.screens.cells import plain

    names = list(found.choices)
    each, token = UNITS.get(found.phase, ("sequence", "token"))
    numbers = ["J per run", "interval", f"per {each}", f"per {token}", "before"]
    numbers.append("change")
    table = columns(*(f"<{plain(name)}" for name in names), *numbers)
    for row in (found.base, *found.rows):
        if row is not found.base and row.settings == found.base.settings:
            continue  # the base is shown already
        shown = [plain(str(row.settings[name])) for name in names]
        style = "bold" if row is found.base else None
        table.add_row(*_cells(row, found, shown), style=style)
    console.print(f"{plain(found.model)} for {plain(found.hardware)}", style="bold")
    console.print(table)
    console.print(
        "before, change: of energy per sequence, against the model as it is at the "
        "same size (at the first, if only sizes change); ~ the interval of the change "
        "holds zero",
        style="dim",
    )
    problems = [row.problem for row in found.rows if row.problem]
    notes = [note for row in found.rows for note in row.notes]
    print_notes(console, [f"warning: {problem}" for problem in problems] + notes)


def _cells(row: Outcome, found: WhatIf, shown: list[str]) -> list[str]:
    from irene.cli.screens.analysis_screen import percent
    from irene.show.text import human_energy, human_spread

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


def _print_sensitivity(
    console: Console, base: Variant, found: Sequence[Elasticity]
) -> None:
    from irene.cli.screens.analysis_screen import columns, print_notes
    from irene.cli.screens.cells import plain

    table = columns("<field", "value", "tried", "elasticity")
    nothing = [row.field for row in found if row.elasticity == 0]
    for row in found:
        if row.elasticity:
            tried = f"{row.lower:,} and {row.upper:,}"
            table.add_row(
                plain(row.field), f"{row.value:,}", tried, f"{row.elasticity:+.2f}"
            )
    size = f"batch {base.batch_size}, length {base.seq_len}"
    console.print(f"{plain(base.model)} for {plain(base.on)}, {size}", style="bold")
    console.print(table)
    console.print(
        "elasticity: d ln energy / d ln field; 1: twice the value takes twice the "
        "energy of a run",
        style="dim",
    )
    if nothing:
        console.print(f"no effect: {', '.join(map(plain, nothing))}", markup=False)
    failed = [f"{row.field}: {row.problem}" for row in found if row.elasticity is None]
    print_notes(console, [f"not tried: {line}" for line in failed])
