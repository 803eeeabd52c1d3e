"""Capture: the distinct nodes of a model, each with a call that runs it alone.

Two nodes are the same run if what is called, with what, and what that calls are the
same. A description of that holds nothing that changes from one process to the next, so
that its hash can name a measurement in a journal. A call is run again and again, as it
ran inside its model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from irene.trace.captor import Captor
from irene.trace.costs.call import tensors_in
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
    """Nodes that are the same run, of which the first one is measured.

    `rows` are those of the tree that it stands for, `math_ops` those below it; costs
    are of one run. Without a call nothing could be captured.
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


DEEPEST_STATE = 4
WITHOUT_STATE = (
    torch.Tensor,
    nn.Module,
    Mapping,
    type,
    FunctionType,
    MethodType,
    str,
    int,
    float,
)


class CannotRunError(Exception):
    """A node cannot be run alone; the message says why."""


class KeptState:
    """What objects among the arguments held before a call, such as a KV cache.

    A cache grows with every call; `restore` makes each call find what the first found.
    Tensors are not copied: a cache that grows makes new ones.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._saved = [
            (vars(found), {name: _copied(v) for name, v in vars(found).items()})
            for found in _objects(values, DEEPEST_STATE, set())
        ]

    def __bool__(self) -> bool:
        return bool(self._saved)

    def restore(self) -> None:
        """Give every object back what it held."""
        for fields, saved in self._saved:
            fields.clear()
            fields.update((name, _copied(value)) for name, value in saved.items())


def _copied(value: Any) -> Any:
    return value.copy() if type(value) in (list, dict, set) else value


def _objects(values: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Mapping) and depth:
            yield from _objects(value.values(), depth - 1, seen)
        elif isinstance(value, list | tuple) and depth:
            yield from _objects(value, depth - 1, seen)
        elif _has_state(value) and id(value) not in seen:
            seen.add(id(value))
            yield value
            yield from _objects(vars(value).values(), depth - 1, seen)


def _has_state(value: Any) -> bool:
    is_config = type(value).__name__.endswith("Config")
    return (
        hasattr(value, "__dict__")
        and not isinstance(value, WITHOUT_STATE)
        and not is_config
    )


@dataclass(frozen=True, slots=True)
class Replay:
    """Aten ops that are run one after the other, each on the inputs it had."""

    calls: tuple[tuple[Any, tuple[Any, ...], Mapping[str, Any]], ...]

    def __call__(self) -> None:
        """Run them all."""
        for func, args, kwargs in self.calls:
            func(*args, **kwargs)


@dataclass(slots=True)
class NodeCall:
    """What a node called, with what, and what its arguments held before the call."""

    func: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    state: KeptState = field(init=False)

    def __post_init__(self) -> None:
        self.state = KeptState((*self.args, *self.kwargs.values()))

    def alone(self) -> Callable[[], Any]:
        """A function that runs the node once; it has been tried.

        Where the node writes into its inputs, it is run on copies of them.

        Raises:
            CannotRunError: It fails, or changes the shape of its inputs.
        """
        # The first try is on copies: the inputs of other nodes may be the same tensors.
        args, kwargs = _private((self.args, dict(self.kwargs)))
        copies = tensors_in((*args, *kwargs.values()))
        before = [(tensor._version, tensor.shape) for tensor in copies]
        run = self._runner(args, kwargs)
        try:
            run()
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            raise CannotRunError(f"{type(error).__name__}: {text}") from error
        after = [(tensor._version, tensor.shape) for tensor in copies]
        if [shape for _, shape in after] != [shape for _, shape in before]:
            raise CannotRunError("it changes the shape of its own inputs")
        return run if after != before else self._runner(self.args, self.kwargs)

    def _runner(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Callable[[], Any]:
        call = partial(self.func, *args, **kwargs)
        if not self.state:
            return call
        restore = self.state.restore

        def run() -> Any:
            restore()
            return call()

        return run


def _private(value: Any, depth: int = DEEPEST_STATE) -> Any:
    """The same nested arguments with tensors of their own, laid out as they were."""
    if isinstance(value, torch.Tensor):
        with torch.inference_mode(False):  # such tensors tell when they are changed
            return _copy(value.detach())
    if depth and type(value) in (list, tuple):
        return type(value)(_private(part, depth - 1) for part in value)
    if depth and type(value) is dict:
        return {name: _private(part, depth - 1) for name, part in value.items()}
    return value


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides; an expanded dimension stays expanded."""
    if tensor.layout is not torch.strided:
        return tensor.clone()
    once = [slice(0, 1 if step == 0 else None) for step in tensor.stride()]
    stored = tensor[tuple(once)]
    copy = torch.empty_strided(
        stored.shape, stored.stride(), dtype=tensor.dtype, device=tensor.device
    )
    try:
        return copy.copy_(stored).expand(tensor.shape)
    except RuntimeError:  # elements that overlap in another way, as of `unfold`
        return tensor.clone()
