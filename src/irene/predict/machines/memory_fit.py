"""Whether what a run needs lies in the memory of its machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from irene.trace.serving.writer import WEIGHT_BYTES
from irene.tree import MATH, ModelTree, Node

if TYPE_CHECKING:
    from irene.predict.machines.gpu.datasheet import Datasheet

USABLE = 0.92
"""Share of a GPU's memory that engines give to weights and cache."""
WEIGHTED = ("linear", "lm_head", "fused_moe")
MOST_GPUS = 1024


TRAINED_BYTES = 16
"""Kept per parameter in training: weight and gradient in 2 bytes, master weight and two
moments of Adam in 4 each; in fp32 four numbers of 4 bytes."""


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """What a run needs of the memory of its machine.

    Attributes:
        weight_bytes: Of all weights, and of what training keeps beside them; of each
            as often as there are groups that keep it.
        beside_bytes: Of the KV cache of all streams, or of the largest op's operands.
        beside: Which of them, in a word.
        size_bytes: Memory of each GPU.
        room_bytes: What of it there is for both, on all of them.
        gpus: How many.
        smallest: Fewest GPUs, a power of two, that would do; None: not by sharing.
    """

    weight_bytes: float
    beside_bytes: float
    beside: str
    size_bytes: float
    room_bytes: float
    gpus: int = 1
    smallest: int | None = None

    @property
    def share(self) -> float:
        """What is needed by what there is."""
        return (self.weight_bytes + self.beside_bytes) / self.room_bytes

    def notes(self) -> list[str]:
        """A warning where it does not fit, with what would."""
        if self.share <= 1.0:
            return []
        beside = f"{_size(self.beside_bytes)} of {self.beside}"
        what = f"{_size(self.weight_bytes)} of weights and {beside}"
        where = f"{self.gpus} × {self.size_bytes / 1e9:.0f} GB"
        least = math.ceil(self.share * self.gpus)
        todo = f"smaller batches, or the memory of {least:,} at least"
        if self.smallest:
            todo = (
                f"the fewest GPUs that hold them are --tensor-parallel {self.smallest}"
            )
        return [f"warning: {what} do not fit into {where}: {todo}"]


def _size(size_bytes: float) -> str:
    if size_bytes < 1e9:
        return f"{size_bytes / 1e6:.0f} MB"
    return f"{size_bytes / 1e9:,.0f} GB"


def traced_fit(tree: ModelTree, size_bytes: float, usable: float = 1.0) -> MemoryFit:
    """What a traced run needs at least: its weights, and the largest op's operands."""
    spec, columns = tree.spec, tree.columns
    each = 2 if spec is not None and spec.dtype in ("fp16", "bf16") else 4
    if spec is not None and spec.phase == "train":
        each = TRAINED_BYTES
    is_op = columns.kind == MATH
    moved = (columns.bytes_read + columns.bytes_written)[is_op].max(initial=0)
    weights = float(tree.root.params * each)
    room = size_bytes * usable
    return MemoryFit(weights, float(moved), "activations", size_bytes, room)


def with_fit(tree: ModelTree, size_bytes: float | None) -> ModelTree:
    """A traced run with what it needs of a machine's memory, where that is known."""
    if not size_bytes:
        return tree
    fit = traced_fit(tree, size_bytes)
    share = np.append(fit.share, np.full(len(tree) - 1, np.nan))
    found = tree.with_features({**tree.features, "memory_share": share})
    return found.with_notes(*fit.notes())


def memory_fit(tree: ModelTree, sheet: Datasheet) -> MemoryFit:
    """What a serving needs."""
    gpus = tree.spec.gpus if tree.spec else 1
    room = sheet.memory_bytes * USABLE
    nodes = _one_step(tree)
    weights = sum(_weight_bytes(tree, node) for node in nodes)
    caches = [node for node in nodes if node.op.endswith("_attention")]

    def cache_bytes(count: int) -> float:
        return sum(_cache_bytes(tree, node, gpus, count) for node in caches)

    smallest, count = None, 1
    while smallest is None and count <= MOST_GPUS:
        if weights + cache_bytes(count) <= room * count:
            smallest = count
        count *= 2
    size, kept = sheet.memory_bytes, cache_bytes(gpus)
    return MemoryFit(weights, kept, "cache", size, room * gpus, gpus, smallest)


def _one_step(tree: ModelTree) -> list[Node]:
    """Nodes of one step: of a generation, those of its last kind of step."""
    root = tree.root
    is_generation = tree.spec is not None and tree.spec.phase == "generate"
    top = root.children[-1] if is_generation else root
    return list(top.walk())


def _weight_bytes(tree: ModelTree, node: Node) -> float:
    """Bytes of the weights of a node, in their own type."""
    if node.kind != "ml" or not node.params:
        return 0.0
    kind = node.dtype if node.op in WEIGHTED else "bf16"
    times = int(tree.multiplicity[node.row])
    if tree.spec is not None and node.op != "fused_moe":
        times *= tree.spec.data_parallel
    return node.params * times * WEIGHT_BYTES.get(kind, 2.0)


def _cache_bytes(tree: ModelTree, node: Node, gpus: int, count: int) -> float:
    """Bytes that a node keeps of all streams, on so many GPUs instead of its own.

    A GPU has some of the heads of keys and values, one at least.
    """
    batch, kept, heads, dim = node.inputs[1]
    both = 1 if node.op == "latent_attention" else 2
    ranks = node.features.get("ranks", 1.0)
    shared = max(heads * ranks / count, 1.0) * count
    if count == gpus or node.op == "latent_attention":
        shared = heads * ranks * count / gpus
    each = WEIGHT_BYTES.get(node.dtype, 2.0)
    return batch * kept * dim * both * each * shared * int(tree.multiplicity[node.row])
