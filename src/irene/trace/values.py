"""Real values for small meta tensors, so that models may look at their inputs.

On the meta device a tensor has a shape and no content. Most models only look at the
content of small integer tensors (token ids, masks, image grids): we keep that content
on the CPU beside the meta tensor and carry it through every op whose inputs are all
known. `.item()`, `nonzero`, `unique` and `if mask.all():` then work as in a real run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from irene.trace.costs.call import TensorSpec, tensors_in
from irene.trace.meta_shapes import SHAPE_RULES, run_remembered
from irene.trace.watchers import WatchFunctions, WatchMath

LARGEST = 1 << 20
"""Elements up to which content is carried along; an expanded dimension counts once."""

_ATTRIBUTE = "_irene_value"
_ASKS_FOR_CONTENT = {"aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"}


class DataDependentError(RuntimeError):
    """The model asks for the content of a tensor that has none."""


class _Memory:
    """Memory that views share.

    Attributes:
        is_known: Whether its content is known still.
        parts: Parts of it that were written to, and whose content is known apart.
    """

    __slots__ = ("is_known", "parts")

    def __init__(self) -> None:
        self.is_known = True
        self.parts: list[_Memory] = []

    def forget(self) -> None:
        """Something unknown was written to it."""
        self.is_known = False
        for part in self.parts:
            part.forget()


class _Content:
    """What a meta tensor holds.

    Attributes:
        tensor: The real tensor.
        memory: Shared by all views of one memory.
    """

    __slots__ = ("memory", "tensor")

    def __init__(self, tensor: torch.Tensor, memory: _Memory | None = None) -> None:
        self.tensor = tensor
        self.memory = _Memory() if memory is None else memory


def value_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Content of a tensor: itself off the meta device, what was kept for it on it."""
    if tensor.device.type != "meta":
        return tensor
    content: _Content | None = getattr(tensor, _ATTRIBUTE, None)
    return content.tensor if content is not None and content.memory.is_known else None


def _content_of(tensor: torch.Tensor) -> torch.Tensor:
    content = value_of(tensor)
    if content is None:
        raise DataDependentError("a mask selects elements, and is not known")
    return content


def give_value(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor that remembers a copy of the content of a small real one."""
    if tensor.device.type == "meta":
        return tensor
    return _beside_meta(tensor.detach().clone() if _is_small(tensor) else tensor)


def _beside_meta(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor whose content is this very tensor, if it is small."""
    meta = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
    )
    return know_value(meta, tensor)


def know_value(meta: torch.Tensor, content: torch.Tensor) -> torch.Tensor:
    """The same meta tensor, which from now on knows its content, if that is small."""
    if _is_small(content):
        setattr(meta, _ATTRIBUTE, _Content(content))
    return meta


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.numel() <= LARGEST or TensorSpec.of(tensor).stored <= LARGEST


