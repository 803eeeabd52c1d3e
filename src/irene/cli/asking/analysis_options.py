"""Options and answers that the commands of analysis share."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from irene.cli.asking.serving_options import (
    add_serving_options,
    chosen_phase,
    serving_arguments,
)
from irene.cli.options import run_arguments, whole_number
from irene.errors import UsageError
from irene.show.csv_rows import rows_csv
from irene.spec import Attention, DType, Phase

if TYPE_CHECKING:
    from irene.analyse.subjects import Subject
    from irene.analyse.variant import Variant
    from irene.show.picture import Picture
    from irene.tree import ModelTree

__all__ = [
    "add_answer_options",
    "add_on_option",
    "add_size_options",
    "base_variant",
    "check_answer",
    "checked_subject",
    "number",
    "put_answer",
    "size_arguments",
    "subject_tree",
]


def number(text: str) -> float:
    """A number, also written 1e6 or 1_000_000."""
    try:
        value = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error
    if value != value:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def add_on_option(parser: argparse.ArgumentParser) -> None:
    """Which machine."""
    parser.add_argument(
        "--on", metavar="NAME", default="pc1",
        help="hardware to predict for, or the file of a predictor (default pc1)",
    )  # fmt: skip


def add_size_options(
    parser: argparse.ArgumentParser, batch: int = 1, seq: int = 128
) -> None:
    """Sizes and settings of runs whose models are named elsewhere.

    Args:
        parser: Gets the options.
        batch: Default batch size.
        seq: Default length.
    """
    group = parser.add_argument_group("the run")
    group.add_argument(
        "-b", "--batch", type=whole_number, default=batch, metavar="N",
        help=f"sequences (images, clips) per run (default {batch})",
    )  # fmt: skip
    group.add_argument(
        "-s", "--seq", type=whole_number, default=seq, metavar="N",
        help=f"tokens per sequence (default {seq})",
    )  # fmt: skip
    group.add_argument(
        "--decoder-seq", type=whole_number, metavar="N",
        help="tokens of the decoder of an encoder-decoder model (default: as --seq)",
    )  # fmt: skip
    group.add_argument(
        "--phase", choices=get_args(Phase),
        help="default forward; generate with --prompt or --output",
    )  # fmt: skip
    group.add_argument(
        "--context", type=whole_number, metavar="N",
        help="tokens already in the KV cache, for prefill, decode and generate",
    )  # fmt: skip
    group.add_argument(
        "--dtype", choices=get_args(DType),
        help="default fp32; bf16 on data-centre GPUs",
    )  # fmt: skip
    group.add_argument("--attention", choices=get_args(Attention))
    group.add_argument(
        "--no-limits", action="store_true",
        help="accept configs and sizes past the limits",
    )  # fmt: skip
    add_on_option(group)  # type: ignore[arg-type]
    add_serving_options(parser)


def size_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The options of `add_size_options` as arguments of `irene.trace`, checked."""
    from irene.spec import RunSpec
    from irene.trace.limits import NO_LIMITS

    words = {"dtype": options.dtype, "attention": options.attention}
    arguments = {
        "batch_size": options.batch,
        "seq_len": options.seq,
        "decoder_len": options.decoder_seq,
        "context_len": options.context,
        **{name: word for name, word in words.items() if word is not None},
        "phase": chosen_phase(options),
        **serving_arguments(options),
    }
    RunSpec("any", **arguments)
    return {**arguments, "limits": NO_LIMITS if options.no_limits else None}


def checked_subject(text: str, on: str, run: Mapping[str, Any]) -> Subject:
    """What a word means; wrong ones are told before torch is loaded."""
    from irene.analyse.subjects import parse_subject
    from irene.predict.machines.finding import find_predictor
    from irene.spec import RunSpec
    from irene.trace.sources import locate

    subject = parse_subject(text, on, **run)
    if not subject.is_tree:
        locate(subject.model)
        find_predictor(subject.on)
        known = {each.name for each in dataclasses.fields(RunSpec)}
        sizes = {k: v for k, v in subject.run.items() if k in known}
        RunSpec(subject.model, **sizes)
    return subject


def subject_tree(options: argparse.Namespace) -> ModelTree:
    """The tree that MODEL and the run options mean, with energy."""
    from irene.analyse.subjects import tree_of
    from irene.cli.progress import working

    subject = checked_subject(options.model, options.on, run_arguments(options))
    doing = "reading" if subject.is_tree else "predicting"
    with working(f"{doing} {options.model}"):
        return tree_of(subject)


def base_variant(model: str, on: str, run: Mapping[str, Any]) -> Variant:
    """The model that changes start from; a saved tree says which and at which size."""
    from irene.analyse.variant import Variant, variant_of_tree
    from irene.predict.machines.finding import find_predictor
    from irene.tree import load

    subject = checked_subject(model, on, run)
    if not subject.is_tree:
        return Variant(subject.model, dict(subject.run), on=subject.on)
    find_predictor(on)
    print(
        f"{model}: the model and size of this tree are predicted anew for {on}",
        file=sys.stderr,
    )
    return variant_of_tree(load(subject.model), on)


def add_answer_options(
    parser: argparse.ArgumentParser, *, table: bool = False, plot: bool = True
) -> None:
    """In which form, and where to.

    Args:
        parser: Gets the options.
        table: Whether there is a table for CSV.
        plot: Whether there is a picture.
    """
    group = parser.add_argument_group("the output")
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document")
    if table:
        form.add_argument("--csv", action="store_true", help="one row per line")
        group.add_argument(
            "--out", metavar="FILE", help="write to a file: CSV if it ends so, or JSON"
        )
    if plot:
        group.add_argument(
            "--plot", metavar="FILE",
            help="also draw a picture: .svg, .png or .html, with its numbers beside it",
        )  # fmt: skip


def check_answer(options: argparse.Namespace) -> None:
    """Refuse files that cannot be written, before the work is done."""
    from irene.cli.screens.tree_output import check_writable

    plot = getattr(options, "plot", None)
    if plot:
        from irene.show.picture.picture import SUFFIXES

        if Path(plot).suffix.lower() not in SUFFIXES:
            raise UsageError(
                f"--plot {plot}: the name must end in {', '.join(SUFFIXES)}"
            )
    for file in filter(None, (plot, getattr(options, "out", None))):
        check_writable(file)


def put_answer(
    options: argparse.Namespace,
    document: Mapping[str, Any],
    *,
    rows: Sequence[Mapping[str, Any]] = (),
    picture: Picture | None = None,
) -> bool:
    """Write what is asked for in other forms than the screen.

    Args:
        options: Of `add_answer_options`.
        document: For JSON.
        rows: For CSV; all have the same keys.
        picture: For `--plot`.

    Returns:
        Whether the screen is still to be filled.
    """
    if picture is not None and options.plot:
        for path in picture.save(options.plot):
            print(f"wrote {path}", file=sys.stderr)
    out = getattr(options, "out", None)
    as_csv = getattr(options, "csv", False) or (out or "").endswith(".csv")
    if not (options.json or as_csv or out):
        return True
    text = rows_csv(rows) if as_csv else json.dumps(document, allow_nan=False) + "\n"
    if out is None:
        sys.stdout.write(text)
        return False
    try:
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from error
    print(f"wrote {out}", file=sys.stderr)
    return False
