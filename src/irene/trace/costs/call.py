"""What a cost formula sees of one call, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from irene.tree import Signature, TreeBuilder

if TYPE_CHECKING:
    import torch

DTYPE_NAMES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64",
}  # fmt: skip


def dtype_name(dtype: torch.dtype) -> str:
    """Short name of a dtype: `fp32`, `bf16`, `int64`, `bool`, …."""
    name = str(dtype).removeprefix("torch.")
    return DTYPE_NAMES.get(name, name)


class OpCost(NamedTuple):
    """Cost of one op.

    Attributes:
        flops: Floating-point operations; a multiply-add is two.
        bytes_read: Bytes read from memory, each input once.
        bytes_written: Bytes written to memory.
    """

    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True)
class Leaf:
    """A math op before it has its place in the tree."""

    name: str
    op: str
    signature: Signature
    cost: OpCost

    def add_to(self, builder: TreeBuilder, parent: int) -> None:
        """Append as the last child, numbered by its position."""
        place = len(builder.rows[parent].children)
        builder.add(
            parent,
            f"{self.name}_{place}" if place else self.name,
            "math",
            self.op,
            signature=self.signature,
            **self.cost._asdict(),
        )


class TensorSpec(NamedTuple):
    """Shape and type of a tensor.

    Attributes:
        shape: Sizes.
        dtype: The torch dtype, or what has its size and kind.
        stored: Distinct elements in memory: an expanded dimension counts once.
    """

    shape: tuple[int, ...]
    dtype: Any
    stored: int

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorSpec:
        """The spec of a tensor."""
        import torch

        shape = tuple(tensor.shape)
        if tensor.layout is not torch.strided:
            return cls(shape, tensor.dtype, prod(shape))
        sizes = zip(shape, tensor.stride(), strict=True)
        return cls(shape, tensor.dtype, prod(n for n, stride in sizes if stride))

    @property
    def numel(self) -> int:
        """Number of elements, expanded ones included."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the distinct elements."""
        return int(self.stored * self.dtype.itemsize)

    @property
    def is_float(self) -> bool:
        """True for floating-point and complex types."""
        return bool(self.dtype.is_floating_point or self.dtype.is_complex)


@dataclass(slots=True)
class Call:
    """One call of an op.

    Attributes:
        op: Name that the formula is registered under.
        inputs: Tensors among the arguments, in order, nested lists flattened.
        outputs: Tensors in the result.
        args: Positional arguments as they were given.
        kwargs: Keyword arguments as they were given.
        module: The module, when the op is a module.
    """

    op: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    module: torch.nn.Module | None = None

    @property
    def weights(self) -> list[TensorSpec]:
        """Parameters of the module, none for a function."""
        if self.module is None:
            return []
        return [TensorSpec.of(p) for p in self.module.parameters(recurse=False)]

    @property
    def bytes_in(self) -> int:
        """Bytes of all inputs and weights."""
        return sum(spec.bytes for spec in (*self.inputs, *self.weights))

    @property
    def bytes_out(self) -> int:
        """Bytes of all outputs."""
        return sum(spec.bytes for spec in self.outputs)

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument by position or name."""
        if len(self.args) > position:
            return self.args[position]
        return self.kwargs.get(name, default)

    def streamed(self, flops: int) -> OpCost:
        """Every input read once, every output written once, this many FLOPs."""
        return OpCost(flops, self.bytes_in, self.bytes_out)

    def result_only(self, flops: int) -> OpCost:
        """The same, but of several outputs only the first is counted.

        For ops whose further outputs (statistics, indices for a backward pass) are
        small and differ from device to device.
        """
        return OpCost(flops, self.bytes_in, self.outputs[0].bytes)


Formula = Callable[[Call], OpCost]


def tensors_in(values: Iterable[Any], depth: int = 4) -> list[torch.Tensor]:
    """All tensors in nested lists, tuples and dictionaries, in order."""
    import torch

    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif depth and isinstance(value, (list, tuple)):
            found += tensors_in(value, depth - 1)
        elif depth and isinstance(value, Mapping):
            found += tensors_in(value.values(), depth - 1)
    return found
