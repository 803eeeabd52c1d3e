"""From a model and a run to a predicted tree on a data-centre GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.errors import ConfigError, UsageError
from irene.predict.machines.gpu.gpu_machine import GpuMachine
from irene.spec import LATER_FIELDS
from irene.trace.serving.tree import serving_tree
from irene.tree import ModelTree

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig

__all__ = ["predict_on_gpu"]

SERVING_PHASES = ("prefill", "decode", "generate")
TRACE_ONLY = ("model_class", "device", "decoder_len", "attention")
"""Options of a trace that say nothing about a serving."""
USUAL_CLASS = "AutoModelForCausalLM"
LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel")


def predict_on_gpu(
    machine: GpuMachine,
    model: str | Path | PretrainedConfig | nn.Module | ModelTree,
    *,
    step_s: float | None = None,
    **run: Any,
) -> ModelTree:
    """Predict a model on a GPU: a serving where it can be one, else what is traced.

    Args:
        machine: The GPU.
        model: As for `irene.predict`.
        step_s: Measured time between two tokens of a stream, s.
        **run: Options of a run; `dtype` is bf16 unless it says otherwise, `phase` is
            `generate` where there is an `output_len` or `prompt_len`.

    Raises:
        UsageError: The model is unknown, or a size is impossible.
    """
    if isinstance(model, ModelTree):
        return machine.predict(model, step_s)
    run = {name: value for name, value in run.items() if value is not None}
    run.setdefault("dtype", "bf16")
    if run.get("output_len") or run.get("prompt_len"):
        run.setdefault("phase", "generate")
    why = None
    if run.get("phase") in SERVING_PHASES and _can_be_served(model, run):
        try:
            return _served(machine, model, step_s, run)
        except ConfigError as error:
            why = str(error)
    return _traced(machine, model, step_s, run, why)


def _can_be_served(model: object, run: Mapping[str, Any]) -> bool:
    """A model that is there, or a class of one's own, is traced instead."""
    has_config = isinstance(model, str | Path) or hasattr(model, "to_dict")
    chosen = str(run.get("model_class") or USUAL_CLASS)
    return has_config and (chosen == USUAL_CLASS or chosen.endswith(LANGUAGE_MODELS))


def _served(
    machine: GpuMachine, model: Any, step_s: float | None, run: dict[str, Any]
) -> ModelTree:
    sizes = {name: value for name, value in run.items() if name not in TRACE_ONLY}
    name = None
    if not isinstance(model, str | Path):
        name = getattr(model, "_name_or_path", "") or model.model_type
        model = model.to_dict()
    tree = serving_tree(model, name=name, **sizes)
    return machine.predict(tree, step_s).unfold()


def _traced(
    machine: GpuMachine,
    model: Any,
    step_s: float | None,
    run: dict[str, Any],
    why: str | None,
) -> ModelTree:
    """Trace what is no decoder that can be read, and predict it kernel by kernel."""
    asked = [
        name for name, usual in LATER_FIELDS.items() if run.pop(name, usual) != usual
    ]
    if step_s is not None:
        asked.append("a step time")
    if run.get("phase") == "generate" or asked:
        what = asked[0] if asked else "a generation"
        reason = why or f"phase {run.get('phase', 'forward')} is no serving"
        raise UsageError(
            f"{what} cannot be predicted: {reason}; phases prefill and decode are "
            "traced instead"
        )
    tree = machine.predict(_trace(model, run))
    if why is None:
        return tree
    note = f"extrapolation: traced, not as an engine would serve it: {why}"
    return tree._derive(tree.columns, notes=(*tree.notes, note))


def _trace(model: Any, run: dict[str, Any]) -> ModelTree:
    """A traced tree, with fused attention where the model has it."""
    from irene.trace.tracer import trace

    if "attention" in run:
        return trace(model, **run)
    try:
        return trace(model, attention="sdpa", **run)
    except ConfigError as error:
        if "attention in transformers" not in str(error):
            raise
        return trace(model, **run)
