"""What a tree makes a machine do: kernels by shape, bytes by kind, calls.

Every math op of a tree is one of
- a kernel that is measured by itself on a machine (a matrix product, a norm, a softmax,
  a table lookup), described by its sizes;
- elementwise work, described by the MiB it moves and how it moves them;
- a view, which costs the machine nothing but the host a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from irene.arrays import Floats, Ints
from irene.errors import UsageError
from irene.tree import MATH, MODULE, ModelTree, Signature

MIB = float(1 << 20)

STREAMS = ("contiguous", "broadcast", "copy", "special")
"""Kinds of elementwise work: operands of one shape; of several shapes; copies that
change the order in memory; functions that are slow to compute (erf)."""

COPIES = frozenset(
    {"aten.clone", "aten._to_copy", "aten.copy_", "aten.cat", "aten.stack"}
)
SPECIAL = frozenset({"aten.gelu", "aten.gelu_backward", "aten.erf"})
PRODUCT_OF = {
    "aten.mm": "gemm",
    "aten.addmm": "gemm",
    "aten.bmm": "bmm",
    "aten.baddbmm": "bmm",
}
"""Matrix products, and those of batches of matrices."""
ROWS = {
    "aten.native_layer_norm": "norm",
    "aten.native_group_norm": "norm",
    "aten.native_batch_norm": "norm",
    "aten._fused_rms_norm": "norm",
    "RMSNorm": "norm",
    "rms_norm": "norm",
    "aten._softmax": "softmax",
    "aten._safe_softmax": "softmax",
    "aten._log_softmax": "softmax",
    "aten.embedding": "embedding",
}
STREAM = "stream"
"""Group of elementwise primitives that were run alone: they tell the host's share."""
OTHER = "other"
"""Group of kernels with FLOPs that no machine here has measured by themselves."""


MOST_ROWS = 1_000
"""Of a tree for which it is remembered how often each op runs in each node."""


class Kernel(NamedTuple):
    """A kernel by its sizes.

    Attributes:
        group: `gemm`, `bmm`, `norm`, `softmax`, `embedding` or `other`.
        sizes: batch, m, n, k of a product; rows and columns otherwise; for `other`
            its FLOPs and bytes.
        bias: Whether a bias is added.
        transposed: Whether the weight is stored inputs first (`Conv1D`).
        itemsize: Bytes per element.
    """

    group: str
    sizes: tuple[int, ...]
    bias: bool = False
    transposed: bool = False
    itemsize: int = 4


@dataclass(frozen=True, slots=True)
class TreeWork:
    """The work of every node of a tree, children included.

    Attributes:
        kernels: Distinct kernels of the tree.
        counts: Nodes × kernels: how often each runs in one instance of a node.
        stream_mib: Nodes × `STREAMS`: MiB moved elementwise.
        calls: Nodes × 3: launches that move data, views, module calls.
    """

    kernels: tuple[Kernel, ...]
    counts: Floats
    stream_mib: Floats
    calls: Floats


class DistinctOps(NamedTuple):
    """The math ops of a tree, equal ones once.

    Attributes:
        rows: Row of every math op.
        moved: Bytes that each reads and writes.
        which: Place in `keys` of each.
        keys: Op, signature, op of the primitive, bytes, FLOPs of every distinct one.
    """

    rows: Ints
    moved: Ints
    which: Ints
    keys: list[tuple[int, int, int, int, int]]


def refuse_cut(tree: ModelTree) -> None:
    """Refuse a tree that was cut above its math ops."""
    if not (tree.columns.kind == MATH).any():
        raise UsageError("prediction needs a tree with its math ops: trace it anew")


def distinct_ops(tree: ModelTree) -> DistinctOps:
    """Find the math ops of a tree, so that equal ones are looked at once."""
    columns = tree.columns
    key = "ops", columns.op.tobytes(), columns.signature.tobytes()
    rows, firsts, which = tree.structure.once(key, lambda: _equal_ops(tree))
    costs = np.stack([columns.bytes_read + columns.bytes_written, columns.flops])
    if (costs[:, rows] != costs[:, firsts[which]]).any():  # not equal at this size
        rows, firsts, which = _equal_ops(tree)
    columns_of = columns.op, columns.signature, columns.op[tree.parents], *costs
    keys = zip(*(column[firsts].tolist() for column in columns_of), strict=True)
    return DistinctOps(rows, costs[0, rows], which, list(keys))


