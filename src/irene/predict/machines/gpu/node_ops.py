"""Reading ops off the nodes of trees: of a serving, or of a traced model.

Of a serving the primitives are kernels, some with what runs beside them; of a traced
model every math node is a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats
from irene.predict.machines.gpu.kernel_models import ROUGH
from irene.predict.machines.gpu.kernel_ops import (
    Collective,
    ContextAttention,
    GatherScatter,
    Gemm,
    GenerationAttention,
    LatentAttention,
    LatentPrompt,
    Memory,
    Moe,
    Op,
    WeightType,
)
from irene.predict.machines.specs.work import refuse_cut
from irene.trace.costs.matrix import MATRIX
from irene.tree import MATH, ML, ModelTree, Signature

Places = npt.NDArray[np.intp]

GAP = "host_gap"
"""Op of the node for the time between kernels."""
ROUTING = "power_law_1.2"
"""How tokens choose experts: far from evenly, as in the models people serve."""
LONGER = {"conv_update": 1.44, "causal_conv": 2.4, "chunk_scan": 3.24}
"""How much longer kernels of state spaces take than their bytes, by their op.

Mamba-2 on B200, as it was measured (`benchmarks/state_spaces.py`); other state spaces
and GPUs are taken as alike.
"""
TYPES: Mapping[str, WeightType] = {"fp16": "bf16", "fp32": "bf16"}


Found = dict[Op, int]
"""Distinct ops, by their places."""


@dataclass(frozen=True, slots=True)
class NodeOps:
    """The ops behind nodes of a tree.

    Attributes:
        rows: Rows of the tree that run ops; one may be there several times.
        place: Which op of `ops` it is.
        base: What runs beside it in the same kernel and is counted elsewhere, as a
            place in `ops`; -1 for nothing.
        runs: How often it is run.
        ranks: How many GPUs run it.
        ops: The distinct ops.
        reasons: Why an op only resembles what the node does, or is doubted, by place
            in `ops`; and how far, in log units.
    """

    rows: Places
    place: Places
    base: Places
    runs: Floats
    ranks: Floats
    ops: tuple[Op, ...]
    reasons: Mapping[int, tuple[str, float]]


class _Node(NamedTuple):
    """What decides the op of a node."""

    op: int
    signature: int
    bytes_read: int
    bytes_written: int
    flops: int
    runs: float
    ranks: float
    beside: float
    expert_ranks: float


def serving_ops(tree: ModelTree) -> NodeOps:
    """The ops of all primitives of a serving tree."""
    columns = tree.columns
    gap = tree.strings.index(GAP) if GAP in tree.strings else -1
    rows = np.flatnonzero((columns.kind == ML) & (columns.op != gap))
    runs, ranks, beside, spread = (
        feature(tree, name, usual)[rows]
        for name, usual in (
            ("runs", 1.0), ("ranks", 1.0), ("beside", 0.0), ("expert_ranks", 1.0)
        )
    )  # fmt: skip
    nodes, which = _distinct(tree, rows, runs, ranks, beside, spread)
    found: Found = {}
    places = [_add(tree, _Node(*node), found) for node in nodes]
    place, base = np.array(places, dtype=np.intp).reshape(-1, 2)[which].T
    return NodeOps(rows, place, base, runs, ranks, tuple(found), {})


def _distinct(
    tree: ModelTree, rows: Places, *more: Floats
) -> tuple[list[tuple[Any, ...]], Places]:
    """What decides the ops of some rows, equal ones once, and which each row has."""
    columns = tree.columns
    known = (
        columns.op, columns.signature, columns.bytes_read, columns.bytes_written,
        columns.flops,
    )  # fmt: skip
    lists = [*(column[rows].tolist() for column in known), *(m.tolist() for m in more)]
    places: dict[tuple[Any, ...], int] = {}
    which = [places.setdefault(key, len(places)) for key in zip(*lists, strict=True)]
    return list(places), np.array(which, dtype=np.intp)


def feature(tree: ModelTree, name: str, usual: float) -> Floats:
    """A feature of every row, as usual where it is not said."""
    if name not in tree.features:
        return np.full(len(tree), usual)
    values = tree.features[name]
    return np.where(np.isnan(values), usual, values)


def _add(tree: ModelTree, node: _Node, found: Found) -> tuple[int, int]:
    """Places of a node's op and of what runs beside it."""
    name, signature = tree.strings[node.op], tree.signatures[node.signature]
    op = SERVING_READERS.get(name, _memory)(signature, node)
    if not node.beside:
        return _place(found, op), -1
    tokens = signature.inputs[0][0]
    both = _resized(op, tokens, tokens + node.beside)
    return _place(found, both), _place(found, _resized(op, tokens, node.beside))


def _place(found: Found, op: Op) -> int:
    """The place of an op, which is appended if it is new."""
    return found.setdefault(op, len(found))


def _resized(op: Op, tokens: int, wanted: float) -> Op:
    """The same op on another number of tokens."""
    if isinstance(op, Gemm):
        return replace(op, m=round(wanted))
    if isinstance(op, Moe):
        return replace(op, tokens=round(wanted))
    factor = wanted / tokens
    if isinstance(op, Collective):
        return replace(op, bytes=op.bytes * factor)
    assert isinstance(op, Memory)
    return Memory(op.bytes_read * factor, op.bytes_written * factor, op.flops * factor)


