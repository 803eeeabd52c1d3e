"""Tensors of a graph of ONNX without their content, and what runs for a node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        named = {
            "kernel_size": self.given.get("kernel_shape"),
            "transposed": self.given.get("transposed", False),
        }
        call = Call(f"aten.{name}", read, made, (), named)
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
