"""ModelRunner: calls a model, on its own weights or on meta copies of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from irene.trace.values import give_value

__all__ = ["ModelRunner"]


class ModelRunner:
    """Calls a model without changing it.

    Args:
        model: The model, on any device.
        on_meta: Run on meta copies of its weights instead of the weights.
    """

    def __init__(self, model: nn.Module, on_meta: bool) -> None:
        self.model = model
        self.on_meta = on_meta
        self._copies = _meta_copies(model) if on_meta else {}

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        if not self._copies:
            return self.model(*args, **kwargs)
        return functional_call(self.model, self._copies, args, kwargs)

    def parameters(self) -> list[torch.Tensor]:
        """The parameters that take part in the run and want a gradient."""
        found = dict(self.model.named_parameters()) | self._copies
        return [tensor for tensor in found.values() if tensor.requires_grad]


def _meta_copies(model: nn.Module) -> dict[str, torch.Tensor]:
    """Meta copies of weights that are on another device; none for a meta model."""
    if all(p.device.type == "meta" for p in model.parameters()):
        return {}
    copies = {}
    for name, parameter in model.named_parameters():
        copy = torch.empty_like(parameter, device="meta")
        copies[name] = copy.requires_grad_(parameter.requires_grad)
    for name, buffer in model.named_buffers():
        copies[name] = give_value(buffer)
    return copies
