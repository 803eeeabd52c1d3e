"""Ops of ONNX as functions of torch: one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from irene.trace.wrapped import linear_as_stored

Given = Mapping[str, Any]
Op = Callable[[list[Any], Given], Any]


def dtype_of(kind: int) -> torch.dtype:
    """The type of torch that a number of ONNX means; bytes for those of few bits."""
    onnx: Any = import_module("onnx")
    name = onnx.TensorProto.DataType.Name(kind).lower()
    name = {"float": "float32", "double": "float64"}.get(name, name)
    found = getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else torch.uint8


def _tensor(value: Any, like: torch.Tensor | None = None) -> Any:
    """An array as a tensor beside others; what is none stays."""
    if not isinstance(value, np.ndarray):
        return value
    if value.ndim == 0:
        return value.item()
    device = "meta" if like is None else like.device
    return torch.empty(value.shape, dtype=_same(value), device=device)


def _same(value: Any) -> torch.dtype:
    return torch.from_numpy(np.zeros(1, value.dtype)).dtype


def _of(function: Callable[..., Any]) -> Op:
    """A function that takes the inputs as they come."""

    def run(inputs: list[Any], given: Given) -> Any:
        like = next(x for x in inputs if isinstance(x, torch.Tensor))
        return function(*(_tensor(x, like) for x in inputs))

    return run


def _ints(value: Any) -> list[int]:
    return [int(x) for x in np.asarray(value).reshape(-1)]


def _axes(inputs: list[Any], given: Given, at: int = 1) -> list[int] | None:
    """Axes as an input, as newer versions have them, or as an attribute."""
    if len(inputs) > at and inputs[at] is not None:
        return _ints(inputs[at])
    return list(given["axes"]) if "axes" in given else None


def _reduced(function: Callable[..., Any]) -> Op:
    def run(inputs: list[Any], given: Given) -> Any:
        dims = _axes(inputs, given) or list(range(inputs[0].dim()))
        return function(inputs[0], dim=dims, keepdim=bool(given.get("keepdims", 1)))

    return run


def _gemm(inputs: list[Any], given: Given) -> Any:
    a, b = (_tensor(x) for x in inputs[:2])
    a = a.t() if given.get("transA") else a
    b = b if given.get("transB") else b.t()
    bias = _tensor(inputs[2]) if len(inputs) > 2 else None
    if isinstance(bias, torch.Tensor) and bias.dim() == 1:
        return functional.linear(a, b, bias)
    product = functional.linear(a, b)
    return product if bias is None else product + bias


def _padded(x: Any, sides: Sequence[int], given: Given) -> tuple[Any, list[int]]:
    """What a window of such sides goes over, and how far it reaches beyond."""
    count = len(sides)
    strides, wide = (given.get(n, [1] * count) for n in ("strides", "dilations"))
    pads = list(given.get("pads", [0] * 2 * count))
    if given.get("auto_pad", b"NOTSET").startswith(b"SAME"):
        pads = [0] * 2 * count
        for i, (side, step, apart) in enumerate(zip(sides, strides, wide, strict=True)):
            length = x.shape[2 + i]
            reach = (-(-length // step) - 1) * step + (side - 1) * apart + 1
            beyond = max(0, reach - length)
            pads[i], pads[count + i] = beyond // 2, beyond - beyond // 2
    if pads[:count] == pads[count:]:
        return x, pads[:count]
    ends = [p for i in reversed(range(count)) for p in (pads[i], pads[count + i])]
    return functional.pad(x, ends), [0] * count


def _conv(inputs: list[Any], given: Given) -> Any:
    weight = _tensor(inputs[1])
    bias = _tensor(inputs[2]) if len(inputs) > 2 else None
    sides = list(weight.shape[2:])
    x, pads = _padded(inputs[0], sides, given)
    names = (functional.conv1d, functional.conv2d, functional.conv3d)
    return names[len(sides) - 1](
        x, weight, bias, given.get("strides", 1), pads, given.get("dilations", 1),
        given.get("group", 1),
    )  # fmt: skip


def _pooled(kind: str) -> Op:
    def run(inputs: list[Any], given: Given) -> Any:
        sides = list(given["kernel_shape"])
        x, pads = _padded(inputs[0], sides, given)
        if any(2 * pad > side for pad, side in zip(pads, sides, strict=True)):
            x = functional.pad(x, [p for pad in reversed(pads) for p in (pad, pad)])
            pads = [0] * len(sides)
        more: dict[str, Any] = {"ceil_mode": bool(given.get("ceil_mode", 0))}
        if kind == "max":
            more["dilation"] = given.get("dilations", 1)
        function = getattr(functional, f"{kind}_pool{len(sides)}d")
        return function(x, sides, given.get("strides", 1), pads, **more)

    return run


def _flat(inputs: list[Any], given: Given) -> Any:
    x, axis = inputs[0], given.get("axis", 1)
    return x.reshape(math.prod(x.shape[:axis]), -1)


def _folded(function: Callable[[Any, Any], Any]) -> Op:
    """Of any number of inputs."""

    def run(inputs: list[Any], given: Given) -> Any:
        like = next(x for x in inputs if isinstance(x, torch.Tensor))
        tensors = (torch.as_tensor(_tensor(x, like)) for x in inputs)
        return reduce(function, tensors)

    return run


def _reshape(inputs: list[Any], given: Given) -> Any:
    x, sides = inputs[0], _ints(inputs[1])
    return x.reshape(
        [x.shape[i] if side == 0 else side for i, side in enumerate(sides)]
    )


def _slice(inputs: list[Any], given: Given) -> Any:
    x = inputs[0]
    starts, ends = (
        _ints(inputs[i]) if len(inputs) > i else list(given[name])
        for i, name in ((1, "starts"), (2, "ends"))
    )
    axes = _axes(inputs, given, 3) or list(range(len(starts)))
    steps = _ints(inputs[4]) if len(inputs) > 4 else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 0:
            raise ValueError("a slice backwards is not known")
        index = [slice(None)] * x.dim()
        index[axis] = slice(start, min(end, x.shape[axis]), step)
        x = x[tuple(index)]
    return x


def _split(inputs: list[Any], given: Given) -> Any:
    x, axis = inputs[0], given.get("axis", 0)
    sizes = _axes(inputs, {"axes": given["split"]} if "split" in given else {})
    if sizes is None:
        return x.chunk(given.get("num_outputs", 2), axis)
    return x.split(sizes, axis)


def _squeezed(inputs: list[Any], given: Given) -> Any:
    axes = _axes(inputs, given)
    return inputs[0].squeeze() if axes is None else inputs[0].squeeze(tuple(axes))


def _unsqueezed(inputs: list[Any], given: Given) -> Any:
    x = inputs[0]
    for axis in sorted(_axes(inputs, given) or []):
        x = x.unsqueeze(axis)
    return x


def _expand(inputs: list[Any], given: Given) -> Any:
    sides = np.broadcast_shapes(tuple(_ints(inputs[1])), tuple(inputs[0].shape))
    return inputs[0].expand(sides)


def _gather(inputs: list[Any], given: Given) -> Any:
    like = next(x for x in inputs if isinstance(x, torch.Tensor))
    x, axis = _tensor(inputs[0], like), given.get("axis", 0)
    if isinstance(inputs[1], np.ndarray) and inputs[1].ndim == 0:
        return x.select(axis, int(inputs[1]))
    index = _tensor(inputs[1], like)
    if axis == 0 and x.dim() == 2:
        return functional.embedding(index.long(), x)
    taken = x.index_select(axis, index.reshape(-1).long())
    return taken.reshape(*x.shape[:axis], *index.shape, *x.shape[axis:][1:])


def _normed(inputs: list[Any], given: Given) -> Any:
    x, axis = inputs[0], given.get("axis", -1)
    weight, bias = (_tensor(v) for v in (*inputs[1:3], None)[:2])
    return functional.layer_norm(x, x.shape[axis:], weight, bias)


def _batch_normed(inputs: list[Any], given: Given) -> Any:
    x, weight, bias, mean, var = (_tensor(v) for v in inputs[:5])
    return functional.batch_norm(x, mean, var, weight, bias)


def _cast(inputs: list[Any], given: Given) -> Any:
    return inputs[0].to(dtype_of(given["to"]))


def _dequantized(inputs: list[Any], given: Given) -> Any:
    return inputs[0].to(torch.float32) * _scalar(inputs[1])


def _scalar(value: Any) -> Any:
    found = _tensor(value)
    return found if not isinstance(found, torch.Tensor) or found.dim() == 0 else 1.0


def _quantized(inputs: list[Any], given: Given) -> Any:
    whole = inputs[0].to(torch.uint8)
    return whole, np.array(1.0, np.float32), np.array(0, np.uint8)


def _integer_product(inputs: list[Any], given: Given) -> Any:
    a, b = (_tensor(x).to(torch.int8) for x in inputs[:2])
    return torch.matmul(a, b).to(torch.int32)


def _where(inputs: list[Any], given: Given) -> Any:
    like = next(x for x in inputs if isinstance(x, torch.Tensor))
    test, a, b = (_tensor(x, like) for x in inputs)
    if not isinstance(test, torch.Tensor):
        test = torch.empty((), dtype=torch.bool, device=like.device)
    return torch.where(test.bool(), a, b)


OPS: dict[str, Op] = {
    "Abs": _of(torch.abs), "Add": _of(torch.add), "And": _of(torch.logical_and),
    "AveragePool": _pooled("avg"), "BatchNormalization": _batch_normed, "Cast": _cast,
    "Ceil": _of(torch.ceil), "Clip": lambda i, g: i[0].clamp(-1.0, 1.0),
    "Concat": lambda i, g: torch.cat([_tensor(x) for x in i], g["axis"]),
    "Conv": _conv, "Cos": _of(torch.cos), "DequantizeLinear": _dequantized,
    "Div": _of(torch.div), "Dropout": lambda i, g: i[0],
    "DynamicQuantizeLinear": _quantized, "Elu": lambda i, g: functional.elu(i[0]),
    "Equal": _of(torch.eq), "Erf": _of(torch.erf), "Exp": _of(torch.exp),
    "Expand": _expand, "Flatten": _flat,
    "Floor": _of(torch.floor), "Gather": _gather, "Gemm": _gemm,
    "Gelu": lambda i, g: functional.gelu(i[0]),
    "GlobalAveragePool": lambda i, g: functional.adaptive_avg_pool2d(i[0], 1),
    "Greater": _of(torch.gt), "GreaterOrEqual": _of(torch.ge),
    "HardSigmoid": lambda i, g: functional.hardsigmoid(i[0]),
    "HardSwish": lambda i, g: functional.hardswish(i[0]),
    "Identity": lambda i, g: i[0], "IsNaN": _of(torch.isnan),
    "LayerNormalization": _normed,
    "LeakyRelu": lambda i, g: functional.leaky_relu(i[0]), "Less": _of(torch.lt),
    "LessOrEqual": _of(torch.le), "Log": _of(torch.log), "MatMul": _of(torch.matmul),
    "MatMulInteger": _integer_product,
    "MatMulNBits": lambda i, g: linear_as_stored(i[0], i[1], (g["N"], g["K"])),
    "Max": _folded(torch.maximum), "MaxPool": _pooled("max"),
    "Min": _folded(torch.minimum),
    "Mul": _of(torch.mul), "Neg": _of(torch.neg), "Not": _of(torch.logical_not),
    "Or": _of(torch.logical_or), "Pow": _of(torch.pow),
    "QuantizeLinear": lambda i, g: i[0].to(torch.uint8),
    "Reciprocal": _of(torch.reciprocal), "ReduceMax": _reduced(torch.amax),
    "ReduceMean": _reduced(torch.mean), "ReduceSum": _reduced(torch.sum),
    "Relu": lambda i, g: functional.relu(i[0]), "Reshape": _reshape,
    "Sigmoid": _of(torch.sigmoid), "Sin": _of(torch.sin), "Slice": _slice,
    "Softmax": lambda i, g: functional.softmax(i[0], g.get("axis", -1)),
    "Split": _split, "Sqrt": _of(torch.sqrt), "Squeeze": _squeezed,
    "Sub": _of(torch.sub), "Tanh": _of(torch.tanh),
    "Transpose": lambda i, g: i[0].permute(
        g.get("perm", list(reversed(range(i[0].dim()))))
    ),
    "Trilu": lambda i, g: (torch.triu if g.get("upper", 1) else torch.tril)(i[0]),
    "Unsqueeze": _unsqueezed, "Where": _where,
}  # fmt: skip
"""What runs for an op; inputs are tensors, or arrays of numpy where they are known."""
