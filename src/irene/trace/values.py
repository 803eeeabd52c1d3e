"""Real values for small meta tensors, so that models may look at their inputs.

On the meta device a tensor has a shape and no content. Most models only look at the
content of small integer tensors (token ids, masks, image grids): we keep that content
on the CPU beside the meta tensor and carry it through every op whose inputs are all
known. `.item()`, `nonzero`, `unique` and `if mask.all():` then work as in a real run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from irene.trace.costs.call import tensors_in

__all__ = ["DataDependentError", "give_value", "run_with_values", "value_of"]

LARGEST = 1 << 18
"""Elements up to which content is carried along."""

_ATTRIBUTE = "_irene_value"
_ASKS_FOR_CONTENT = {"aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"}


class DataDependentError(RuntimeError):
    """The model asks for the content of a tensor that has none."""


def value_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Content of a tensor: itself off the meta device, what was kept for it on it."""
    if tensor.device.type != "meta":
        return tensor
    return getattr(tensor, _ATTRIBUTE, None)


def give_value(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor that remembers the content of a small real one."""
    meta = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
    )
    if tensor.numel() <= LARGEST:
        setattr(meta, _ATTRIBUTE, tensor)
    return meta


def run_with_values(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run one op, on meta tensors with content where it is known.

    Raises:
        DataDependentError: The op asks for content that is not known.
    """
    tensors = tensors_in((*args, *kwargs.values()))
    values = [value_of(tensor) for tensor in tensors]
    known = all(value is not None for value in values)
    asks = func._schema.name in _ASKS_FOR_CONTENT
    if not known:
        if asks:
            raise DataDependentError(f"{func._schema.name} needs the tensor's content")
        return _run_on_meta(func, args, kwargs, tensors)
    if not _on_meta(tensors, kwargs):
        return func(*args, **kwargs)
    if asks:
        return _run_on_content(func, args, kwargs)
    try:
        out = func(*args, **kwargs)
    except (NotImplementedError, RuntimeError):
        real = _run_on_content(func, args, kwargs)
        return tree_map_only(torch.Tensor, give_value, real)
    _remember(func, args, kwargs, out, tensors)
    return out


def _on_meta(tensors: list[torch.Tensor], kwargs: Mapping[str, Any]) -> bool:
    if any(tensor.device.type == "meta" for tensor in tensors):
        return True
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "meta"


def _run_on_meta(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], tensors: list[Any]
) -> Any:
    """Run an op on unknown content; what it overwrites becomes unknown too."""
    if func._schema.is_mutable:
        for tensor in tensors:
            if hasattr(tensor, _ATTRIBUTE):
                delattr(tensor, _ATTRIBUTE)
            break
    shortcut = SHORTCUTS.get(func._schema.name)
    if shortcut is not None and tensors[0].device.type == "meta":
        return shortcut(*args, **kwargs)
    return func(*args, **kwargs)


def _run_on_content(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    real_args, real_kwargs = tree_map_only(torch.Tensor, value_of, (args, dict(kwargs)))
    if "device" in real_kwargs:
        real_kwargs["device"] = torch.device("cpu")
    return func(*real_args, **real_kwargs)


def _remember(
    func: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    out: Any,
    tensors: list[torch.Tensor],
) -> None:
    """Carry content from the inputs of an op to its outputs."""
    outputs = tensors_in((out,))
    small = all(tensor.numel() <= LARGEST for tensor in (*outputs, *tensors))
    if not small or torch.Tag.nondeterministic_seeded in func.tags:
        return
    real = tensors_in((_run_on_content(func, args, kwargs),))
    for tensor, content in zip(outputs, real, strict=True):
        setattr(tensor, _ATTRIBUTE, content)


def _grouped_mm(
    left: torch.Tensor,
    right: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Shape of a grouped product; torch's own shape rule takes bf16 only."""
    dtype = out_dtype or left.dtype
    if left.dim() == 2 and right.dim() == 2:
        groups = offs.shape[0] if offs is not None else 1
        return left.new_empty((groups, left.shape[0], right.shape[1]), dtype=dtype)
    return left.new_empty((*left.shape[:-1], right.shape[-1]), dtype=dtype)


SHORTCUTS = {
    "aten::_grouped_mm": _grouped_mm,
    "transformers::grouped_mm_fallback": _grouped_mm,
}
"""Shape rules for ops whose own meta kernel is missing or too narrow."""
