"""Reading ops off the math nodes of a traced tree: each is a kernel of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from irene.errors import UsageError
from irene.predict.machines.gpu.op import (
    ContextAttention,
    Gemm,
    GenerationAttention,
    Memory,
    Op,
)
from irene.predict.machines.gpu.serving_ops import NodeOps, OpList
from irene.tree import KINDS, ModelTree, Signature

__all__ = ["traced_ops"]

MATH = KINDS.index("math")
PRODUCTS = "products of batches of matrices, predicted as one product of their size"


def traced_ops(tree: ModelTree) -> NodeOps:
    """The ops of all math nodes that move data.

    Args:
        tree: A traced tree with its math ops, folded or not.

    Raises:
        UsageError: The tree was cut above its math ops.
    """
    columns = tree.columns
    moved = columns.bytes_read + columns.bytes_written
    if not (columns.kind == MATH).any():
        raise UsageError("prediction needs a tree with its math ops: trace it anew")
    rows = np.flatnonzero((columns.kind == MATH) & (moved > 0))
    keys = zip(
        columns.op[rows].tolist(),
        columns.signature[rows].tolist(),
        columns.bytes_read[rows].tolist(),
        columns.bytes_written[rows].tolist(),
        columns.flops[rows].tolist(),
        strict=True,
    )
    found, reasons = OpList(), dict[int, str]()
    known: dict[tuple[int, ...], int] = {}
    places = []
    for key in keys:
        if key not in known:
            name, shapes = tree.strings[key[0]], tree.signatures[key[1]]
            known[key] = found.add(_op(name, shapes, *key[2:]))
            if name in BATCHED:
                reasons[known[key]] = PRODUCTS
        places.append(known[key])
    once = np.ones(len(rows))
    nothing = np.full(len(rows), -1, dtype=np.intp)
    place = np.array(places, dtype=np.intp)
    return NodeOps(rows, place, nothing, once, once, tuple(found.ops), reasons)


def _op(name: str, shapes: Signature, read: int, written: int, flops: int) -> Op:
    reader = READERS.get(name)
    op = reader(shapes) if reader else None
    return op or Memory(float(read), float(written), float(flops))


def _product(shapes: Signature) -> Op | None:
    """`mm`, `addmm`: the factors are the last two matrices."""
    factors = [shape for shape in shapes.inputs if len(shape) == 2]
    if len(factors) < 2:
        return None
    (m, k), (_, n) = factors[-2:]
    return Gemm(m, n, k) if m and n and k else None


def _batched(shapes: Signature) -> Op | None:
    factors = [shape for shape in shapes.inputs if len(shape) == 3]
    if len(factors) < 2:
        return None
    (batch, m, k), (_, _, n) = factors[-2:]
    return Gemm(batch * m, n, k) if batch and m and n and k else None


def _attention(shapes: Signature) -> Op | None:
    if len(shapes.inputs) < 3 or any(len(shape) != 4 for shape in shapes.inputs[:3]):
        return None
    batch, heads, new, head_dim = shapes.inputs[0]
    _, kv_heads, kept, _ = shapes.inputs[1]
    if not prod(shapes.inputs[0]) or not kept:
        return None
    if new == 1:
        return GenerationAttention(batch, float(kept), heads, kv_heads, head_dim)
    # All see all: as many pairs as if half of them had come before.
    return ContextAttention(
        batch, new, max(kept - (new + 1) // 2, 0), heads, kv_heads, head_dim
    )


BATCHED = frozenset({"aten.bmm", "aten.baddbmm"})
READERS: Mapping[str, Callable[[Signature], Op | None]] = {
    "aten.mm": _product,
    "aten.addmm": _product,
    "aten.bmm": _batched,
    "aten.baddbmm": _batched,
    "scaled_dot_product_attention": _attention,
}
