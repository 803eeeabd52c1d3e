"""What a GPU is asked to run, one value per kind of kernel, and many as columns.

The values say nothing of time or energy. `irene.predict.machines.gpu` reads them off
the nodes of a tree, brings those of one kind into columns of numbers, so that they are
computed at once, and its models of kernels answer for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats

WeightType = Literal["bf16", "fp8", "fp8_block", "fp4", "mxfp4", "int4"]
"""How factors are stored and multiplied; fp16 counts as bf16."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """`(m, k) × (k, n)`, as in a linear layer of `m` tokens."""

    m: int
    n: int
    k: int
    dtype: WeightType = "bf16"


@dataclass(frozen=True, slots=True)
class ContextAttention:
    """Attention of `new` tokens of each sequence, after `past` that are cached."""

    batch: int
    new: int
    past: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int = 0
    cache_dtype: WeightType = "bf16"


@dataclass(frozen=True, slots=True)
class LatentPrompt(ContextAttention):
    """The same with keys and values unfolded from one small vector of each token.

    They are bf16, whatever the vector is kept in. Keys are wider than values:
    `head_dim` is the mean of both.
    """


@dataclass(frozen=True, slots=True)
class GenerationAttention:
    """Attention of one new token of each sequence against `context` in the cache."""

    batch: int
    context: float
    heads: int
    kv_heads: int
    head_dim: int
    window: int = 0
    cache_dtype: WeightType = "bf16"


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Decoding against a cache of one vector for all heads, of `rank` + `rope` wide.

    Queries are in its space; values are the first `rank` numbers.
    """

    batch: int
    context: float
    heads: int
    rank: int = 512
    rope: int = 64
    cache_dtype: WeightType = "bf16"


@dataclass(frozen=True, slots=True)
class Moe:
    """The fused experts of a layer: gate, up and down of `topk` of `experts`.

    `gated` experts have three matrices, others two. Over several GPUs an expert is cut
    into `tensor_parallel` parts, or whole experts lie on `expert_parallel` GPUs.
    """

    tokens: int
    hidden: int
    inter: int
    topk: int
    experts: int
    dtype: WeightType = "bf16"
    gated: bool = True
    distribution: str = "balanced"
    tensor_parallel: int = 1
    expert_parallel: int = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """Anything that only moves bytes: norms, rotary, activations, cache writes."""

    bytes_read: float
    bytes_written: float
    flops: float = 0.0


@dataclass(frozen=True, slots=True)
class Collective:
    """An all-reduce of `bytes` between `ranks` GPUs."""

    bytes: float
    ranks: int


@dataclass(frozen=True, slots=True)
class GatherScatter(Collective):
    """An all-gather to `bytes` on each of `ranks` GPUs, and a reduce-scatter."""


Op = (
    Gemm
    | ContextAttention
    | GenerationAttention
    | LatentAttention
    | Moe
    | Memory
    | Collective
)


Places = npt.NDArray[np.intp]

KINDS: Mapping[type, str] = {
    Gemm: "gemm",
    ContextAttention: "context_attention",
    LatentPrompt: "latent_prompt",
    GenerationAttention: "generation_attention",
    LatentAttention: "latent_attention",
    Moe: "moe",
    Memory: "memory",
    Collective: "all_reduce",
    GatherScatter: "gather_scatter",
}
_WORDS = ("dtype", "cache_dtype", "distribution")
_NUMBERS: Mapping[type, tuple[str, ...]] = {
    type_: tuple(f.name for f in fields(type_) if f.name not in _WORDS)
    for type_ in KINDS
}
COLUMNS: Mapping[str, tuple[str, ...]] = {
    KINDS[type_]: names + (("skew",) if type_ is Moe else ())
    for type_, names in _NUMBERS.items()
}
"""Numbers of each kind of op, by name."""


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
        """Some of them, given as numbers or as a mask."""
        some = {name: column[rows] for name, column in self.columns.items()}
        return OpColumns(self.kind, self.dtype, some, self.places[rows])

    def __len__(self) -> int:
        return len(self.places)


def columns_of(ops: Sequence[Op]) -> list[OpColumns]:
    """Ops by kind and dtype, each as columns."""
    places: dict[tuple[type, str], list[int]] = {}
    for place, op in enumerate(ops):
        dtype = str(getattr(op, "dtype", getattr(op, "cache_dtype", "")))
        places.setdefault((type(op), dtype), []).append(place)
    return [
        _columns(type_, dtype, [ops[place] for place in some], some)
        for (type_, dtype), some in places.items()
    ]


def _columns(
    type_: type, dtype: str, ops: Sequence[Op], places: Sequence[int]
) -> OpColumns:
    names = _NUMBERS[type_]
    numbers = chain.from_iterable(map(attrgetter(*names), ops))
    flat = np.fromiter(numbers, dtype=np.float64, count=len(ops) * len(names))
    columns = dict(zip(names, flat.reshape(len(ops), -1).T, strict=True))
    if type_ is Moe:
        words = [op.distribution for op in ops if isinstance(op, Moe)]
        skews = {word: skew_of(word) for word in set(words)}
        columns["skew"] = np.array([skews[word] for word in words])
    return OpColumns(KINDS[type_], dtype, columns, np.array(places, dtype=np.intp))


def skew_of(distribution: str) -> float:
    """Exponent of the power law by which tokens choose experts; 0 if balanced."""
    prefix = "power_law_"
    return (
        float(distribution[len(prefix) :]) if distribution.startswith(prefix) else 0.0
    )
