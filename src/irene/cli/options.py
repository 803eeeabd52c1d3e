"""Options that several commands share."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, get_args

from irene.spec import Attention, DType, Phase

__all__ = [
    "add_output_options",
    "add_run_options",
    "add_view_options",
    "checked_run",
    "run_arguments",
    "whole_number",
]


def whole_number(text: str) -> int:
    """A whole number, also written 1e6 or 4_096.

    Bounds are checked by RunSpec, which says more than a parser can.
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
        whole = int(number)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from error
    if whole != number:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return whole


DEVICE = "meta (default): shapes alone; cpu, cuda: run the model for real"


def add_run_options(
    parser: argparse.ArgumentParser, device: str = "meta", device_help: str = DEVICE
) -> None:
    """Which model is run, at which size, and how.

    Args:
        parser: Gets the options.
        device: Where it is run unless the user says otherwise.
        device_help: What the user is told about that.
    """
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="catalogue name, Hugging Face id, or path of a config.json",
    )
    group = parser.add_argument_group("the run")
    group.add_argument(
        "-b", "--batch", type=whole_number, default=1, metavar="N",
        help="sequences (images, clips) per run (default 1)",
    )  # fmt: skip
    group.add_argument(
        "-s", "--seq", type=whole_number, default=128, metavar="N",
        help="tokens per sequence (default 128)",
    )  # fmt: skip
    group.add_argument(
        "--decoder-seq", type=whole_number, metavar="N",
        help="tokens of the decoder of an encoder-decoder model (default: as --seq)",
    )  # fmt: skip
    group.add_argument(
        "--phase", choices=get_args(Phase),
        help="forward (default); prefill (fills a KV cache); decode (one token against "
        "a cache); train (forward and backward); generate (prompts and their answers)",
    )  # fmt: skip
    group.add_argument(
        "--context", type=whole_number, metavar="N",
        help="tokens already in the KV cache, for prefill (default 0), "
        "decode (default: as --seq) and generate (on average)",
    )  # fmt: skip
    group.add_argument(
        "--dtype", choices=get_args(DType),
        help="default fp32; bf16 on data-centre GPUs",
    )  # fmt: skip
    group.add_argument(
        "--attention", choices=get_args(Attention),
        help="default eager; sdpa on data-centre GPUs",
    )  # fmt: skip
    group.add_argument(
        "--model-class", metavar="NAME",
        help="class of transformers to build, e.g. BertForSequenceClassification",
    )  # fmt: skip
    group.add_argument("--device", default=device, help=device_help)
    group.add_argument(
        "--no-limits", action="store_true",
        help="accept configs and sizes past the limits",
    )  # fmt: skip


def run_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The run options as keyword arguments of `irene.trace` or `irene.predict`.

    Dtype, attention and what is of servings are there only if they were given: what is
    usual depends on the machine.
    """
    from irene.cli.asking.serving_options import chosen_phase, serving_arguments
    from irene.trace.limits import NO_LIMITS

    words = {"dtype": options.dtype, "attention": options.attention}
    return {
        "batch_size": options.batch,
        "seq_len": options.seq,
        "decoder_len": options.decoder_seq,
        "context_len": options.context,
        **{name: word for name, word in words.items() if word is not None},
        "phase": chosen_phase(options),
        "model_class": options.model_class,
        "device": options.device,
        "limits": NO_LIMITS if options.no_limits else None,
        **serving_arguments(options),
    }


def checked_run(options: argparse.Namespace) -> dict[str, Any]:
    """The run options as keyword arguments, after a look at sizes and name.

    A wrong one is told before torch is loaded, which takes seconds.
    """
    from irene.spec import RunSpec
    from irene.trace.sources import locate

    arguments = run_arguments(options)
    locate(options.model)
    known = {each.name for each in dataclasses.fields(RunSpec)}
    RunSpec(options.model, **{k: v for k, v in arguments.items() if k in known})
    return arguments


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """What of a tree is shown."""
    group = parser.add_argument_group("the view")
    group.add_argument(
        "--depth", type=whole_number, metavar="N", help="levels below the model"
    )
    group.add_argument(
        "--sort", choices=("order", "energy", "flops", "bytes", "params"),
        default="order", help="order of siblings (default: as they ran)",
    )  # fmt: skip
    group.add_argument(
        "--top", type=whole_number, metavar="N",
        help="a flat list of the N most expensive nodes instead of the tree",
    )  # fmt: skip
    group.add_argument(
        "--unfold", action="store_true", help="show equal layers one by one"
    )
    group.add_argument(
        "--level", choices=("module", "ml", "math"), default="ml",
        help="deepest kind of node to show (default ml)",
    )  # fmt: skip
    group.add_argument(
        "--all", action="store_true", help="show nodes that cost nothing (views) too"
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """In which form, and where to."""
    group = parser.add_argument_group("the output")
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document")
    form.add_argument("--csv", action="store_true", help="one row per node")
    group.add_argument(
        "--out", metavar="FILE",
        help="write to a file; JSON unless --csv is given or it ends in .csv",
    )  # fmt: skip
    group.add_argument(
        "--html", metavar="FILE",
        help="write a page to look at in a browser, which needs no network",
    )  # fmt: skip
    group.add_argument(
        "--plot", metavar="FILE",
        help="also draw a picture: .svg, .png or .html, with its numbers beside it",
    )  # fmt: skip
    group.add_argument(
        "--plot-as", choices=("icicle", "annotated"), default="icicle",
        help="boxes as wide as their share (default), or boxes and lines with joules, "
        "down to --depth",
    )  # fmt: skip
