"""Models as users of other libraries have them: pipelines, encoders, quantised layers.

A pipeline stands for its model, PEFT's for the one inside, sentence-transformers are
given their features. Layers of bitsandbytes, whose kernels run on no meta device, are
run as what they do: weights are read as they are stored, turned to the type of the
activations, and multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel

from irene.errors import SpecError
from irene.spec import RunSpec
from irene.trace.inputs import Inputs, make_inputs

QUANTIZED = ("Linear4bit", "Linear8bitLt", "LinearFP4", "LinearNF4")
"""Classes of bitsandbytes."""
NOTE = "as they are stored, turned to the type of activations, then multiplied"


def module_of(model: object) -> object:
    """The model of a pipeline or inside PEFT's, adapters and all; else itself.

    Raises:
        SpecError: It was scripted: its layers cannot be watched.
    """
    if isinstance(model, nn.Module):
        if any(isinstance(part, torch.jit.ScriptModule) for part in model.modules()):
            raise SpecError(
                "a scripted module does not show what it calls: give the module that "
                "torch.jit was given"
            )
        adapted: Any = model
        if "PeftModel" not in _kinds(model):
            return model
        prompts = adapted.active_peft_config.is_prompt_learning
        return model if prompts else adapted.get_base_model()
    inner = getattr(model, "model", None)
    return inner if isinstance(inner, nn.Module) else model


def inputs_of_module(model: nn.Module, spec: RunSpec, device: str) -> Any:
    """Inputs of a model that says by its config what it takes.

    Raises:
        SpecError: It says nothing.
    """
    inner = [m for m in model.modules() if isinstance(m, PreTrainedModel)]
    if "SentenceTransformer" in _kinds(model) and inner:
        made = make_inputs(inner[0], spec, device)
        if "attention_mask" not in made:  # pooling asks for it
            made["attention_mask"] = torch.ones_like(made["input_ids"])
        return Inputs({"input": dict(made)}, made.notes)
    if not hasattr(model, "config"):
        raise SpecError(
            f"{type(model).__name__} is not a transformers model: give its inputs as "
            "the second argument; a factory of budgets returns both"
        )
    return make_inputs(model, spec, device)


def _kinds(model: nn.Module) -> set[str]:
    return {kind.__name__ for kind in type(model).__mro__}


# Quantised layers -------------------------------------------------------------


@contextmanager
def quantized_as_run(
    model: nn.Module, weights: dict[str, torch.Tensor]
) -> Iterator[tuple[str, ...]]:
    """Within it quantised layers run on the meta device; gives notes of them.

    Meta copies of the weights are given by name; those of quantised layers become
    bytes.
    """
    changed: dict[str, Any] = {
        name: module
        for name, module in model.named_modules()
        if type(module).__name__ in QUANTIZED
    }
    for name, module in changed.items():
        path = f"{name}.weight" if name else "weight"
        size = module.weight.numel() * module.weight.element_size()
        stored: Any = torch.empty(size, dtype=torch.uint8, device="meta")
        stored.params_held = module.out_features * module.in_features
        weights[path] = stored
        module.forward = _run_as_stored(module)
    try:
        kinds = sorted({type(module).__name__ for module in changed.values()})
        yield (f"weights of {', '.join(kinds)} are read {NOTE}",) if kinds else ()
    finally:
        for module in changed.values():
            del module.forward


def linear_as_stored(
    x: torch.Tensor, stored: torch.Tensor, shape: tuple[int, int], bias: Any = None
) -> torch.Tensor:
    """A product with weights of few bits, in ops that every device has."""
    size = shape[0] * shape[1]
    wide = -(-size // stored.numel())
    values = stored.reshape(-1, 1).expand(-1, wide).to(x.dtype)
    weight = values.reshape(-1)[:size].view(shape)
    return functional.linear(x, weight, None if bias is None else bias.to(x.dtype))


def _run_as_stored(module: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """The forward of a quantised layer."""
    shape = (module.out_features, module.in_features)
    return lambda x: linear_as_stored(x, module.weight, shape, module.bias)
