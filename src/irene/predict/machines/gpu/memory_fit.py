"""Whether weights and cache of a serving lie in the memory of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from irene.predict.machines.gpu.datasheet import Datasheet
from irene.trace.serving.writer import WEIGHT_BYTES
from irene.tree import ModelTree, Node

__all__ = ["USABLE", "MemoryFit", "memory_fit"]

USABLE = 0.92
"""Share of a GPU's memory that engines give to weights and cache."""
WEIGHTED = ("linear", "lm_head", "fused_moe")
MOST_GPUS = 1024


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """What a serving needs of the memory of its GPUs.

    Attributes:
        weight_bytes: Of all weights.
        cache_bytes: Of the KV cache of all streams, on all GPUs.
        room_bytes: What engines give to both on all GPUs.
        gpus: How many.
        smallest: Fewest GPUs, a power of two, that would do; None: not by sharing.
    """

    weight_bytes: float
    cache_bytes: float
    room_bytes: float
    gpus: int
    smallest: int | None

    @property
    def share(self) -> float:
        """What is needed by what there is."""
        return (self.weight_bytes + self.cache_bytes) / self.room_bytes

    def notes(self) -> list[str]:
        """A warning where it does not fit, with what would."""
        if self.share <= 1.0:
            return []
        cache = f"{self.cache_bytes / 1e9:.0f} GB of cache"
        what = f"{self.weight_bytes / 1e9:.0f} GB of weights and {cache}"
        where = f"{self.gpus} × {self.room_bytes / self.gpus / USABLE / 1e9:.0f} GB"
        todo = "fewer streams or more GPUs"
        if self.smallest:
            todo = (
                f"the fewest GPUs that hold them are --tensor-parallel {self.smallest}"
            )
        return [f"warning: {what} do not fit into {where}: {todo}"]


def memory_fit(tree: ModelTree, sheet: Datasheet) -> MemoryFit:
    """What a serving needs.

    Args:
        tree: Of a serving.
        sheet: Of each of its GPUs.
    """
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
    return MemoryFit(weights, cache_bytes(gpus), room * gpus, gpus, smallest)


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
