"""What the ops of a serving step compute and move, counted from their shapes.

A multiply-add is two FLOPs. Weights and the part of the KV cache that is looked at are
read once per step, activations are written and read once by every op. Tokens that run
`beside` others find the weights already read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "ACTIVATION_BYTES",
    "WEIGHT_BYTES",
    "Work",
    "attended_pairs",
    "experts_touched",
    "linear_work",
    "moe_work",
]

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
}
"""Bytes of a stored number with its share of the scales."""


class Work(NamedTuple):
    """FLOPs and bytes of one op."""

    flops: float
    bytes_read: float
    bytes_written: float


def linear_work(tokens: int, n: int, k: int, weight_type: str, beside: int = 0) -> Work:
    """`(tokens, k) × (k, n)`."""
    weights = 0.0 if beside else n * k * WEIGHT_BYTES[weight_type]
    return Work(
        2.0 * tokens * n * k,
        weights + ACTIVATION_BYTES * tokens * k,
        ACTIVATION_BYTES * tokens * n,
    )


def experts_touched(tokens: int, topk: int, experts: int) -> float:
    """Experts that at least one token is sent to, if each draws `topk` of them."""
    share = min(topk / experts, 1.0)
    if share == 1.0:
        return float(experts if tokens else 0)
    return experts * -math.expm1(tokens * math.log1p(-share))


def moe_work(
    tokens: int,
    hidden: int,
    inter: int,
    topk: int,
    experts: int,
    *,
    gated: bool,
    weight_type: str,
    beside: int = 0,
) -> Work:
    """The routed experts of a layer."""
    matrices = 3 if gated else 2
    touched = experts_touched(tokens + beside, topk, experts)
    touched -= experts_touched(beside, topk, experts)
    sent = tokens * topk
    weights = touched * matrices * hidden * inter * WEIGHT_BYTES[weight_type]
    # Between the matrices what the first ones give is written, and read again.
    return Work(
        2.0 * matrices * sent * hidden * inter,
        weights + ACTIVATION_BYTES * (tokens * hidden + sent * inter),
        ACTIVATION_BYTES * sent * ((matrices - 1) * inter + hidden),
    )


def attended_pairs(new: int, past: int, window: int) -> int:
    """Pairs of a token and one that it sees, itself among them, in one sequence."""
    if not window:
        return new * past + new * (new + 1) // 2
    growing = min(max(window - past, 0), new)
    return growing * past + growing * (growing + 1) // 2 + (new - growing) * window