def run_with_values(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run one op, on meta tensors with content where it is known.

    Raises:
        DataDependentError: The op asks for content that is not known.
    """
    tensors = tensors_in((*args, *kwargs.values()))
    if not _on_meta(tensors, kwargs):
        return func(*args, **kwargs)
    args, kwargs = _all_on_meta(func, args, kwargs, tensors)
    tensors = tensors_in((*args, *kwargs.values()))
    asks = func._schema.name in _ASKS_FOR_CONTENT or _leaves_meta(func, kwargs)
    if any(value_of(tensor) is None for tensor in tensors):
        if asks:
            raise DataDependentError(f"{func._schema.name} needs the tensor's content")
        return _run_without_content(func, args, kwargs, tensors)
    if asks:
        return _run_on_content(func, args, kwargs)
    try:
        out = func(*args, **kwargs)
    except (NotImplementedError, RuntimeError):
        real = _run_on_content(func, args, kwargs)
        return tree_map_only(torch.Tensor, _beside_meta, real)
    _remember(func, args, kwargs, out, tensors)
    return out


def _on_meta(tensors: list[torch.Tensor], kwargs: Mapping[str, Any]) -> bool:
    if any(tensor.device.type == "meta" for tensor in tensors):
        return True
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "meta"


def _leaves_meta(func: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether an op copies to a device where tensors have content (`.cpu()`)."""
    device = kwargs.get("device")
    copies = func._schema.name == "aten::_to_copy"
    return copies and device is not None and torch.device(device).type != "meta"


def _all_on_meta(
    func: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    tensors: list[torch.Tensor],
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Bring small CPU tensors that meet meta tensors to meta, with their content."""
    if all(tensor.device.type == "meta" for tensor in tensors):
        return args, kwargs
    if func._schema.is_mutable and tensors[0].device.type != "meta":
        return args, kwargs

    def to_meta(tensor: torch.Tensor) -> torch.Tensor:
        return tensor if tensor.device.type == "meta" else _beside_meta(tensor)

    moved: tuple[Any, Any] = tree_map_only(torch.Tensor, to_meta, (args, dict(kwargs)))
    return moved


def _run_without_content(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], tensors: list[Any]
) -> Any:
    """Run an op on unknown content; what it overwrites becomes unknown too."""
    if func._schema.is_mutable:
        _forget(tensors[0])
    rule = SHAPE_RULES.get(func._schema.name)
    if rule is not None:
        return rule(func, _content_of, *args, **kwargs)
    out = run_remembered(func, args, kwargs)
    content: _Content | None = getattr(tensors[0], _ATTRIBUTE, None)
    if _is_view(func) and content is not None and not content.memory.is_known:
        for view in tensors_in((out,)):  # who writes to it writes to that memory
            setattr(view, _ATTRIBUTE, content)
    return out


def _run_on_content(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    real_args, real_kwargs = tree_map_only(torch.Tensor, value_of, (args, dict(kwargs)))
    if "device" in real_kwargs:
        real_kwargs["device"] = torch.device("cpu")
    tensors = tensors_in((*real_args, *real_kwargs.values()))
    shape, single = _shape_of_result(func, tensors)
    if shape == single:
        return func(*real_args, **real_kwargs)

    def narrow(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[tuple(slice(n) for n in single[len(single) - tensor.dim() :])]

    narrowed = tree_map_only(torch.Tensor, narrow, (real_args, real_kwargs))
    return func(*narrowed[0], **narrowed[1]).expand(shape)


def _shape_of_result(
    func: Any, tensors: list[torch.Tensor]
) -> tuple[list[int], list[int]]:
    """Shape of an elementwise op's result, and of what in it is not a repetition.

    Large masks are mostly small ones, expanded.
    """
    copies = func is torch.ops.aten._to_copy.default
    each_alone = copies or torch.Tag.pointwise in func.tags
    if not each_alone or func._schema.is_mutable or not tensors:
        return [], []
    singles = [_without_repetition(each) for each in tensors]
    single = _broadcast(singles)
    if prod(single) > LARGEST:
        single = _broadcast([_without_equal(each) for each in singles])
    return _broadcast(tensors), single


def _broadcast(tensors: list[torch.Tensor]) -> list[int]:
    shapes = (each.shape for each in tensors)
    return [*torch.broadcast_shapes(*shapes)]  # type: ignore[no-untyped-call]


def _without_repetition(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[tuple(slice(None if step else 1) for step in tensor.stride())]


def _without_equal(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without dimensions along which all its elements are equal."""
    for dim in range(tensor.dim()):
        first = tensor.narrow(dim, 0, min(1, tensor.shape[dim]))
        if bool((tensor == first).all()):
            tensor = first
    return tensor


def _remember(
    func: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    out: Any,
    tensors: list[torch.Tensor],
) -> None:
    """Carry content from the inputs of an op to its outputs."""
    outputs = tensors_in((out,))
    known = [_content_of(tensor) for tensor in tensors]
    _, single = _shape_of_result(func, known)
    small = _is_view(func) or all(map(_is_small, outputs))
    if single:
        small = prod(single) <= LARGEST
    writes = func._schema.is_mutable and bool(tensors)
    real = None
    if small and _has_content(func, outputs) and (not writes or _is_whole(tensors[0])):
        # There are ops without a CPU kernel, as `histc` of integers.
        with suppress(NotImplementedError, RuntimeError):
            real = tensors_in((_run_on_content(func, args, kwargs),))
    if real is None:
        if writes:
            _forget(tensors[0])
        return
    memories = {_memory(t): getattr(t, _ATTRIBUTE).memory for t in tensors}
    for tensor, content in zip(outputs, real, strict=True):
        memory = memories.get(content.untyped_storage().data_ptr())
        setattr(tensor, _ATTRIBUTE, _Content(content, memory))


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether content can be written to: each element for itself.

    What stands once for many gets a content of its own, and nothing else of its memory
    is known any more.
    """
    content: _Content = getattr(tensor, _ATTRIBUTE)
    whole: int = tensor.untyped_storage().nbytes()
    if content.tensor.untyped_storage().nbytes() >= whole:
        return True
    if tensor.numel() > LARGEST:
        return False
    own = _Content(content.tensor.clone())
    content.memory.forget()
    content.memory.parts.append(own.memory)
    setattr(tensor, _ATTRIBUTE, own)
    return True


def _is_view(func: Any) -> bool:
    return any(each.alias_info for each in func._schema.returns)


def _memory(tensor: torch.Tensor) -> int:
    content: torch.Tensor = getattr(tensor, _ATTRIBUTE).tensor
    return content.untyped_storage().data_ptr()


def _has_content(func: Any, outputs: list[torch.Tensor]) -> bool:
    """Whether running the op for real gives numbers that mean anything."""
    if torch.Tag.nondeterministic_seeded in func.tags:
        return False
    reserves = "empty" in func._schema.name
    return not (reserves and any(t.dtype.is_floating_point for t in outputs))


def _forget(tensor: torch.Tensor) -> None:
    """Something unknown was written into a tensor: it and its views are unknown."""
    content: _Content | None = getattr(tensor, _ATTRIBUTE, None)
    if content is not None:
        content.memory.forget()


@contextmanager
def carrying_values() -> Iterator[None]:
    """Carry content through everything that runs in the block."""
    with keeping_literals(), WatchMath(run_with_values):
        yield


@contextmanager
def keeping_literals() -> Iterator[None]:
    """Keep the content of tensors made from Python numbers: no op is seen for them."""
    with WatchFunctions(_with_literals_on_cpu):
        yield


def _with_literals_on_cpu(func: Any, args: Any, kwargs: Any) -> Any:
    """Run a call; tensors from Python numbers are made on the CPU first."""
    if func in _INDEXING and args[0].device.type == "meta":
        args = (args[0], _lists_as_tensors(args[1]), *args[2:])
    out = func(*args, **kwargs)
    if func not in _FROM_NUMBERS or out.device.type != "meta":
        return out
    data = kwargs["data"] if "data" in kwargs else args[-1]
    tensors = tensors_in((data,))
    if isinstance(data, torch.Tensor) or any(
        value_of(each) is None for each in tensors
    ):
        return out
    known = tree_map_only(torch.Tensor, value_of, data)
    return _beside_meta(torch.tensor(known, dtype=out.dtype, device="cpu"))


_INDEXING = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
_FROM_NUMBERS = (torch.tensor, torch.as_tensor, torch.Tensor.new_tensor)


def _lists_as_tensors(index: Any) -> Any:
    """An index with its lists of numbers as tensors on the CPU."""
    if isinstance(index, tuple):
        return tuple(_lists_as_tensors(part) for part in index)
    if isinstance(index, list) and index and not tensors_in((index,)):
        return torch.tensor(index, device="cpu")
    return index
