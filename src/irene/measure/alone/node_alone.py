"""Running one node alone, again and again, as it ran inside its model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from irene.trace.costs.call import tensors_in

DEEPEST = 4
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
            for found in _objects(values, DEEPEST, set())
        ]

    def __bool__(self) -> bool:
        """Whether there is anything to restore."""
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
        """Keep the state of the arguments as it is now."""
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
        _try(run)
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


def _try(run: Callable[[], Any]) -> None:
    try:
        run()
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise CannotRunError(f"{type(error).__name__}: {text}") from error


def _private(value: Any, depth: int = DEEPEST) -> Any:
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
