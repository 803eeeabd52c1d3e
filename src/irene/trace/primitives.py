"""Which modules and functions are ML primitives, the third level of the tree."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from irene.trace.costs.cost_table import COSTS
from irene.trace.values import know_value

COMPOSITES = {
    "apply_rotary_pos_emb": "rotary_embedding",
    "apply_rotary_pos_emb_interleave": "rotary_embedding",
    "apply_rotary_pos_emb_vision": "rotary_embedding",
    "apply_multimodal_rotary_pos_emb": "rotary_embedding",
    "apply_interleaved_rotary_pos_emb": "rotary_embedding",
    "apply_rotary_emb": "rotary_embedding",
    "_apply_rotary_emb": "rotary_embedding",
    "rotate_half": "rotary_embedding",
    "rotate_every_two": "rotary_embedding",
}
"""Python functions of modelling code that are one primitive to a reader."""

CACHE_FILE = "cache_utils.py"
CACHE_UPDATE = "kv_cache_update"

MATRIX_FUNCTIONS = frozenset(
    {"addmm", "baddbmm", "bmm", "einsum", "linear", "matmul", "mm", "tensordot"}
)
"""Functions whose preparing copies are shown as a primitive of their own."""

LEAF_SUFFIXES = ("Norm", "RotaryEmbedding", "Activation", "GELU", "Conv1D")
"""Endings of class names of modelling code that mark a leaf module as a primitive."""

OF_FINITE_NUMBERS = {torch.isfinite: True, torch.isinf: False, torch.isnan: False}
"""What models ask of activations in fp16 before they clamp them, and the answer."""

NOT_PRIMITIVES = (nn.Identity, nn.ParameterList, nn.ParameterDict)


def is_primitive_module(module: nn.Module) -> bool:
    """True for a module that is one ML primitive: torch's own leaves and their like."""
    name = type(module).__name__
    if name in COSTS:
        return True
    if next(module.children(), None) is not None:
        return False
    if isinstance(module, NOT_PRIMITIVES):
        return False
    if type(module).__module__.startswith("torch.nn."):
        return True
    own = [c for c in type(module).__mro__ if c.__module__.startswith("torch.nn.")]
    return own[0] is not nn.Module or name.endswith(LEAF_SUFFIXES)


def function_name(func: Any) -> str:
    """Name of a torch function as a primitive: `matmul`, `getitem`, `softmax`."""
    name: str = getattr(func, "__name__", None) or type(func).__name__
    return name.strip("_") if name.startswith("__") else name.lstrip("_")


def run_on_meta(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run a primitive, on meta tensors as it would run for real."""
    if func is scaled_dot_product_attention:
        return _run_attention(func, args, kwargs)
    out = func(*args, **kwargs)
    if func in OF_FINITE_NUMBERS and out.device.type == "meta":
        return know_value(out, torch.tensor(OF_FINITE_NUMBERS[func]).expand(out.shape))
    return out


def _run_attention(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Attention, on meta tensors as fused kernels lay it out.

    On the meta device torch takes the unfused path, whose result lies head by head.
    Every fused kernel writes it token by token, which spares the copy that follows.
    """
    query = args[0] if args else kwargs["query"]
    if query.device.type != "meta" or query.dim() < 3:
        return func(*args, **kwargs)
    if torch.is_grad_enabled():
        return func(*args, **kwargs).transpose(-3, -2).contiguous().transpose(-3, -2)
    value = args[2] if len(args) > 2 else kwargs["value"]
    *batch, heads, tokens, _ = query.shape
    out = query.new_empty((*batch, tokens, heads, value.shape[-1]))
    return out.transpose(-3, -2)


def composite_frame(depth: int) -> tuple[FrameType, str] | None:
    """The call of a composite function that the current torch call is part of.

    Args:
        depth: Frames between this one and the torch call.
    """
    frame: FrameType | None = sys._getframe(depth)
    found = None
    for _ in range(8):
        if frame is None:
            break
        code = frame.f_code
        name = COMPOSITES.get(code.co_name)
        if name is None and code.co_filename.endswith(CACHE_FILE):
            name = CACHE_UPDATE if code.co_name == "update" else None
        if name is not None:
            found = (frame, name)
        elif code.co_name in ("forward", "_call_impl"):
            break
        frame = frame.f_back
    return found
