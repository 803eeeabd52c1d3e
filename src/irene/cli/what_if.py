"""`irene what-if`: other sizes, settings and architectures, as a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from irene.cli.analysis_options import (
    add_answer_options,
    add_on_option,
    base_variant,
    check_answer,
    put_answer,
)
from irene.cli.options import whole_number
from irene.errors import UsageError
from irene.spec import Attention, DType, Phase

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
"""
NORMS = ("layer_norm", "rms_norm", "none")
MOST_VALUES = 1_000


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
        help=f"of {', '.join(get_args(DType))} (default fp32)",
    )
    group.add_argument(
        "--attention", metavar="LIST",
        help=f"of {', '.join(get_args(Attention))} (default eager)",
    )  # fmt: skip
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
    group.add_argument("--phase", choices=get_args(Phase), default="forward")
    group.add_argument(
        "--context", type=whole_number, metavar="N",
        help="tokens already in the KV cache, for prefill and decode",
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
    check_answer(options)
    choices = _choices(options)
    base = _base(options, choices)
    if options.sensitivity:
        if options.fields or options.plot:
            raise UsageError("--sensitivity goes without --set and --plot")
        return _run_sensitivity(base, options)
    varied = {
        name: values for name, values in choices.items() if _is_varied(name, values)
    }
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
        from irene.cli.analysis_pictures import what_if_chart

        picture = what_if_chart(found)
    rows = [_csv_row(row, found) for row in (found.base, *found.rows)]
    if put_answer(options, found.to_dict(), rows=rows, picture=picture):
        from irene.cli.analysis_screen import screen

        _print(screen(), found)
    return 0


def _is_varied(name: str, values: Sequence[Any]) -> bool:
    """Sizes and settings of one value are the base's; a field is always a change."""
    fixed = ("batch_size", "seq_len", "dtype", "attention")
    return len(values) > 1 or name not in fixed


def _base(options: argparse.Namespace, choices: dict[str, list[Any]]) -> Variant:
    from irene.trace.limits import NO_LIMITS

    run: dict[str, Any] = {
        "batch_size": 1, "seq_len": 128, "dtype": "fp32", "attention": "eager",
        "decoder_len": options.decoder_seq, "context_len": options.context,
        "phase": options.phase, "model_class": options.model_class,
        "limits": NO_LIMITS if options.no_limits else None,
    }  # fmt: skip
    base = base_variant(options.model, options.on, run)
    given = {name: choices[name][0] for name in run if choices.get(name)}
    for name in given:
        if len(choices[name]) == 1:
            del choices[name]
    return base.changed(given)


def _choices(options: argparse.Namespace) -> dict[str, list[Any]]:
    """Values by name, in the order the table shows them."""
    choices: dict[str, list[Any]] = {}
    for text in options.fields:
        name, is_pair, values = text.partition("=")
        if not (name.strip() and is_pair and values.strip()):
            raise UsageError(f"--set takes FIELD=VALUE, got {text!r}")
        choices.setdefault(name.strip(), []).extend(_values(values))
    words = {
        "norm": (options.norm, NORMS),
        "dtype": (options.dtype, get_args(DType)),
        "attention": (options.attention, get_args(Attention)),
    }
    for name, (text, known) in words.items():
        for word in text.split(",") if text else ():
            if word not in known:
                raise UsageError(f"--{name}: no {word!r}; there are {', '.join(known)}")
            choices.setdefault(name, []).append(word)
    for name, option in (("batch_size", "batch"), ("seq_len", "seq")):
        text = getattr(options, option)
        if text:
            choices[name] = [_size(each, option) for each in _values(text)]
    return choices


def _size(value: Any, option: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"--{option} takes whole numbers from 1 up, got {value!r}")
    return value


def _values(text: str) -> list[Any]:
    """`1,8,32`, `64:512:64`, or one value as JSON writes it."""
    from irene.analyse.config_fields import parse_value

    if text.lstrip().startswith(("[", "{")):
        return [parse_value(text)]
    found: list[Any] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        found += _range(piece) if piece.count(":") in (1, 2) else [parse_value(piece)]
    if not found:
        raise UsageError(f"{text!r} holds no value")
    return found


def _range(text: str) -> list[Any]:
    try:
        first, last, step = [*map(int, text.split(":")), 1][:3]
    except ValueError:
        return [text]
    if step < 1 or last < first or (last - first) // step >= MOST_VALUES:
        raise UsageError(f"{text!r}: write from:to:step, the step more than 0")
    return list(range(first, last + 1, step))


def _run_sensitivity(base: Variant, options: argparse.Namespace) -> int:
    from irene.analyse.sensitivity import sensitivity
    from irene.cli.progress import progress_bar

    with progress_bar("varying") as progress:
        found = sensitivity(base, progress)
    document = {
        "schema": "irene.sensitivity/1",
        "model": base.model,
        "hardware": base.on,
        "fields": [row.to_dict() for row in found],
    }
    if put_answer(options, document, rows=[row.to_dict() for row in found]):
        from irene.cli.analysis_screen import screen

        _print_sensitivity(screen(), base, found)
    return 0


def _csv_row(row: Outcome, found: WhatIf) -> dict[str, Any]:
    energy = row.energy
    return {
        **{name: row.settings.get(name, "") for name in found.choices},
        "energy_j": energy.joules if energy else None,
        "low_j": energy.low if energy else None,
        "high_j": energy.high if energy else None,
        "per_sequence_j": row.per_sequence_j,
        "per_token_j": row.per_token_j,
        "before_per_sequence_j": row.before_j if energy else None,
        "saving_per_sequence_j": row.saving_j if energy else None,
        "flops": row.flops if energy else None,
        "params": row.params if energy else None,
        "problem": row.problem,
    }


def _print(console: Console, found: WhatIf) -> None:
    from irene.cli.analysis_screen import columns, print_notes
    from irene.cli.cells import plain

    names = list(found.choices)
    numbers = ["J per run", "interval", "per sequence", "per token", "before", "change"]
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
    from irene.cli.analysis_screen import percent
    from irene.tree.text import human_energy, human_spread

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
    from irene.cli.analysis_screen import columns, print_notes
    from irene.cli.cells import plain

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
