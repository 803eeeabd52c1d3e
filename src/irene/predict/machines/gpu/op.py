"""What a GPU is asked to run: one value per kind of kernel, with its shapes.

The values say nothing of time or energy. `irene.predict.machines.gpu` reads them off
the nodes of a serving tree, and its leaf models answer for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "Collective",
    "ContextAttention",
    "Gemm",
    "GenerationAttention",
    "Memory",
    "Moe",
    "Op",
    "WeightType",
]

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
class Moe:
    """The fused experts of a layer: gate, up and down of `topk` of `experts`.

    `gated` experts have three matrices, others two.
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


Op = Gemm | ContextAttention | GenerationAttention | Moe | Memory | Collective
