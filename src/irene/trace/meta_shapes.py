"""Shapes of results on the meta device: remembered, and by rules where torch has none.

Torch finds the result of many ops on meta tensors in Python, which takes most of the
time of a forward pass there. The result depends on shapes, strides and dtypes alone, so
equal layers are worked out once.

A shape rule is for an op whose own meta kernel is missing or too narrow. It gets the
op, a function that gives the content of a tensor (or raises, where it is not known),
and the op's arguments. It answers with meta tensors of the right shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

MOST = 20_000
"""Results to remember before starting afresh."""

_results: dict[Any, Any] = {}


def run_remembered(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run an op on meta tensors, or repeat the result it had for equal arguments."""
    if any(returned.alias_info for returned in func._schema.returns):
        return func(*args, **kwargs)  # a view, or written in place
    try:
        key = (func, _key(args), _key(tuple(kwargs.items())))
        known = _results.get(key)
    except TypeError:  # an argument that cannot be a key
        return func(*args, **kwargs)
    if known is not None:
        return _repeat(known)
    out = func(*args, **kwargs)
    described = _describe(out)
    if described is not None:
        if len(_results) >= MOST:
            _results.clear()
        _results[key] = described
    return out


def _key(value: Any) -> Any:
    """Something hashable that is equal for arguments that give equal shapes."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise TypeError("no strides")
        return (value.shape, value.stride(), value.dtype, value.device)
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    # 1, 1.0 and True are equal and hash alike, but give other dtypes.
    return (type(value), value)


def _describe(out: Any) -> Any:
    """What is needed to make the same result again; None if it cannot be."""
    if isinstance(out, torch.Tensor):
        if out.layout is not torch.strided or out.device.type != "meta":
            return None
        if out.is_conj() or out.is_neg():
            return None
        return (tuple(out.shape), out.stride(), out.dtype)
    if type(out) in (tuple, list):
        parts = [_describe(part) for part in out]
        return None if None in parts else (type(out), parts)
    return None


def _repeat(described: Any) -> Any:
    first, second, *rest = described
    if not rest:
        return first(map(_repeat, second))
    return torch.empty_strided(first, second, dtype=rest[0], device="meta")


ContentOf = Callable[[torch.Tensor], torch.Tensor]


def _grouped_mm(
    func: Any,
    content_of: ContentOf,
    left: torch.Tensor,
    right: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Shape of a grouped product; torch's own rule takes bf16 only."""
    dtype = out_dtype or left.dtype
    if left.dim() == 2 and right.dim() == 2:
        groups = offs.shape[0] if offs is not None else 1
        return left.new_empty((groups, left.shape[0], right.shape[1]), dtype=dtype)
    return left.new_empty((*left.shape[:-1], right.shape[-1]), dtype=dtype)


def _with_known_masks(
    func: Any, content_of: ContentOf, *args: Any, **kwargs: Any
) -> Any:
    """Indexing with a mask: as many rows as the mask has ones, if that is known."""

    def places(mask: torch.Tensor) -> Any:
        found = content_of(mask).nonzero(as_tuple=True)
        return tuple(index.to("meta") for index in found)

    tensor, indices, *rest = args
    flat: list[Any] = []
    for index in indices:
        is_mask = index is not None and index.dtype in (torch.bool, torch.uint8)
        flat += places(index) if is_mask else [index]
    return func(tensor, flat, *rest, **kwargs)


def _together(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Size:
    """The shape that two tensors are broadcast to."""
    return (torch.empty_like(tensor, dtype=torch.bool) & mask.bool()).shape


def _masked_select(
    func: Any, content_of: ContentOf, tensor: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """As many elements as the mask has ones."""
    chosen = content_of(mask).expand(_together(tensor, mask))
    return tensor.new_empty(int(chosen.sum()))


def _masked_fill(
    func: Any,
    content_of: ContentOf,
    tensor: torch.Tensor,
    mask: torch.Tensor,
    value: Any,
) -> torch.Tensor:
    """Torch's own rule refuses a value that is a number on the CPU."""
    return tensor.new_empty(_together(tensor, mask))


SHAPE_RULES: dict[str, Callable[..., Any]] = {
    "aten::_grouped_mm": _grouped_mm,
    "transformers::grouped_mm_fallback": _grouped_mm,
    "aten::index": _with_known_masks,
    "aten::masked_select": _masked_select,
    "aten::masked_fill": _masked_fill,
}
"""Shape rules by op name."""
