"""`irene.predict(model, on="pc1")`: a model in, a tree with predicted energy out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.predict.known import find_predictor
from irene.tree import ModelTree

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig

__all__ = ["predict"]


def predict(
    model: str | Path | PretrainedConfig | nn.Module | ModelTree,
    on: str = "pc1",
    **run_options: Any,
) -> ModelTree:
    """Predict the energy of every node of a model, without running it.

    Args:
        model: What `irene.trace` takes, or a traced tree.
        on: Name of a machine, or the file of a saved predictor.
        **run_options: Passed on to `irene.trace`: batch_size, seq_len, ….

    Returns:
        The tree, unfolded unless a folded one was given, with energy on every node.

    Raises:
        UsageError: The model or the machine is unknown, or a size is impossible.
    """
    predictor = find_predictor(on)
    if not isinstance(model, ModelTree):
        from irene.trace.tracer import trace

        model = trace(model, **run_options)
    return predictor.predict(model)
