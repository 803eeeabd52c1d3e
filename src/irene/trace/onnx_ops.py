"""Ops of ONNX as the functions and math ops of torch: one table.

Shapes are worked out by onnx itself; here is what runs, and what is copied for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from irene.trace.costs.arithmetic import elementwise
from irene.trace.costs.call import DTYPE_NAMES, Call, Leaf, OpCost, TensorSpec
from irene.trace.costs.cost_table import COSTS
from irene.tree import Signature

VIEWS = (
    "_unsafe_view", "expand", "permute", "select", "slice", "split", "squeeze", "t",
    "unsqueeze", "view",
)  # fmt: skip
"""Math ops that move nothing."""
POINTWISE = elementwise(1)
Shapes = tuple[tuple[int, ...], ...]


class Kind(NamedTuple):
    """The type of a tensor's elements, as formulas of costs ask for it.

    Attributes:
        name: `fp32`, `int64`, ….
        itemsize: Bytes of an element; one for those of fewer bits.
        is_floating_point: Whether FLOPs count.
        is_complex: Whether it has two parts.
        number: What ONNX calls it.
    """

    name: str
    itemsize: int
    is_floating_point: bool
    is_complex: bool
    number: int


@cache
def kind_of(dtype: Any) -> Kind:
    """The kind of a type of numpy, or of a number that means one in ONNX."""
    helper: Any = import_module("onnx.helper")
    number = dtype
    if isinstance(dtype, int):
        dtype = helper.tensor_dtype_to_np_dtype(number)
    else:
        number = helper.np_dtype_to_tensor_dtype(dtype)
    name = DTYPE_NAMES.get(dtype.name, dtype.name)
    is_float = "float" in dtype.name
    return Kind(name, dtype.itemsize, is_float, dtype.kind == "c", number)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor without content.

    Attributes:
        shape: Its sizes.
        kind: Of its elements.
        is_dense: Whether they lie side by side in order.
        repeats: How often an element is there that is stored once.
    """

    shape: tuple[int, ...]
    kind: Kind
    is_dense: bool = True
    repeats: int = 1

    @property
    def spec(self) -> TensorSpec:
        """As formulas of costs see it."""
        stored = math.prod(self.shape) // max(1, self.repeats)
        return TensorSpec(self.shape, self.kind, stored)


