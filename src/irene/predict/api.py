"""`irene.predict(model, on="pc1")`: a model in, a tree with predicted energy out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.errors import UsageError
from irene.predict.machines.finding import find_gpu, find_predictor, is_gpu
from irene.spec import LATER_FIELDS
from irene.tree import ModelTree

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig

__all__ = ["SERVING_OPTIONS", "predict", "without_serving"]

SERVING_OPTIONS: Mapping[str, Any] = {**LATER_FIELDS, "step_s": None}
"""Options that only data-centre GPUs know, at the values that say nothing."""


def predict(
    model: str | Path | PretrainedConfig | nn.Module | ModelTree,
    on: str = "pc1",
    **run_options: Any,
) -> ModelTree:
    """Predict the energy of every node of a model, without running it.

    Args:
        model: What `irene.trace` takes, or a traced tree.
        on: Name of a machine, or the file of a saved predictor.
        **run_options: Passed on to `irene.trace`: batch_size, seq_len, …; for a
            data-centre GPU also those of a serving: prompt_len, output_len,
            quantization, cache_dtype, tensor_parallel, and step_s, the measured time
            between two tokens of a stream in seconds.

    Returns:
        The tree, unfolded unless a folded one was given, with energy on every node.

    Raises:
        UsageError: The model or the machine is unknown, or a size is impossible.
    """
    if is_gpu(on):
        from irene.predict.machines.gpu.generation import predict_on_gpu

        return predict_on_gpu(find_gpu(on), model, **run_options)
    predictor = find_predictor(on)
    if not isinstance(model, ModelTree):
        from irene.trace.tracer import trace

        model = trace(model, **without_serving(run_options, on))
    return predictor.predict(model)


def without_serving(run_options: Mapping[str, Any], on: str) -> dict[str, Any]:
    """Options of a run on a machine that serves nothing.

    Args:
        run_options: As for `predict`.
        on: Name of the machine, for the message.

    Raises:
        UsageError: One of them is of a serving.
    """
    options = dict(run_options)
    for name, usual in SERVING_OPTIONS.items():
        if options.pop(name, usual) != usual:
            raise UsageError(
                f"{name} is for the serving of language models on data-centre GPUs "
                f"(--on h100, h200, b200, …), not for {on}"
            )
    if options.get("phase") == "generate":
        raise UsageError(
            f"phase generate is for data-centre GPUs (--on h100, h200, b200, …), not "
            f"for {on}: use prefill or decode"
        )
    return options
