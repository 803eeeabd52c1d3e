"""When two nodes are the same run: what is called, with what, and what that calls.

A description holds nothing that changes from one process to the next, so that its hash
can name a measurement in a journal.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

__all__ = ["describe", "describe_callable", "digest"]

POSITIONS = re.compile(r"(^|_)(idx|index|layer_id|layer_num(ber)?|block_id)$")
"""Names of what says where a layer stands, not what it does."""
PLAIN = (bool, int, float, str, type(None), type(...))
DEEPEST = 6


def digest(description: Any) -> str:
    """16 hex digits of a description."""
    text = json.dumps(description, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(value: Any, depth: int = DEEPEST) -> Any:
    """An argument as JSON-ready values: tensors by shape, strides and dtype."""
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.layout is torch.strided else ()
        return ["tensor", list(value.shape), list(strides), str(value.dtype)]
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, slice):
        return ["slice", *(describe(v) for v in (value.start, value.stop, value.step))]
    if depth and isinstance(value, list | tuple):
        return [describe(part, depth - 1) for part in value]
    if depth and isinstance(value, Mapping):
        return _by_name(value.items(), depth - 1)
    if isinstance(value, torch.dtype | torch.device | torch.layout):
        return str(value)
    return describe_callable(value) if callable(value) else _class_name(value)


def _by_name(items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
    return {
        str(name): describe(value, depth)
        for name, value in items
        if not POSITIONS.search(str(name))
    }


def _class_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def describe_callable(func: Any) -> Any:
    """A module by its class, settings and weights; a function by its name."""
    if isinstance(func, nn.Module):
        return [_describe_module(part) for part in func.modules()]
    code = getattr(func, "__code__", None)
    if code is not None:  # a Python function, whatever it was wrapped in
        return f"{getattr(func, '__module__', '')}.{code.co_qualname}"
    return str(getattr(func, "__qualname__", None) or func)


def _describe_module(module: nn.Module) -> Any:
    settings = {
        name: repr(value)
        for name, value in vars(module).items()
        if isinstance(value, PLAIN)
        and not name.startswith("_")
        and not POSITIONS.search(name)
    }
    weights = {n: describe(t) for n, t in module.named_parameters(recurse=False)}
    buffers = {n: describe(t) for n, t in module.named_buffers(recurse=False)}
    return [_class_name(module), settings, weights, buffers]
