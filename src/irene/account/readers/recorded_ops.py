"""Ops that a reader found, not yet events: pool threads and followers find their op.

Readers of XPlane and of TensorFlow 1 timelines make these; `build` makes the events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from irene.account.events import CPU, Events, EventsBuilder
from irene.account.readers.tensorflow.pool_threads import Handed, Region, owners

__all__ = ["Op", "RecordedOps", "Step", "build"]


@dataclass(frozen=True, slots=True)
class Op:
    """Something that ran.

    Attributes:
        name: As the trace has it.
        start_ns: Begin.
        end_ns: End.
        lane: Thread or stream.
        op: The framework's op.
        scope: Dotted path of its module.
        phase: One of `PHASES`.
        is_mark: Whether it is a stretch of a program and no op.
        device: Device as torch names it.
        follows: Whether it belongs to the module of the backward op before it.
    """

    name: str
    start_ns: int
    end_ns: int
    lane: str
    op: str = ""
    scope: str = ""
    phase: str = "other"
    is_mark: bool = False
    device: str = CPU
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A step that the program marked.

    Attributes:
        label: Its name and number.
        start_ns: Begin.
        end_ns: End.
    """

    label: str
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class RecordedOps:
    """What was found.

    Attributes:
        ops: Ops and marks.
        steps: Steps that the program marked.
        handed: Where work was handed to pool threads, by number.
        regions: Where it was done.
    """

    ops: list[Op] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    handed: dict[int, Handed] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)


def build(trace: RecordedOps, notes: Iterable[str] = ()) -> Events:
    """The events of a trace.

    Args:
        trace: What was found.
        notes: What a reader should know.
    """
    ops = _following(sorted(trace.ops, key=lambda op: (op.start_ns, -op.end_ns)))
    places = (
        (op.lane, op.start_ns, op.end_ns, row)
        for row, op in enumerate(ops)
        if not op.is_mark and op.device == CPU
    )
    for region, row in owners(places, trace.handed, trace.regions):
        source = ops[row]
        begin, end, lane = region.start_ns, region.end_ns, region.lane
        ops.append(replace(source, start_ns=begin, end_ns=end, lane=lane))
    steps = _step_of(ops, trace.steps)
    builder = EventsBuilder()
    for op, step in zip(ops, steps, strict=True):
        builder.add(
            op.name,
            op.start_ns,
            op.end_ns,
            op=op.op or None,
            scope=op.scope,
            phase=op.phase,
            device=op.device,
            lane=op.lane,
            step=step,
            is_mark=op.is_mark,
        )
    return builder.build([step.label for step in trace.steps], list(notes))


def _following(ops: list[Op]) -> list[Op]:
    """Give those that follow a backward op its module.

    A thread runs what an op makes ready right after it, so that the op before in the
    same thread is one of those whose gradients are summed; else the last one that ran.
    """
    in_lane: dict[str, Op] = {}
    last = ""
    placed = []
    for op in ops:
        found = op
        if op.follows:
            before = in_lane.get(op.lane)
            near = before is not None and before.phase == "backward" and before.scope
            found = replace(op, scope=near or last)
        elif op.phase == "backward" and op.scope:
            last = op.scope
        if not op.is_mark:
            in_lane[op.lane] = found
        placed.append(found)
    return placed


def _step_of(ops: list[Op], steps: list[Step]) -> list[int]:
    """Index of the step in which every op began, -1 for none."""
    if not steps:
        return [-1] * len(ops)
    starts = np.array([step.start_ns for step in steps])
    ends = np.array([step.end_ns for step in steps])
    at = np.array([op.start_ns for op in ops], dtype=np.int64)
    index = np.searchsorted(starts, at, side="right") - 1
    inside = (index >= 0) & (at <= ends[np.maximum(index, 0)])
    found: list[int] = np.where(inside, index, -1).tolist()
    return found
