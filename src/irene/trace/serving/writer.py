"""Writing ops of a step as nodes, with shapes from which they can be read again.

What an op computes and moves is counted from its shapes. A multiply-add is two FLOPs.
Weights and the part of the KV cache that is looked at are read once per step,
activations are written and read once by every op. Tokens that run `beside` others find
the weights already read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from irene.trace.serving.decoder import FeedForward
from irene.trace.serving.gguf import GGUF_BYTES
from irene.trace.serving.step import Step
from irene.tree import Signature, TreeBuilder

ACTIVATION_BYTES = 2
WEIGHT_BYTES: Mapping[str, float] = {
    "fp32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0 + 4 / 128**2,
    "fp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
    "int4": 0.5 + 2 / 128,
    **GGUF_BYTES,
}
"""Bytes of a stored number with its share of the scales."""

GAP = "host_gap"
"""Op of the node that stands for the time between kernels."""

Shapes = Sequence[tuple[int, ...]]


class Work(NamedTuple):
    """FLOPs and bytes of one op."""

    flops: float
    bytes_read: float
    bytes_written: float


class StepWriter:
    """Appends nodes of one step.

    Shapes are those of one rank and one run; costs are of all ranks and runs. How many
    runs, ranks and tokens beside there are is kept in `features`, by row of the
    builder, where it is not the usual one.

    Attributes:
        owns: Whether weights are counted; not where another layer has them.
    """

    def __init__(
        self, builder: TreeBuilder, step: Step, dtype: str, cache_dtype: str
    ) -> None:
        self.builder = builder
        self.step = step
        self.dtype = dtype
        self.cache_dtype = cache_dtype
        self.owns = True
        self.features: dict[int, dict[str, float]] = {}

    def module(self, parent: int, name: str, op: str) -> int:
        """A node that only holds others."""
        return self.builder.add(parent, name, "module", op)

    def linear(
        self,
        parent: int,
        name: str,
        n: int,
        k: int,
        *,
        params: int,
        weight_type: str = "",
        op: str = "linear",
        tokens: int | None = None,
    ) -> None:
        """`(tokens, k) × (k, n)` on every rank."""
        tokens = self.step.tokens if tokens is None else tokens
        kind = weight_type or self.dtype
        weights = 0.0 if self.step.beside else n * k * WEIGHT_BYTES[kind]
        work = Work(
            2.0 * tokens * n * k,
            weights + ACTIVATION_BYTES * tokens * k,
            ACTIVATION_BYTES * tokens * n,
        )
        shapes = ((tokens, k), (n, k))
        self._op(parent, name, op, shapes, ((tokens, n),), kind, work, params)

    def moe(
        self,
        parent: int,
        name: str,
        hidden: int,
        inter: int,
        feed: FeedForward,
        *,
        params: int,
        weight_type: str,
    ) -> None:
        """The routed experts, `inter` being their width on one rank."""
        step, experts = self.step, feed.experts
        tokens, beside = step.tokens * step.groups, step.beside * step.groups
        spread = step.expert_ranks
        matrices = 3 if feed.gated else 2
        touched = _experts_touched(tokens + beside, feed.topk, experts)
        touched -= _experts_touched(beside, feed.topk, experts)
        touched /= spread
        sent = tokens * feed.topk / spread
        weights = touched * matrices * hidden * inter * WEIGHT_BYTES[weight_type]
        # Between the matrices what the first ones give is written, and read again.
        work = Work(
            2.0 * matrices * sent * hidden * inter,
            weights + ACTIVATION_BYTES * (tokens * hidden + sent * inter),
            ACTIVATION_BYTES * sent * ((matrices - 1) * inter + hidden),
        )
        here = -(-experts // spread)
        shapes = (
            (tokens, hidden),
            (here, (matrices - 1) * inter, hidden),
            (here, hidden, inter),
            (tokens, feed.topk),
        )
        out = ((tokens, hidden),)
        handle = self._op(
            parent, name, "fused_moe", shapes, out, weight_type, work, params, beside
        )
        self._keep(handle, "expert_ranks", spread, 1.0)

    def attention(
        self,
        parent: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        window: int,
        *,
        value_dim: int | None = None,
        params: int = 0,
    ) -> None:
        """Attention against the cache; the third shape is the window."""
        step, width = self.step, WEIGHT_BYTES[self.cache_dtype]
        value = head_dim if value_dim is None else value_dim
        if step.phase == "decode":
            past = step.past_within(window)
            op, pairs, seen = "generation_attention", past, past
            kept = past
        else:
            past = step.past
            op = "context_attention"
            pairs = attended_pairs(step.new, past, window)
            seen = min(past, window or past) + step.new
            kept = past + step.new
        batch = step.sequences
        queries = batch * step.new * heads
        work = Work(
            2.0 * batch * heads * pairs * (head_dim + value),
            ACTIVATION_BYTES * queries * head_dim
            + batch * seen * kv_heads * (head_dim + value) * width,
            ACTIVATION_BYTES * queries * value,
        )
        shapes: list[tuple[int, ...]] = [
            (batch, step.new, heads, head_dim),
            (batch, kept, kv_heads, head_dim),
        ]
        if window:
            shapes.append((window,))
        out = ((batch, step.new, heads, value),)
        self._op(
            parent, "attn", op, shapes, out, self.cache_dtype, work, params, beside=0
        )

    def latent_attention(
        self, parent: int, heads: int, rank: int, rope_dim: int
    ) -> None:
        """Decoding against a compressed cache: one vector per token for all heads."""
        step, width = self.step, WEIGHT_BYTES[self.cache_dtype]
        batch, past, kept = step.sequences, step.past, rank + rope_dim
        work = Work(
            2.0 * batch * heads * past * (kept + rank),
            batch * (ACTIVATION_BYTES * heads * kept + past * kept * width),
            ACTIVATION_BYTES * batch * heads * rank,
        )
        shapes = ((batch, 1, heads, kept), (batch, past, 1, kept))
        out = ((batch, 1, heads, rank),)
        self._op(
            parent, "attn", "latent_attention", shapes, out, self.cache_dtype, work,
            beside=0,
        )  # fmt: skip

    def elementwise(
        self,
        parent: int,
        name: str,
        op: str,
        read: int,
        written: int,
        *,
        params: int = 0,
        flops: int = 0,
        tokens: int | None = None,
        written_bytes: float = ACTIVATION_BYTES,
    ) -> None:
        """Something that only moves numbers; these and FLOPs are per token."""
        tokens = self.step.tokens if tokens is None else tokens
        work = Work(
            float(tokens * flops),
            tokens * read * ACTIVATION_BYTES,
            tokens * written * written_bytes,
        )
        shapes, out = ((tokens, read),), ((tokens, written),)
        self._op(parent, name, op, shapes, out, self.dtype, work, params)

    def all_reduce(self, parent: int, hidden: int) -> None:
        """The sum of what the ranks have; the second shape is how many there are."""
        ranks = self.step.ranks
        if ranks == 1:
            return
        tokens = self.step.tokens
        moved = tokens * hidden * ACTIVATION_BYTES
        work = Work(float(tokens * hidden), moved, moved)
        shapes, out = ((tokens, hidden), (ranks,)), ((tokens, hidden),)
        self._op(parent, "all_reduce", "all_reduce", shapes, out, self.dtype, work)

    def gather_scatter(self, parent: int, hidden: int) -> None:
        """Tokens of all groups to every GPU, and sums of what they give back."""
        step = self.step
        if step.groups == 1:
            return
        tokens, name = step.tokens * step.groups, "gather_scatter"
        moved = tokens * hidden * ACTIVATION_BYTES
        work = Work(float(tokens * hidden), moved, moved)
        shapes, out = ((tokens, hidden), (step.gpus,)), ((step.tokens, hidden),)
        beside = step.beside * step.groups
        self._op(parent, name, name, shapes, out, self.dtype, work, beside=beside)

    def gap(self, parent: int, vocabulary: int) -> None:
        """The time of a step beside its kernels, for so many tokens to draw from."""
        step = self.step
        shapes = (step.sequences, step.new), (vocabulary,)
        handle = self._op(parent, "gap", GAP, shapes, (), self.dtype, Work(0, 0, 0))
        self._keep(handle, "runs", step.alone, 1.0)

    def _op(
        self,
        parent: int,
        name: str,
        op: str,
        inputs: Shapes,
        outputs: Shapes,
        dtype: str,
        work: Work,
        params: int = 0,
        beside: int | None = None,
    ) -> int:
        step = self.step
        times = step.runs * step.gpus
        handle = self.builder.add(
            parent,
            name,
            "ml",
            op,
            signature=Signature(tuple(inputs), tuple(outputs), dtype),
            params=params * self.owns,
            flops=round(work.flops * times),
            bytes_read=round(work.bytes_read * times),
            bytes_written=round(work.bytes_written * times),
        )
        self._keep(handle, "runs", step.runs, 1.0)
        self._keep(handle, "ranks", step.gpus, 1.0)
        self._keep(handle, "beside", step.beside if beside is None else beside, 0.0)
        return handle

    def _keep(self, handle: int, name: str, value: float, usual: float) -> None:
        known = self.features.setdefault(handle, {})
        if value != usual:
            known[name] = float(value)
        else:
            known.pop(name, None)


def _experts_touched(tokens: int, topk: int, experts: int) -> float:
    """Experts that at least one token is sent to, if each draws `topk` of them."""
    share = min(topk / experts, 1.0)
    if share == 1.0:
        return float(experts if tokens else 0)
    return experts * -math.expm1(tokens * math.log1p(-share))


def attended_pairs(new: int, past: int, window: int) -> int:
    """Pairs of a token and one that it sees, itself among them, in one sequence."""
    if not window:
        return new * past + new * (new + 1) // 2
    growing = min(max(window - past, 0), new)
    return growing * past + growing * (growing + 1) // 2 + (new - growing) * window
