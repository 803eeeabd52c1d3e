"""Capture: the distinct nodes of a model, each with a call that runs it alone.

Two nodes are the same run if what is called, with what, and what that calls are the
same. A description of that holds nothing that changes from one process to the next, so
that its hash can name a measurement in a journal.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from irene.measure.alone.node_alone import NodeCall, Replay
from irene.trace.captor import Captor
from irene.tree import ModelTree, TreeBuilder

MathCall = tuple[Any, tuple[Any, ...], Mapping[str, Any]]
POSITIONS = re.compile(r"(^|_)(idx|index|layer_id|layer_num(ber)?|block_id)$")
"""Names of what says where a layer stands, not what it does."""
PLAIN = (bool, int, float, str, type(None), type(...))
DEEPEST = 6


class Capture(Captor):
    """Keeps one call for all nodes that are the same run.

    Nodes are the same if class, settings, shapes, strides, dtypes, plain arguments and
    everything below them are. Only the first of them keeps its inputs alive.

    Attributes:
        calls: Call of every distinct node by its key; None where there is none.
        keys: Key of every node by its handle.
    """

    def __init__(self) -> None:
        self.calls: dict[str, NodeCall | None] = {}
        self.keys: dict[int, str] = {}
        self._open: dict[int, NodeCall] = {}
        self._math: dict[int, MathCall] = {}
        self._replayed: set[int] = set()
        self._builder = TreeBuilder()

    def enter(
        self,
        handle: int,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        """A node begins."""
        self._open[handle] = NodeCall(func, args, dict(kwargs))

    def math(
        self, handle: int, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """An aten op has become a node."""
        self._math[handle] = (func, args, dict(kwargs))

    def split(self, product: int, copies: int) -> None:
        """A product and its copies are run as the ops that each consists of."""
        self._replayed |= {product, copies}

    def drop(self, handle: int) -> None:
        """A node was taken back."""
        self._open.pop(handle, None)

    def leave(self, handle: int, builder: TreeBuilder) -> None:
        """A node has ended: name it, and keep its call if it is the first such."""
        self._builder = builder
        row = builder.rows[handle]
        call = self._open.pop(handle, None)
        below = [self._math.pop(child, None) for child in row.children]
        if handle in self._replayed:
            self._replayed.discard(handle)
            call = NodeCall(Replay(tuple(filter(None, below))))
        description = [
            *(row.kind, row.op, row.signature, row.params),
            None if call is None else _describe_call(call),
            [self.keys.get(child, builder.rows[child].op) for child in row.children],
        ]
        key = self.keys[handle] = digest(description)
        self.calls.setdefault(key, call)

    def keys_by_row(self) -> list[str | None]:
        """Key of every row of the tree that was built; None for math ops."""
        return [self.keys.get(handle) for handle in self._builder.order()]


def _describe_call(call: NodeCall) -> Any:
    if isinstance(call.func, Replay):
        return [
            (str(func), _describe(args), _describe(kwargs))
            for func, args, kwargs in call.func.calls
        ]
    return _describe_callable(call.func), _describe(call.args), _describe(call.kwargs)


@dataclass(frozen=True, slots=True)
class DistinctNode:
    """Nodes that are the same run, of which one is measured.

    Attributes:
        key: Names the run.
        rows: Rows of the tree that it stands for, the first one first.
        path: Dotted path of the first, "" for the model.
        kind: `model`, `module` or `ml`.
        op: Class or function.
        shapes: Shapes of its input tensors.
        flops: Floating-point operations of one run.
        moved_bytes: Bytes read and written by one run.
        math_ops: Math ops below it.
        call: Runs it alone; None where nothing could be captured.
    """

    key: str
    rows: tuple[int, ...]
    path: str
    kind: str
    op: str
    shapes: tuple[tuple[int, ...], ...]
    flops: int
    moved_bytes: int
    math_ops: int
    call: NodeCall | None

    @property
    def label(self) -> str:
        """Path and class, for people."""
        return f"{self.path} ({self.op})" if self.path else self.op


def distinct_nodes(
    tree: ModelTree, capture: Capture
) -> tuple[ModelTree, list[DistinctNode]]:
    """The tree down to ML primitives, and the distinct nodes of it.

    Returns:
        The tree cut at level `ml`, and its distinct nodes in the order they first ran.
    """
    keys = capture.keys_by_row()
    ops_below = tree.columns.inclusive((tree.columns.kind == 3).astype(int))
    whole = [node for node in tree.nodes() if node.kind != "math"]
    cut = tree.at_level("ml")
    groups: dict[str, list[int]] = {}
    first: dict[str, DistinctNode] = {}
    for row, node in enumerate(whole):
        key = keys[node.row] or digest([node.op, node.signature])
        groups.setdefault(key, []).append(row)
        if key not in first:
            first[key] = DistinctNode(
                *(key, (), node.path, node.kind, node.op, node.inputs),
                *(node.flops, node.bytes, int(ops_below[node.row])),
                capture.calls.get(key),
            )
    return cut, [replace(first[k], rows=tuple(rows)) for k, rows in groups.items()]


def digest(description: Any) -> str:
    """16 hex digits of a description."""
    text = json.dumps(description, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _describe(value: Any, depth: int = DEEPEST) -> Any:
    """An argument as JSON-ready values: tensors by shape, strides and dtype."""
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.layout is torch.strided else ()
        return ["tensor", list(value.shape), list(strides), str(value.dtype)]
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, slice):
        return ["slice", *(_describe(v) for v in (value.start, value.stop, value.step))]
    if depth and isinstance(value, list | tuple):
        return [_describe(part, depth - 1) for part in value]
    if depth and isinstance(value, Mapping):
        return _by_name(value.items(), depth - 1)
    if isinstance(value, torch.dtype | torch.device | torch.layout):
        return str(value)
    return _describe_callable(value) if callable(value) else _class_name(value)


def _by_name(items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
    return {
        str(name): _describe(value, depth)
        for name, value in items
        if not POSITIONS.search(str(name))
    }


def _class_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _describe_callable(func: Any) -> Any:
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
    weights = {n: _describe(t) for n, t in module.named_parameters(recurse=False)}
    buffers = {n: _describe(t) for n, t in module.named_buffers(recurse=False)}
    return [_class_name(module), settings, weights, buffers]
