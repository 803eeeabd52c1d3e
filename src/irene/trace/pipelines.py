"""Pipelines of several models, as those of diffusers: what a call of them does.

The pipeline itself is called. Its models do not run: each call of one of them is
written down, and answered with zeros of the shapes that it would give. What is equal is
counted, so that thirty steps of a denoiser are one node, thirty times.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils._pytree import tree_flatten, tree_map_only

from irene.errors import IreneError, TraceError, UsageError
from irene.trace.phases import meta_weights
from irene.trace.sources import short
from irene.tree import ModelTree

PROMPT = "a tree"


def models_in(pipeline: object) -> dict[str, nn.Module]:
    """The models of a pipeline by name; none if it is no pipeline of several."""
    parts = getattr(pipeline, "components", None)
    if isinstance(pipeline, nn.Module) or not isinstance(parts, dict):
        return {}
    return {name: part for name, part in parts.items() if isinstance(part, nn.Module)}


@dataclass
class _Call:
    """A call of a model, and how often there was one like it."""

    path: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    answer: Any
    count: int = 0


class Rehearsed(nn.Module):
    """What a call of a pipeline ran, one call of each kind."""

    def __init__(self, models: Mapping[str, nn.Module], calls: list[_Call]) -> None:
        super().__init__()
        self._calls = calls
        for name, model in models.items():
            self.add_module(name, model)

    @property
    def counts(self) -> list[int]:
        """How often each was called."""
        return [call.count for call in self._calls]

    def forward(self) -> None:
        """Call each once."""
        for call in self._calls:
            self.get_submodule(call.path)(*call.args, **call.kwargs)


def rehearsed(pipeline: Any, inputs: Any, batch_size: int) -> Rehearsed:
    """Call a pipeline without running its models.

    Raises:
        UsageError: It needs inputs, or its own code fails.
    """
    models = models_in(pipeline)
    given = _given(pipeline, inputs, batch_size)
    calls: dict[Any, _Call] = {}
    quiet = getattr(pipeline, "_progress_bar_config", None)
    try:
        with torch.random.fork_rng(devices=[]), _standing_in(models, calls):
            if hasattr(pipeline, "set_progress_bar_config"):
                pipeline.set_progress_bar_config(disable=True)
            pipeline(**given)
    except IreneError:
        raise
    except Exception as error:
        name = type(pipeline).__name__
        raise TraceError(f"{name} failed when called: {short(error)}", "") from error
    finally:
        if quiet is not None:
            pipeline._progress_bar_config = quiet
    if not calls:
        raise UsageError(f"{type(pipeline).__name__} called none of its models")
    kind: Any = type(type(pipeline).__name__, (Rehearsed,), {})
    found: Rehearsed = kind(models, list(calls.values()))
    return found.eval()


def _given(pipeline: Any, inputs: Any, batch_size: int) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    known = inspect.signature(type(pipeline).__call__).parameters
    if inputs is None and "prompt" in known and getattr(pipeline, "tokenizer", None):
        return {"prompt": [PROMPT] * batch_size}
    if inputs is None and "batch_size" in known:
        return {"batch_size": batch_size}
    raise UsageError(
        f"{type(pipeline).__name__} needs inputs as it is called with, by name: "
        'irene.predict(pipeline, {"prompt": "…", "num_inference_steps": 30})'
    )


@contextmanager
def _standing_in(
    models: Mapping[str, nn.Module], calls: dict[Any, _Call]
) -> Iterator[None]:
    """Within it models write down that they are called."""
    paths = {
        id(module): f"{name}.{path}" if path else name
        for name, model in models.items()
        for path, module in model.named_modules()
    }
    original: Callable[..., Any] = nn.Module.__call__
    inside = False

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        path = paths.get(id(module))
        if inside or path is None:
            return original(module, *args, **kwargs)
        key = (path, _kind_of((args, kwargs)))
        if key not in calls:
            inside = True
            try:
                answer = _answer(module, args, kwargs)
            finally:
                inside = False
            calls[key] = _Call(path, args, kwargs, answer)
        calls[key].count += 1
        return calls[key].answer

    nn.Module.__call__ = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.__call__ = original  # type: ignore[method-assign]


def _kind_of(values: Any) -> Any:
    """What calls of one kind have in common: shapes and words, not numbers."""
    leaves, shape = tree_flatten(values)
    told = tuple(
        (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor)
        else leaf if isinstance(leaf, str | bool | None) else type(leaf).__name__
        for leaf in leaves
    )  # fmt: skip
    return str(shape), told


def _answer(module: nn.Module, args: Any, kwargs: Any) -> Any:
    """Zeros of the shapes that a call gives; what looks at its data is run for real."""
    device = next((p.device for p in module.parameters()), torch.device("cpu"))

    def zeros(tensor: torch.Tensor) -> torch.Tensor:
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)

    args_kwargs = tree_map_only(torch.Tensor, lambda t: t.to("meta"), (args, kwargs))
    try:
        found = functional_call(module, meta_weights(module), *args_kwargs)
    except (RuntimeError, NotImplementedError):
        return module(*args, **kwargs)
    return tree_map_only(torch.Tensor, zeros, found)


def counted(tree: ModelTree, counts: list[int]) -> ModelTree:
    """The tree of what was rehearsed, with what was called several times as often."""
    columns, members, place = tree.columns, {}, 0
    rows, count = tree.children_of(0), columns.count.copy()
    for row, times in zip(rows, counts, strict=True):
        if times > 1:
            name = tree.strings[columns.name[row]]
            members[row] = tuple((name, place + i) for i in range(times))
        count[row], place = times, place + times
    changed = {"count": count}
    for name in ("flops", "bytes_read", "bytes_written"):
        costs = getattr(columns, name).copy()
        costs[0] += (costs[rows] * (count[rows] - 1)).sum()
        changed[name] = costs
    return tree._derive(columns.select(slice(None), **changed), members=members)