def _type(signature: Signature) -> WeightType:
    kind = signature.dtype
    return TYPES.get(kind) or cast(WeightType, kind)


def _gemm(signature: Signature, node: _Node) -> Op:
    (m, k), (n, _) = signature.inputs
    return Gemm(m, n, k, _type(signature))


def _context(signature: Signature, node: _Node) -> Op:
    batch, new, heads, head_dim = signature.inputs[0]
    _, kept, kv_heads, _ = signature.inputs[1]
    window = signature.inputs[2][0] if len(signature.inputs) > 2 else 0
    sizes, value = (batch, new, kept - new, heads, kv_heads), signature.outputs[0][-1]
    if value != head_dim:
        return LatentPrompt(*sizes, (head_dim + value) // 2, window)
    return ContextAttention(*sizes, head_dim, window, _type(signature))


def _generation(signature: Signature, node: _Node) -> Op:
    batch, _, heads, head_dim = signature.inputs[0]
    _, kept, kv_heads, _ = signature.inputs[1]
    window = signature.inputs[2][0] if len(signature.inputs) > 2 else 0
    return GenerationAttention(
        batch, float(kept), heads, kv_heads, head_dim, window, _type(signature)
    )


def _latent(signature: Signature, node: _Node) -> Op:
    batch, _, heads, kept = signature.inputs[0]
    rank = signature.outputs[0][-1]
    context = float(signature.inputs[1][1])
    return LatentAttention(batch, context, heads, rank, kept - rank, _type(signature))


def _moe(signature: Signature, node: _Node) -> Op:
    (tokens, hidden), (experts, first, _), (_, _, inter), (_, topk) = signature.inputs
    spread = round(node.expert_ranks)
    shared_by = round(node.ranks) // spread
    return Moe(
        tokens, hidden, inter * shared_by, topk, experts * spread, _type(signature),
        gated=first > inter, distribution=ROUTING, tensor_parallel=shared_by,
        expert_parallel=spread,
    )  # fmt: skip


def _exchange(
    signature: Signature, node: _Node, kind: type[Collective] = Collective
) -> Op:
    (tokens, hidden), (ranks,) = signature.inputs
    return kind(2.0 * tokens * hidden, ranks)


def _memory(signature: Signature, node: _Node, longer: float = 1.0) -> Op:
    times = node.runs * node.ranks / longer
    return Memory(
        node.bytes_read / times, node.bytes_written / times, node.flops / times
    )


SERVING_READERS: Mapping[str, Callable[[Signature, _Node], Op]] = {
    "linear": _gemm,
    "lm_head": _gemm,
    "context_attention": _context,
    "generation_attention": _generation,
    "latent_attention": _latent,
    "fused_moe": _moe,
    "all_reduce": _exchange,
    "gather_scatter": partial(_exchange, kind=GatherScatter),
    **{op: partial(_memory, longer=times) for op, times in LONGER.items()},
}
"""How ops are read from their shapes; all others only move their bytes."""


PRODUCTS = "products of batches of matrices, predicted as one product of their size"


def traced_ops(tree: ModelTree) -> NodeOps:
    """The ops of all math nodes of a traced tree that move data.

    Raises:
        UsageError: The tree was cut above its math ops.
    """
    columns = tree.columns
    moved = columns.bytes_read + columns.bytes_written
    refuse_cut(tree)
    rows = np.flatnonzero((columns.kind == MATH) & (moved > 0))
    nodes, which = _distinct(tree, rows)
    found: Found = {}
    reasons: dict[int, tuple[str, float]] = {}
    places = []
    for op, signature, *costs in nodes:
        name = tree.strings[op]
        place = _place(found, _op(name, tree.signatures[signature], *costs))
        if name in BATCHED:
            reasons[place] = PRODUCTS, ROUGH[1]
        elif name in MATRIX.keys() - TRACED_READERS.keys() - SHOWN:
            reasons[place] = name.removeprefix("aten."), ROUGH[1]
        places.append(place)
    once = np.ones(len(rows))
    nothing = np.full(len(rows), -1, dtype=np.intp)
    place_of = np.array(places, dtype=np.intp)[which]
    return NodeOps(rows, place_of, nothing, once, once, tuple(found), reasons)


def _op(name: str, shapes: Signature, read: int, written: int, flops: int) -> Op:
    reader = TRACED_READERS.get(name)
    op = reader(shapes) if reader else None
    slower = FP32_FACTOR if shapes.dtype == "fp32" else 1.0
    return op or Memory(float(read), float(written), flops * slower)


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


FP32_FACTOR = 2.0
"""fp32 moves twice the bytes of bf16, and multiplies at most half as fast (TF32)."""
BATCHED = frozenset({"aten.bmm", "aten.baddbmm"})
SHOWN = frozenset({"aten.convolution", "aten.convolution_backward"})
"""Products without a table that passes which were measured are made of."""
TRACED_READERS: Mapping[str, Callable[[Signature], Op | None]] = {
    "aten.mm": _product,
    "aten.addmm": _product,
    "aten.bmm": _batched,
    "aten.baddbmm": _batched,
    "scaled_dot_product_attention": _attention,
}


def decoder_layers(tree: ModelTree) -> int:
    """Layers of a serving's decoder."""
    is_generation = tree.spec is not None and tree.spec.phase == "generate"
    step = tree.root.children[0] if is_generation else tree.root
    rows = [node.row for node in step.walk() if node.op.endswith(".layer")]
    return int(tree.multiplicity[rows].sum())
