"""Plan: what would be run, how often, and about how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from irene.measure.alone.capture import DistinctNode
from irene.measure.protocol import MeasureProtocol

__all__ = ["SCHEMA", "Plan", "PlannedNode", "make_plan"]

SCHEMA = "irene.measure-plan/1"
SPEEDS = {
    "cpu": (2e10, 5e9, 5e-6),
    "cuda": (5e12, 3e11, 1e-5),
    "mps": (1e12, 1e11, 2e-5),
}
"""FLOP/s (of a CPU: per thread), bytes/s and seconds per math op of a middling device:
to guess how long a run takes before anything ran. Only plans use them."""
CHECK_S = 0.15
"""Time that looking at the power before a round takes at least, s."""
SETUP_S = 3.0
"""Time to build a model and to watch it run once, s."""


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A distinct node and what measuring it takes.

    Attributes:
        path: Dotted path of its first occurrence.
        kind: `model`, `module` or `ml`.
        op: Class or function.
        shapes: Shapes of its input tensors.
        times: How many nodes of the tree it stands for.
        run_s: Guess of one run, s.
        total_s: Guess of all its rounds, s.
    """

    path: str
    kind: str
    op: str
    shapes: tuple[tuple[int, ...], ...]
    times: int
    run_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that would be run.

    Attributes:
        protocol: How long and how often.
        nodes: The distinct nodes, in the order they are run.
    """

    protocol: MeasureProtocol
    nodes: tuple[PlannedNode, ...]

    @property
    def total_s(self) -> float:
        """Guess of the whole run, s."""
        own_s = sum(node.total_s for node in self.nodes)
        return SETUP_S + self.protocol.idle_s + own_s

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready values."""
        return {
            "schema": SCHEMA,
            "protocol": self.protocol.to_dict(),
            "distinct": len(self.nodes),
            "nodes_in_tree": sum(node.times for node in self.nodes),
            "total_s": self.total_s,
            "nodes": [asdict(node) for node in self.nodes],
        }


def make_plan(
    nodes: Sequence[DistinctNode],
    protocol: MeasureProtocol,
    device: str,
    threads: int,
) -> Plan:
    """Guess how long measuring takes, from FLOPs and bytes alone.

    Args:
        nodes: What is to be run.
        protocol: How long and how often.
        device: Where, as torch names it.
        threads: Threads of the CPU.
    """
    flops_s, bytes_s, op_s = SPEEDS.get(device.partition(":")[0], SPEEDS["cuda"])
    if device == "cpu":
        flops_s *= threads
    planned = []
    for node in nodes:
        run_s = node.flops / flops_s + node.moved_bytes / bytes_s + node.math_ops * op_s
        round_s = max(protocol.round_s, run_s) + (CHECK_S if protocol.cool_s else 0)
        warm_s = max(protocol.warm_up_s, protocol.round_s / 4, 3 * run_s)
        total_s = warm_s + protocol.rounds * round_s
        planned.append(
            PlannedNode(
                *(node.path, node.kind, node.op, node.shapes, len(node.rows)),
                *(run_s, total_s),
            )
        )
    return Plan(protocol, tuple(planned))