def _equal_ops(tree: ModelTree) -> tuple[Ints, Ints, Ints]:
    """Rows of math ops, the first of equal ones, and which of these each is like."""
    columns = tree.columns
    rows = np.flatnonzero(columns.kind == MATH)
    keys = zip(
        columns.op[rows].tolist(),
        columns.signature[rows].tolist(),
        columns.op[tree.parents[rows]].tolist(),
        (columns.bytes_read[rows] + columns.bytes_written[rows]).tolist(),
        columns.flops[rows].tolist(),
        strict=True,
    )
    places: dict[tuple[int, ...], int] = {}
    firsts: list[int] = []
    which = []
    for row, key in zip(rows.tolist(), keys, strict=True):
        place = places.setdefault(key, len(places))
        if place == len(firsts):
            firsts.append(row)
        which.append(place)
    return rows, np.array(firsts, dtype=np.int64), np.array(which, dtype=np.int64)


def _op_counts(tree: ModelTree, rows: Ints, which: Ints) -> Floats:
    """Nodes × distinct ops: how often each runs in a node; calls of modules last."""
    own = np.zeros((len(tree), int(which.max(initial=-1)) + 2))
    own[rows, which] = 1
    own[:, -1] = tree.columns.kind == MODULE
    return tree.columns.inclusive(own, tree.structure.levels)


def work_of(tree: ModelTree) -> TreeWork:
    """Count the work of a tree."""
    ops = distinct_ops(tree)
    kernels, own = _distinct_work(tree, ops.keys)
    # Whole numbers, and MiB of whole bytes: exact in whichever order they are added.
    if len(tree) <= MOST_ROWS:
        key = "op counts", ops.rows.tobytes(), ops.which.tobytes()
        counts = tree.structure.once(key, lambda: _op_counts(tree, *ops[:3:2]))
        total = counts[:, :-1] @ own
        total[:, -1] = counts[:, -1]
    else:
        total = np.zeros((len(tree), own.shape[1]))
        total[ops.rows] = own[ops.which]
        total[:, -1] = tree.columns.kind == MODULE
        total = tree.columns.inclusive(total, tree.structure.levels)
    ends = len(kernels), len(kernels) + len(STREAMS)
    return TreeWork(
        kernels, total[:, : ends[0]], total[:, ends[0] : ends[1]], total[:, ends[1] :]
    )


def _distinct_work(
    tree: ModelTree, keys: list[tuple[int, int, int, int, int]]
) -> tuple[tuple[Kernel, ...], Floats]:
    """Work of distinct math ops: kernels, MiB of each stream, launches, views, 0."""
    kernels: dict[Kernel, int] = {}
    kernel_of = np.full(len(keys), -1, dtype=np.int64)
    rest = np.zeros((len(keys), len(STREAMS) + 3))
    for i, (op, signature, primitive, moved, flops) in enumerate(keys):
        name, shapes = tree.strings[op], tree.signatures[signature]
        if not moved:
            rest[i, len(STREAMS) + 1] = 1
            continue
        kernel = _kernel(name, tree.strings[primitive], shapes, moved, flops)
        if kernel is not None:
            kernel_of[i] = kernels.setdefault(kernel, len(kernels))
            continue
        rest[i, _stream(name, shapes)] = moved / MIB
        rest[i, len(STREAMS)] = 1
    counts = np.zeros((len(keys), len(kernels)))
    has = np.flatnonzero(kernel_of >= 0)
    counts[has, kernel_of[has]] = 1
    return tuple(kernels), np.hstack([counts, rest])


def _kernel(
    op: str, primitive: str, shapes: Signature, moved: int, flops: int
) -> Kernel | None:
    """The kernel an op runs, None for elementwise work."""
    itemsize = 2 if shapes.dtype in ("fp16", "bf16") else 4
    if op in PRODUCT_OF:
        sizes = product_sizes(op, shapes)
        if PRODUCT_OF[op] == "bmm":
            return Kernel("bmm", sizes, itemsize=itemsize)
        bias = len(shapes.inputs) > 2
        return Kernel("gemm", sizes, bias, primitive == "Conv1D", itemsize)
    if op in ROWS and shapes.outputs and shapes.outputs[0]:
        *rows, width = shapes.outputs[0]
        return Kernel(ROWS[op], (prod(rows), width), itemsize=itemsize)
    if flops * itemsize > 4 * moved:
        return Kernel(OTHER, (flops, moved), itemsize=itemsize)
    return None


def product_sizes(op: str, shapes: Signature) -> tuple[int, int, int, int]:
    """batch, m, n, k of a product of `PRODUCT_OF`."""
    left, right = shapes.inputs[-2:]
    if PRODUCT_OF[op] == "gemm":
        return 1, left[0], right[1], left[1]
    return left[0], left[1], right[-1], left[-1]


def _stream(op: str, shapes: Signature) -> int:
    if op in COPIES:
        return STREAMS.index("copy")
    if op in SPECIAL:
        return STREAMS.index("special")
    out = shapes.outputs[0] if shapes.outputs else ()
    plain = all(shape == out for shape in shapes.inputs if shape != ())
    return STREAMS.index("contiguous" if plain else "broadcast")
