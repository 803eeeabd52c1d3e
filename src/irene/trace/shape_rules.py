"""Shape rules for ops whose own meta kernel is missing or too narrow.

A rule gets the op, a function that gives the content of a tensor (or raises, where it
is not known), and the op's arguments. It answers with meta tensors of the right shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["SHAPE_RULES"]

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
