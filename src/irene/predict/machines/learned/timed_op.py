"""Ops by their sizes, and how long ago their weights were last used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats, Ints
from irene.predict.machines.specs.work import (
    PRODUCT_OF,
    ROWS,
    distinct_ops,
    product_sizes,
)
from irene.trace.templates.piece import groups_hit
from irene.tree import MATH, ML, MODULE, ModelTree, Signature

MIB = float(1 << 20)
CACHE_MIB = 16.0
"""A model that touches this much finds half of a weight in the caches, roughly: where
the correction by shape looks, not what it finds."""
FRESH_MIB = 32.0
"""Results larger than this are fetched from the system anew, page by page (glibc)."""
WRITTEN = 0.25
"""Part of what is written that is memory not used a moment before."""
WEIGHTED = frozenset({"Linear", "linear", "Conv1D", "LMHead"})
CONVOLUTION = "aten.convolution"
ATTENTION = "scaled_dot_product_attention"
GROUPED = ("aten._grouped_mm", "transformers.grouped_mm_fallback")
LANES = 16
"""Numbers that a vector unit takes at once: what does not fill the last one waits."""
RAGGED, STRIDED = 2.0, 1.0
"""How far apart in layout products are whose rows fill vectors and whose do not, and
convolutions that look at every place and that skip some."""
FEW_CHANNELS = 4
"""Channels of a picture: no convolution fills vectors with them."""
ITEM_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp64": 8}


class TimedOp(NamedTuple):
    """An op by its sizes.

    Attributes:
        kind: `gemm`, `bmm`, `grouped`, `conv`, … or the name of the op; with a `*`
            where operands differ in shape, and with its type unless that is fp32.
        sizes: What its time depends on most, all at least 1.
        gflop: Its FLOPs, 10⁹; of products with a weight, with those of whole vectors.
        mib: What it reads and writes beside weights, MiB.
        weight_mib: Its weight, MiB.
        layout: How its weight is stored, or what else tells two of a size apart.
        fresh_mib: Of its results, what is fetched from the system anew, MiB.
    """

    kind: str
    sizes: tuple[int, ...]
    gflop: float
    mib: float
    weight_mib: float = 0.0
    layout: float = 0.0
    fresh_mib: float = 0.0


def timed_op(
    op: str, primitive: str, shapes: Signature, moved: int, flops: int
) -> TimedOp:
    """An op of a tree by its sizes."""
    item = ITEM_BYTES.get(shapes.dtype, 4)
    out = shapes.outputs[0] if shapes.outputs else ()
    kind, sizes, weight, layout, filled = _sized(op, primitive, shapes, out)
    weight_mib = weight * item / MIB
    written = sum(max(prod(shape), 1) for shape in shapes.outputs) * item / MIB
    if shapes.dtype != "fp32":
        kind = f"{kind} {shapes.dtype}"
    return TimedOp(
        kind,
        tuple(max(1, size) for size in sizes),
        flops / 1e9 * filled,
        max(moved / MIB - weight_mib, 0.0),
        weight_mib,
        layout,
        written if written > FRESH_MIB else 0.0,
    )


def _sized(
    op: str, primitive: str, shapes: Signature, out: tuple[int, ...]
) -> tuple[str, tuple[int, ...], int, float, float]:
    """Kind, sizes, elements of the weight, layout, work in whole vectors over FLOPs."""
    inputs = shapes.inputs
    if op in PRODUCT_OF:
        batch, m, n, k = product_sizes(op, shapes)
        if PRODUCT_OF[op] == "bmm":
            return "bmm", (batch, m, n, k), 0, RAGGED * _is_ragged(n), 1.0
        held = n * k * (primitive in WEIGHTED)
        stored = float(primitive == "Conv1D")
        return "gemm", (m, n, k), held, stored, _whole_vectors(n)
    if op == CONVOLUTION and len(inputs) > 1 and len(out) > 2:
        picture, weight = inputs[:2]
        layout = float(np.log(prod(weight[2:])))
        layout += STRIDED * (prod(picture[2:]) > 1.5 * prod(out[2:]))
        filled = _whole_vectors(weight[0])
        if weight[1] > FEW_CHANNELS:
            filled *= _whole_vectors(weight[1])
        kind = "depthwise" if weight[1] != picture[1] else "conv"
        m = out[0] * prod(out[2:])
        return kind, (m, out[1], prod(weight[1:])), prod(weight), layout, filled
    if op == ATTENTION and len(inputs) > 2:
        query, key = inputs[:2]
        sizes = (prod(query[:-2]), query[-2], key[-2], query[-1])
        layout = float(len(inputs) > 3) + RAGGED * _is_ragged(key[-2])
        return "attention", sizes, 0, layout, 1.0
    if op in GROUPED and len(inputs) > 1 and len(inputs[1]) == 3:
        groups, k, n = inputs[1]
        rows = inputs[0][0]
        held = groups_hit(rows, groups) * n * k
        return "grouped", (rows, groups, n, k), held, 0.0, _whole_vectors(n)
    table = (prod(out[:-1]), out[-1] if out else 1)
    kind = ROWS.get(op, op)
    if kind == op and any(shape not in (out, ()) for shape in inputs):
        kind = f"{op}*"
    return kind, table, 0, 0.0, 1.0


def _is_ragged(size: int) -> bool:
    return size % LANES != 0


def _whole_vectors(size: int) -> float:
    """Numbers in all vectors that are begun, over numbers."""
    return -(-size // LANES) * LANES / max(size, 1)


def product_of_group(op: TimedOp) -> tuple[int, TimedOp]:
    """How many products an op of the kind `grouped` is made of, and one of them."""
    rows, groups, n, k = op.sizes
    hit = groups_hit(rows, groups)
    return hit, TimedOp(
        op.kind.replace("grouped", "gemm"),
        (max(1, round(rows / hit)), n, k),
        op.gflop / hit,
        op.mib / hit,
        op.weight_mib / hit,
    )


class TimedWork(NamedTuple):
    """The work of every node of a tree, children included.

    Attributes:
        ops: Distinct ops that move something.
        counts: Nodes × ops: how often each runs in one instance of a node.
        calls: Nodes × (math ops, modules and primitives).
        footprint_mib: What the whole run touches, MiB.
    """

    ops: tuple[TimedOp, ...]
    counts: Floats
    calls: Floats
    footprint_mib: float


def timed_work(tree: ModelTree) -> TimedWork:
    """Count the work of a tree."""
    columns, math = tree.columns, distinct_ops(tree)
    numbers: dict[TimedOp, int] = {}
    place = np.full(len(math.keys), -1, dtype=np.int64)
    for i, (op, signature, primitive, size, flops) in enumerate(math.keys):
        if size:
            shapes = tree.signatures[signature]
            names = tree.strings[op], tree.strings[primitive]
            found = timed_op(*names, shapes, size, flops)
            place[i] = numbers.setdefault(found, len(numbers))
    ops = tuple(numbers)
    own = np.zeros((len(tree), len(ops) + 2))
    where = place[math.which]
    moving = where >= 0
    own[math.rows[moving], where[moving]] = 1
    own[:, -2] = columns.kind == MATH
    own[:, -1] = (columns.kind == MODULE) | (columns.kind == ML)
    total = columns.inclusive(own, tree.structure.levels)
    first = np.array([call == 1 for call in tree.calls])[tree.parents[math.rows]]
    once = np.zeros(len(ops))
    rows = math.rows[moving & first]
    np.add.at(once, where[moving & first], _own_weights(tree)[rows])
    touched = footprint_mib(ops, once, total[0, : len(ops)])
    return TimedWork(ops, total[:, :-2], total[:, -2:], touched)


def _own_weights(tree: ModelTree) -> Ints:
    """How many modules each row stands for: calls of one and the same count once."""
    apart = tree.columns.count.copy()
    for row, members in tree.members.items():
        apart[row] = len({name for name, _ in members})
    return replace(tree.columns, count=apart).multiplicity()


def footprint_mib(
    ops: Sequence[TimedOp], once: Iterable[float], counts: Iterable[float]
) -> float:
    """What a run touches before it comes to the same weight again, MiB.

    Ops run `once` for every weight of their own.
    """
    weights = sum(op.weight_mib * n for op, n in zip(ops, once, strict=True))
    moved = sum(op.mib * n for op, n in zip(ops, counts, strict=True))
    return weights + WRITTEN * moved / 3


def coldness(touched_mib: npt.ArrayLike) -> Floats:
    """From 0, all of it is in the caches, to 1, nothing is."""
    mib = np.asarray(touched_mib, dtype=float)
    return mib / (mib + CACHE_MIB)