class Node:
    """What runs for one node of a graph.

    Args:
        inputs: Tensors, and arrays of numpy where they are known.
        given: Attributes of the node.
        outputs: What comes out, in order and stored once, as far as onnx can say.

    Attributes:
        primitives: Functions of torch, shapes of their inputs, and the math ops that
            each runs.
    """

    def __init__(
        self, inputs: list[Any], given: Mapping[str, Any], outputs: list[Tensor]
    ) -> None:
        self.inputs, self.given, self.outputs = inputs, given, outputs
        self.primitives: list[tuple[str, Shapes, list[Leaf]]] = []

    @property
    def tensors(self) -> list[Tensor]:
        """Inputs that are no single numbers."""
        return [t for t in map(as_tensor, self.inputs) if isinstance(t, Tensor)]

    def call(self, function: str, inputs: Sequence[Tensor]) -> None:
        """Math ops that follow are of this function."""
        self.primitives.append((function, _shapes(inputs), []))

    def run(self, name: str, inputs: Sequence[Tensor], *outputs: Tensor) -> Tensor:
        """One math op; its first result."""
        read, made = ([t.spec for t in each] for each in (inputs, outputs))
        window = {"kernel_size": self.given.get("kernel_shape")}
        call = Call(f"aten.{name}", read, made, (), window)
        formula = COSTS.get(call.op, POINTWISE)
        cost = OpCost() if name in VIEWS else formula(call)
        kind = outputs[0].kind.name
        signature = Signature(_shapes(inputs), _shapes(outputs), kind)
        self.primitives[-1][2].append(Leaf(name, call.op, signature, cost))
        return outputs[0]

    def reshaped(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Other sizes; what does not lie in order is copied first."""
        new = Tensor(tuple(shape), x.kind)
        if x.is_dense:
            return self.run("view", [x], new)
        copied = self.run("clone", [x], Tensor(x.shape, x.kind))
        return self.run("_unsafe_view", [copied], new)


def _shapes(tensors: Sequence[Tensor]) -> Shapes:
    return tuple(tensor.shape for tensor in tensors)


def as_tensor(value: Any) -> Any:
    """An array as a tensor; a single number, and what is none, stays."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    return Tensor(value.shape, kind_of(value.dtype))


Op = Callable[[Node], Any]


def _plain(function: str, math_op: str = "", takes: int | None = None) -> Op:
    """A function of all inputs, or of the first ones, that runs one math op."""

    def op(node: Node) -> None:
        tensors = node.tensors[:takes]
        if tensors != node.outputs or math_op != "_to_copy":
            node.call(function, tensors)
            node.run(math_op or function, tensors, *node.outputs)

    return op


def _point(function: str) -> Op:
    """One of element by element: the result lies as what it is made of."""

    def op(node: Node) -> list[Tensor]:
        node.call(function, node.tensors)
        out = node.outputs[0]
        lies = all(t.is_dense for t in node.tensors if t.shape == out.shape)
        return [node.run(function, node.tensors, replace(out, is_dense=lies))]

    return op


def _viewed(function: str, math_op: str = "") -> Op:
    """Parts or other sides of a tensor, where they lie."""

    def op(node: Node) -> list[Tensor]:
        x, order = node.tensors[0], node.given.get("perm")
        if function == "permute":
            axes = order or reversed(range(len(x.shape)))
            moved = [axis for axis in axes if x.shape[axis] != 1]
            lies = moved == sorted(moved)
        else:
            pairs = zip(x.shape, node.outputs[0].shape, strict=False)
            before = next((i for i, (m, n) in enumerate(pairs) if m != n), 0)
            lies = function.endswith("squeeze") or math.prod(x.shape[:before]) == 1
        lies = x.is_dense and (lies or node.outputs[0].shape == x.shape)
        outputs = [replace(o, is_dense=lies) for o in node.outputs]
        if function == "expand":
            wide = math.prod(outputs[0].shape) // max(1, math.prod(x.shape))
            outputs = [replace(o, repeats=x.repeats * wide) for o in outputs]
        node.call(function, [x])
        node.run(math_op or function, [x], *outputs)
        return outputs

    return op


def _reshaped(node: Node) -> None:
    node.call("reshape", node.tensors[:1])
    node.reshaped(node.tensors[0], node.outputs[0].shape)


def _matmul(node: Node) -> None:
    """As torch has it: a product of matrices, or of as many as there are."""
    a, b = node.tensors[:2]
    out = node.outputs[0]
    node.call("matmul", [a, b])
    if len(a.shape) == len(b.shape) == 2:
        node.run("mm", [a, b], out)
        return
    rows, inner = (1, *a.shape)[-2:]
    columns = (*b.shape, 1)[1] if len(b.shape) < 3 else b.shape[-1]
    if len(b.shape) < 3:
        a = node.reshaped(a, (math.prod(a.shape) // inner, inner))
        b = b if len(b.shape) == 2 else node.reshaped(b, (inner, 1))
        found = Tensor((a.shape[0], columns), out.kind)
        node.run("mm", [a, b], found)
    else:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        whole = []
        for x, ends in ((a, (rows, inner)), (b, (inner, columns))):
            times = math.prod((*batch, *ends)) // max(1, math.prod(x.shape))
            wide = replace(x, shape=(*batch, *ends), repeats=x.repeats * times,
                           is_dense=x.is_dense and times == 1)  # fmt: skip
            node.run("expand", [x], wide)
            whole.append(node.reshaped(wide, (math.prod(batch), *ends)))
        found = Tensor((math.prod(batch), rows, columns), out.kind)
        node.run("bmm", whole, found)
    node.run("_unsafe_view", [found], out)


def _linear(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
    """A product with a weight as layers store it."""
    out = node.outputs[0]
    node.call("linear", [x, weight] if bias is None else [x, weight, bias])
    turned = node.run("t", [weight], replace(weight, shape=weight.shape[::-1]))
    flat = Tensor((math.prod(out.shape[:-1]), out.shape[-1]), out.kind)
    if len(x.shape) > 2:
        x = node.reshaped(x, (flat.shape[0], x.shape[-1]))
    if bias is None:
        node.run("mm", [x, turned], flat)
    else:
        node.run("addmm", [bias, x, turned], flat)
    if flat.shape != out.shape:
        node.run("view", [flat], out)


def _gemm(node: Node) -> None:
    a, b, *rest = node.tensors
    if node.given.get("transA"):
        node.call("t", [a])
        a = node.run("t", [a], replace(a, shape=a.shape[::-1]))
    weight = b if node.given.get("transB") else replace(b, shape=b.shape[::-1])
    fits = [bias for bias in rest if bias.shape == weight.shape[:1]]
    _linear(node, a, weight, *fits)
    if rest and not fits:
        node.call("add", [*node.outputs, *rest])
        node.run("add", [*node.outputs, *rest], *node.outputs)


def _gathered(node: Node) -> Any:
    index = node.inputs[1]
    if isinstance(index, np.ndarray) and not index.ndim:
        return _viewed("select")(node)
    x, axis = node.tensors[0], node.given.get("axis", 0)
    is_table = axis == 0 and len(x.shape) == 2
    return _plain("embedding" if is_table else "index_select")(node)


def _pooled(name: str, of_several: str) -> Op:
    def op(node: Node) -> None:
        sides = len(node.outputs[0].shape) - 2
        of = f"{name}{sides}d"
        _plain(of, of if sides == 1 else of + of_several)(node)

    return op


def _convolved(node: Node) -> None:
    _plain(f"conv{len(node.outputs[0].shape) - 2}d", "convolution")(node)


def _dequantized(node: Node) -> None:
    node.call("to", node.tensors[:1])
    node.run("_to_copy", node.tensors[:1], node.outputs[0])
    node.call("mul", node.outputs)
    node.run("mul", node.outputs, *node.outputs)


def _integer_product(node: Node) -> None:
    out = node.outputs[0]
    few = replace(out, kind=node.tensors[0].kind)
    _matmul(node)
    node.call("to", [few])
    node.run("_to_copy", [few], out)


def _product_of_few_bits(node: Node) -> list[Tensor]:
    """Weights are read as they are stored, turned to what is multiplied with them."""
    x, stored = node.tensors[:2]
    weight = Tensor((node.given["N"], node.given["K"]), x.kind)
    node.outputs = [Tensor((*x.shape[:-1], weight.shape[0]), x.kind)]
    node.call("to", [stored])
    node.run("_to_copy", [stored], weight)
    _linear(node, x, weight)
    return node.outputs


OPS: dict[str, Op] = {
    **{name: _point(name.lower()) for name in (
        "Abs", "Add", "Ceil", "Cos", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu",
        "HardSigmoid", "HardSwish", "IsNaN", "Log", "Mul", "Neg", "Pow", "Reciprocal",
        "Relu", "Sigmoid", "Sin", "Sqrt", "Sub", "Tanh", "Where",
    )},
    **{name: _point(torchs) for name, torchs in (
        ("And", "logical_and"), ("Clip", "clamp"), ("Equal", "eq"), ("Greater", "gt"),
        ("GreaterOrEqual", "ge"), ("LeakyRelu", "leaky_relu"), ("Less", "lt"),
        ("LessOrEqual", "le"), ("Max", "maximum"), ("Min", "minimum"),
        ("Not", "logical_not"), ("Or", "logical_or"),
    )},
    "AveragePool": _pooled("avg_pool", ""),
    "BatchNormalization": _plain("batch_norm", "_native_batch_norm_legit_no_training"),
    "Cast": _plain("to", "_to_copy"), "Concat": _plain("cat"), "Conv": _convolved,
    "DequantizeLinear": _dequantized, "Dropout": lambda node: node.tensors[:1],
    "DynamicQuantizeLinear": _plain("to", "_to_copy"), "Expand": _viewed("expand"),
    "Flatten": _reshaped, "Gather": _gathered, "Gemm": _gemm,
    "GlobalAveragePool": _plain("adaptive_avg_pool2d", "mean"),
    "Identity": lambda node: node.tensors[:1],
    "LayerNormalization": _plain("layer_norm", "native_layer_norm"),
    "MatMul": _matmul, "MatMulInteger": _integer_product,
    "MatMulNBits": _product_of_few_bits,
    "MaxPool": _pooled("max_pool", "_with_indices"),
    "QuantizeLinear": _plain("to", "_to_copy"), "Reshape": _reshaped,
    "ReduceMax": _plain("amax", takes=1), "ReduceMean": _plain("mean", takes=1),
    "ReduceSum": _plain("sum", takes=1),
    "Slice": _viewed("getitem", "slice"), "Softmax": _plain("softmax", "_softmax"),
    "Split": _viewed("split"), "Squeeze": _viewed("squeeze"),
    "Transpose": _viewed("permute"), "Trilu": _plain("triu"),
    "Unsqueeze": _viewed("unsqueeze"),
}  # fmt: skip
"""What runs for an op; gives what comes out where that does not lie in order."""
