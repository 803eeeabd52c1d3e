"""Shape rules for ops whose own meta kernel is missing or too narrow.

A rule gets the op, a function that gives the content of a tensor where it is known, and
the op's arguments. It answers with meta tensors of the right shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

__all__ = ["SHAPE_RULES", "DataDependentError"]

ValueOf = Callable[[torch.Tensor], torch.Tensor | None]


class DataDependentError(RuntimeError):
    """The model asks for the content of a tensor that has none."""


def _grouped_mm(
    func: Any,
    value_of: ValueOf,
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


def _with_known_masks(func: Any, value_of: ValueOf, *args: Any, **kwargs: Any) -> Any:
    """Indexing with a mask: as many rows as the mask has ones, if that is known."""

    def places(mask: torch.Tensor) -> Any:
        known = value_of(mask)
        if known is None:
            raise DataDependentError("a mask selects elements, and is not known")
        return tuple(index.to("meta") for index in known.nonzero(as_tuple=True))

    tensor, indices, *rest = args
    flat: list[Any] = []
    for index in indices:
        is_mask = index is not None and index.dtype in (torch.bool, torch.uint8)
        flat += places(index) if is_mask else [index]
    return func(tensor, flat, *rest, **kwargs)


def _masked_select(
    func: Any, value_of: ValueOf, tensor: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    known = value_of(mask)
    if known is None:
        raise DataDependentError("masked_select: the mask is not known")
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    return tensor.new_empty(int(known.expand(shape).sum()))


def _masked_fill(
    func: Any, value_of: ValueOf, tensor: torch.Tensor, mask: torch.Tensor, value: Any
) -> torch.Tensor:
    """Torch's own rule refuses a value that is a number on the CPU."""
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    return tensor.new_empty(shape)


def _without_content(func: Any, value_of: ValueOf, *args: Any, **kwargs: Any) -> Any:
    """The op for real on zeros: its shapes do not depend on the content."""

    def zeros(tensor: torch.Tensor) -> torch.Tensor:
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")

    real_args, real_kwargs = tree_map_only(torch.Tensor, zeros, (args, kwargs))
    return tree_map_only(
        torch.Tensor, lambda tensor: tensor.to("meta"), func(*real_args, **real_kwargs)
    )


SHAPE_RULES: dict[str, Callable[..., Any]] = {
    "aten::_grouped_mm": _grouped_mm,
    "transformers::grouped_mm_fallback": _grouped_mm,
    "aten::index": _with_known_masks,
    "aten::masked_select": _masked_select,
    "aten::masked_fill": _masked_fill,
}
"""Shape rules by op name."""
