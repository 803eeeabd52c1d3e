"""Many ops as columns of numbers, so that they are computed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.predict.machines.gpu.op import (
    Collective,
    ContextAttention,
    Gemm,
    GenerationAttention,
    Memory,
    Moe,
    Op,
)

__all__ = ["COLUMNS", "KINDS", "Floats", "OpColumns", "columns_of", "skew_of"]

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

KINDS: Mapping[type, str] = {
    Gemm: "gemm",
    ContextAttention: "context_attention",
    GenerationAttention: "generation_attention",
    Moe: "moe",
    Memory: "memory",
    Collective: "collective",
}
_HEADS = ("heads", "kv_heads", "head_dim", "window")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "context_attention": ("batch", "new", "past", *_HEADS),
    "generation_attention": ("batch", "context", *_HEADS),
    "moe": (
        "tokens", "hidden", "inter", "topk", "experts", "gated",
        "tensor_parallel", "expert_parallel", "skew",
    ),
    "memory": ("bytes_read", "bytes_written", "flops"),
    "collective": ("bytes", "ranks"),
}  # fmt: skip
"""Numbers of each kind of op, by name."""

_DTYPES = {
    Gemm: attrgetter("dtype"),
    Moe: attrgetter("dtype"),
    ContextAttention: attrgetter("cache_dtype"),
    GenerationAttention: attrgetter("cache_dtype"),
}
_READ = {
    type_: attrgetter(*(name for name in COLUMNS[kind] if name != "skew"))
    for type_, kind in KINDS.items()
}


@dataclass(frozen=True, slots=True)
class OpColumns:
    """Ops of one kind and dtype.

    Attributes:
        kind: A value of `KINDS`.
        dtype: Type of the weights, or of the cache; "" where there is none.
        columns: `COLUMNS` of the kind.
        places: Where in the list of all ops each one is.
    """

    kind: str
    dtype: str
    columns: Mapping[str, Floats]
    places: Places

    @property
    def key(self) -> str:
        """Kind and dtype as one word."""
        return f"{self.kind}/{self.dtype}"

    def at(self, rows: npt.NDArray[Any]) -> OpColumns:
        """Some of them.

        Args:
            rows: Which, as numbers or as a mask.
        """
        some = {name: column[rows] for name, column in self.columns.items()}
        return OpColumns(self.kind, self.dtype, some, self.places[rows])

    def __len__(self) -> int:
        return len(self.places)


def columns_of(ops: Sequence[Op]) -> list[OpColumns]:
    """Ops by kind and dtype, each as columns."""
    places: dict[tuple[type, str], list[int]] = {}
    for place, op in enumerate(ops):
        type_ = type(op)
        read = _DTYPES.get(type_)
        places.setdefault((type_, read(op) if read else ""), []).append(place)
    return [
        _columns(type_, dtype, [ops[place] for place in some], some)
        for (type_, dtype), some in places.items()
    ]


def _columns(
    type_: type, dtype: str, ops: Sequence[Op], places: Sequence[int]
) -> OpColumns:
    kind = KINDS[type_]
    read = _READ[type_]
    names = [name for name in COLUMNS[kind] if name != "skew"]
    numbers = chain.from_iterable(map(read, ops))
    flat = np.fromiter(numbers, dtype=np.float64, count=len(ops) * len(names))
    columns = dict(zip(names, flat.reshape(len(ops), -1).T, strict=True))
    if kind == "moe":
        words = [op.distribution for op in ops if isinstance(op, Moe)]
        skews = {word: skew_of(word) for word in set(words)}
        columns["skew"] = np.array([skews[word] for word in words])
    return OpColumns(kind, dtype, columns, np.array(places, dtype=np.intp))


def skew_of(distribution: str) -> float:
    """Exponent of the power law by which tokens choose experts; 0 if balanced."""
    prefix = "power_law_"
    return (
        float(distribution[len(prefix) :]) if distribution.startswith(prefix) else 0.0
    )
