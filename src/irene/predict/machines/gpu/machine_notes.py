"""What a reader of a prediction for a GPU should know, in words."""

from __future__ import annotations

import numpy as np

from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.device import OpCosts
from irene.predict.machines.gpu.serving_ops import NodeOps
from irene.tree import ModelTree, Node

__all__ = ["memory_note", "roughness_notes"]

WORTH_SAYING = 0.01
WORTH_A_WARNING = 0.15
USABLE = 0.92
"""Share of a GPU's memory that engines give to weights and cache."""


def roughness_notes(tree: ModelTree, nodes: NodeOps, costs: OpCosts) -> list[str]:
    """How much of the energy is of ops that nobody measured, and why.

    Args:
        tree: Whose ops.
        nodes: The ops of the tree.
        costs: What they take.
    """
    shares: dict[str, float] = {}
    beside = np.where(nodes.base >= 0, costs.energy_j[nodes.base], 0.0)
    weight = np.maximum(costs.energy_j[nodes.place] - beside, 0.0)
    weight = weight * nodes.runs * nodes.ranks * tree.multiplicity[nodes.rows]
    total = float(weight.sum()) or 1.0
    reasons = [nodes.reasons.get(i) or costs.reasons[i] for i in range(len(nodes.ops))]
    for place, each in zip(nodes.place.tolist(), weight.tolist(), strict=True):
        if reasons[place]:
            shares[reasons[place]] = shares.get(reasons[place], 0.0) + each / total
    return [
        f"{'extrapolation: ' if share > WORTH_A_WARNING else ''}"
        f"{share:.0%} of the energy is rough: {reason}"
        for reason, share in sorted(shares.items(), key=lambda item: -item[1])
        if share > WORTH_SAYING
    ]


def memory_note(tree: ModelTree, sheet: Datasheet) -> list[str]:
    """A warning where weights and cache cannot lie in the memory of the GPUs."""
    spec = tree.spec
    if spec is None:
        return []
    weights, cache = _weight_bytes(tree), _cache_bytes(tree)
    ranks = spec.tensor_parallel
    room = sheet.memory_bytes * USABLE * ranks
    if weights + cache <= room:
        return []
    what = f"{weights / 1e9:.0f} GB of weights and {cache / 1e9:.0f} GB of cache"
    where = f"{ranks} × {sheet.memory_bytes / 1e9:.0f} GB"
    return [f"warning: {what} do not fit into {where}: fewer streams or more GPUs"]


WEIGHTED = ("linear", "lm_head", "fused_moe")


def _weight_bytes(tree: ModelTree) -> float:
    """Bytes of the weights, each matrix in its own type."""
    from irene.trace.serving.writer import WEIGHT_BYTES

    total = 0.0
    for node in _one_step(tree):
        if node.kind == "ml" and node.params:
            kind = node.dtype if node.op in WEIGHTED else "bf16"
            times = int(tree.multiplicity[node.row])
            total += node.params * times * WEIGHT_BYTES.get(kind, 2.0)
    return total


def _one_step(tree: ModelTree) -> list[Node]:
    """Nodes of one step: of a generation, those of its last kind of step."""
    root = tree.root
    is_generation = tree.spec is not None and tree.spec.phase == "generate"
    top = root.children[-1] if is_generation else root
    return list(top.walk())


def _cache_bytes(tree: ModelTree) -> float:
    """Bytes of the KV cache of all streams."""
    from irene.trace.serving.writer import WEIGHT_BYTES

    total = 0.0
    for node in _one_step(tree):
        if node.op.endswith("_attention"):
            batch, kept, heads, dim = node.inputs[1]
            both = 1 if node.op == "latent_attention" else 2
            ranks = node.features.get("ranks", 1.0)
            times = int(tree.multiplicity[node.row])
            each = WEIGHT_BYTES.get(node.dtype, 2.0)
            total += batch * kept * heads * dim * both * each * ranks * times
    return total
