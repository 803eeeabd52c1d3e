"""What a tree makes a machine do that runs one op after the other: ops and calls."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from irene.predict.machines.specs.work import BATCHED, GEMM, MIB, ROWS, distinct_ops
from irene.tree import KINDS, ModelTree, Signature

__all__ = ["CALLS", "Leaf", "SerialWork", "serial_work"]

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ML, MODULE = KINDS.index("ml"), KINDS.index("module")
CALLS = ("primitives", "modules")
"""Kinds of calls that cost time beside the ops."""
VIEW = (1, 1)
"""Sizes of ops that move nothing: they cost the same whatever they look at."""
GIGA = 1e9


class Leaf(NamedTuple):
    """An op by its sizes.

    Attributes:
        kind: `gemm`, `bmm`, `norm`, `softmax`, `embedding`, or the name of the op, with
            a `*` where its operands differ in shape.
        sizes: batch, m, n, k of a product; rows and columns of the result otherwise.
        gflop: Its FLOPs, 10⁹.
        mib: What it reads and writes, MiB; a view does neither.
        bias_mib: Result of a product that a bias is added to, MiB.
        transposed: Whether the weight is stored inputs first (`Conv1D`).
    """

    kind: str
    sizes: tuple[int, ...]
    gflop: float
    mib: float
    bias_mib: float = 0.0
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class SerialWork:
    """The work of every node of a tree, children included.

    Attributes:
        leaves: Distinct ops of the tree.
        counts: Nodes × leaves: how often each runs in one instance of a node.
        calls: Nodes × `CALLS`.
    """

    leaves: tuple[Leaf, ...]
    counts: Floats
    calls: Floats

    def only_leaf(self, node: int) -> Leaf | None:
        """The op of a node that is nothing else."""
        places = np.flatnonzero(self.counts[node])
        if len(places) != 1 or self.counts[node, places[0]] != 1:
            return None
        return self.leaves[int(places[0])]


def serial_work(tree: ModelTree) -> SerialWork:
    """Count the work of a tree.

    Args:
        tree: A traced tree with math ops, folded or not.
    """
    columns = tree.columns
    ops = distinct_ops(tree)
    leaves: dict[Leaf, int] = {}
    place = np.zeros(len(ops.keys), dtype=np.int64)
    for i, (op, signature, primitive, size, flops) in enumerate(ops.keys):
        name, above = tree.strings[op], tree.strings[primitive]
        leaf = Leaf(name, VIEW, 0.0, 0.0)
        if size:
            leaf = _leaf(name, above, tree.signatures[signature], size, flops)
        place[i] = leaves.setdefault(leaf, len(leaves))
    own = np.zeros((len(tree), len(leaves) + len(CALLS)))
    counted = ~_is_part_of_another(ops.rows, ops.moved, tree.parents)
    own[ops.rows[counted], place[ops.which][counted]] = 1
    own[:, -2] = columns.kind == ML
    own[:, -1] = columns.kind == MODULE
    total = columns.inclusive(own, tree.parents)
    return SerialWork(tuple(leaves), total[:, : len(leaves)], total[:, len(leaves) :])


def _is_part_of_another(rows: Ints, moved: Ints, parents: Ints) -> Flags:
    """Views in a primitive that also computes: measured with what it computes."""
    above = parents[rows]
    computing = np.zeros(len(parents), dtype=np.bool_)
    computing[above[moved > 0]] = True
    parts: Flags = (moved == 0) & computing[above]
    return parts


def _leaf(op: str, primitive: str, shapes: Signature, moved: int, flops: int) -> Leaf:
    gflop, mib = flops / GIGA, moved / MIB
    if op in GEMM:
        left, right = shapes.inputs[-2:]
        sizes = (1, left[0], right[1], left[1])
        bias = len(shapes.inputs) > 2
        bias_mib = sizes[1] * sizes[2] / MIB if bias else 0.0
        return Leaf("gemm", sizes, gflop, mib, bias_mib, primitive == "Conv1D")
    if op in BATCHED:
        left, right = shapes.inputs[-2:]
        return Leaf("bmm", (left[0], left[1], right[-1], left[-1]), gflop, mib)
    out = shapes.outputs[0] if shapes.outputs else ()
    table = (max(prod(out[:-1]), 1), max(out[-1] if out else 1, 1))
    kind = ROWS.get(op, op)
    if kind == op and any(shape not in (out, ()) for shape in shapes.inputs):
        kind = f"{op}*"
    return Leaf(kind, table, gflop, mib)
