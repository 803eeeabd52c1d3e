"""How plain passes of PyTorch differ from the sum of their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from irene.arrays import Floats
from irene.predict.intervals import BEYOND, Beyond, Doubt
from irene.predict.machines.domain import LOOP, is_looped
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.gpu_device import OpCosts
from irene.predict.machines.gpu.kernel_ops import Memory, Op
from irene.predict.machines.gpu.node_ops import FP32_FACTOR, NodeOps
from irene.predict.machines.gpu.serving_calibration import UNSEEN
from irene.saved import Saved, shipped_document
from irene.trace.serving.tree import is_serving_tree
from irene.tree import ModelTree

SCHEMA = "irene.passes/1"
FILE = "passes.json"
SLOW_HOST = 2.0
"""A host may take so many times as long to launch a kernel, or as short: an
assumption."""


@dataclass(frozen=True, slots=True)
class OwnCosts:
    """Of every row by itself: J, s; of every entry of its ops: J.

    Until the power limit is held to, J are those above idle power.
    """

    joules: Floats
    each_j: Floats
    each_s: Floats
    time_s: Floats
    static_j: Floats


@dataclass(frozen=True, slots=True)
class Passes(Saved):
    """From kernels as their tables have them to a pass, launched one by one.

    Tables are of short runs. In a pass clocks fall where power meets its limit,
    attention is PyTorch's, and a kernel waits for its launch.

    Attributes:
        time: Of a kernel by that of its table.
        power_share: Part of the power limit that is drawn while kernels run.
        host_s: What a host takes to launch a kernel, s: none is done sooner.
        energy_width: Half the 90 % interval of the energy, in log units.
        time_width: The same of time.
        source: Which passes it is from, in words.
    """

    time: float
    power_share: float
    host_s: float
    energy_width: float
    time_width: float
    source: str

    def seconds(self, table_s: Floats) -> tuple[Floats, Floats]:
        """Time of kernels and time with their launch, s, by that of their tables."""
        busy_s = self.time * table_s
        return busy_s, np.maximum(busy_s, self.host_s)

    def own(
        self, tree: ModelTree, nodes: NodeOps, costs: OpCosts, sheet: Datasheet
    ) -> OwnCosts:
        """What every row of a traced model takes by itself, launches included."""
        found = self.seconds(costs.time_s * slower(tree, nodes.ops))
        busy_s, each_s = (each[nodes.place] for each in found)
        each_j = (self.power_share * sheet.tdp_w - sheet.idle_w) * busy_s
        own_j, own_s = (
            np.bincount(nodes.rows, each, len(tree)).astype(np.float64)
            for each in (each_j, each_s)
        )
        return OwnCosts(own_j, each_j, each_s, own_s, own_s * sheet.idle_w)

    def beyond(self, tree: ModelTree, nodes: NodeOps, own: OwnCosts) -> list[Beyond]:
        """What of a traced model no pass that was measured had."""
        if is_serving_tree(tree):
            return []
        looped = np.where(is_looped(tree), BEYOND["group"], 0.0)
        waits = own.each_s <= self.host_s
        waited_s = np.bincount(nodes.rows, own.each_s * waits, len(tree))
        idle_w = own.static_j.sum() / own.time_s.sum()
        longer_j = (SLOW_HOST - 1) * idle_w * waited_s
        doubt = np.log1p(longer_j / np.where(own.joules > 0, own.joules, 1.0))
        words = "in kernels that wait for their launch, which depends on the host"
        found = [Doubt("loop", LOOP, looped), Doubt("launches", words, doubt, True)]
        return [each for each in Beyond.of(tree, own.joules, found) if each.share]

    def note(self) -> str:
        """What was taken, in words."""
        return (
            f"a pass of PyTorch, kernel by kernel: {self.time:.2g} × the time of their "
            f"tables, at least {self.host_s * 1e6:.0f} µs each, and "
            f"{self.power_share:.0%} of the power limit while they run, as in "
            f"{self.source}"
        )


@cache
def passes() -> Mapping[str, Passes]:
    """Those that ship, by name of the GPU."""
    document = shipped_document(__package__, FILE, SCHEMA)
    return {name: Passes.from_dict(each) for name, each in document["passes"].items()}


def passes_of(name: str) -> Passes:
    """Passes on a GPU, or those for GPUs on which nobody measured any."""
    return passes().get(name, passes()[UNSEEN])


def slower(tree: ModelTree, ops: Sequence[Op]) -> Floats:
    """By how much kernels take longer in the type of a run than as bf16.

    Bytes and FLOPs of what has no table are counted in the type of the run.
    """
    if tree.spec is None or tree.spec.dtype != "fp32":
        return np.ones(len(ops))
    return np.array([1.0 if isinstance(op, Memory) else FP32_FACTOR for op in ops])
