"""Options of the serving of language models, which several commands share."""

from __future__ import annotations

import argparse
from typing import Any, get_args

from irene.cli.options import whole_number
from irene.errors import UsageError
from irene.spec import CacheDType, Quantization

__all__ = ["add_serving_options", "chosen_phase", "serving_arguments", "usual_dtype"]

OPTIONS = {
    "prompt_len": "prompt",
    "output_len": "output",
    "quantization": "quantization",
    "cache_dtype": "cache_dtype",
    "tensor_parallel": "tensor_parallel",
}
"""Options by the field of the run that they set."""


def add_serving_options(
    parser: argparse.ArgumentParser, *, step_time: bool = False
) -> None:
    """How a language model is served, on a data-centre GPU.

    Args:
        parser: Gets the options.
        step_time: Whether a measured step time may be given.
    """
    group = parser.add_argument_group("serving, on h100, h200, b200, …")
    group.add_argument(
        "--prompt", type=whole_number, metavar="N",
        help="tokens of a prompt; means --phase generate: a batch of streams, each of "
        "which reads a prompt and answers it",
    )  # fmt: skip
    group.add_argument(
        "--output", type=whole_number, metavar="N",
        help="tokens of an answer on average; means --phase generate",
    )  # fmt: skip
    group.add_argument(
        "--quantization", choices=get_args(Quantization),
        help="how weights are stored and multiplied (default: as published)",
    )  # fmt: skip
    group.add_argument(
        "--cache-dtype", choices=get_args(CacheDType),
        help="how the KV cache is stored (default: as --dtype)",
    )  # fmt: skip
    group.add_argument(
        "--tensor-parallel", type=whole_number, metavar="N",
        help="GPUs that share every layer (default 1)",
    )  # fmt: skip
    if step_time:
        group.add_argument(
            "--step-ms", type=float, metavar="MS",
            help="measured time between two tokens of a stream: idle power goes with "
            "what of it kernels do not fill",
        )  # fmt: skip


def chosen_phase(options: argparse.Namespace) -> str:
    """The phase that is asked for: a prompt or an output means a generation."""
    if options.phase is not None:
        return str(options.phase)
    given = (getattr(options, name, None) for name in ("prompt", "output"))
    return "generate" if any(each is not None for each in given) else "forward"


def serving_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Those that were given, as arguments of `irene.predict`."""
    found = {field: getattr(options, option, None) for field, option in OPTIONS.items()}
    step_ms = getattr(options, "step_ms", None)
    if step_ms is not None:
        if not 0 < step_ms < float("inf"):
            raise UsageError(f"--step-ms must be more than 0, got {step_ms:g}")
        found["step_s"] = step_ms / 1e3
    return {name: value for name, value in found.items() if value is not None}


def usual_dtype(on: str) -> str:
    """The type that is predicted for a machine unless somebody says otherwise."""
    from irene.predict.machines.finding import is_gpu

    return "bf16" if is_gpu(on) else "fp32"
