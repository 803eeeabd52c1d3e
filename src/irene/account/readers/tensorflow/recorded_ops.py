"""Ops that a reader found, not yet events: pool threads and followers find their op.

`read_ops` makes these of the threads and GPU streams of an XPlane, the reader of
TensorFlow 1 timelines of its own; `build` makes the events. TensorFlow and JAX trace
with the same profiler: how an op's name tells its module is told by a `Namer`.

An op may hand work to a pool of threads. The profiler writes three kinds of marks
without a length: `Record` where a thread hands work out, `StartRegion` and `StopRegion`
where another does it; a number links them. So the work of every pool thread belongs to
the op that was running where it was recorded.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from irene.account.events import CPU, Events, EventsBuilder
from irene.account.readers.tensorflow.hlo import HloNames, Program
from irene.account.readers.tensorflow.xplane import Line, Plane, Value, XSpace


@dataclass(frozen=True, slots=True)
class Op:
    """Something that ran; it may belong to the module of the backward op before it."""

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


class Step(NamedTuple):
    """A step that the program marked: its name and number, begin and end."""

    label: str
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class RecordedOps:
    """Ops, steps, and where work was handed to pool threads and done, by number."""

    ops: list[Op] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    handed: dict[int, Handed] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)


TOLD = ("name", "start_ns", "end_ns", "scope", "phase", "device", "lane", "is_mark")


def build(trace: RecordedOps, notes: Iterable[str] = ()) -> Events:
    """The events of a trace."""
    ops = _following(sorted(trace.ops, key=lambda op: (op.start_ns, -op.end_ns)))
    for region, op in list(_owners(ops, trace)):
        begin, end, lane = region.start_ns, region.end_ns, region.lane
        ops.append(replace(op, start_ns=begin, end_ns=end, lane=lane))
    steps = _step_of(ops, trace.steps)
    builder = EventsBuilder()
    for op, step in zip(ops, steps, strict=True):
        told = {name: getattr(op, name) for name in TOLD}
        builder.add(**told, op=op.op or None, step=step)
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


MOST_NESTED = 64
"""How far back an op that still runs is looked for."""


class Handed(NamedTuple):
    """A moment at which a thread hands work out."""

    lane: str
    time_ns: int


class Region(NamedTuple):
    """Work that a thread of a pool did; its number links it to where it is from."""

    lane: str
    start_ns: int
    end_ns: int
    number: int


class _Running:
    """What runs on a thread at a moment; made in the order of the begins."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ops: list[tuple[int, Op]] = []

    def add(self, start_ns: int, end_ns: int, op: Op) -> None:
        """Append something that begins no earlier than those before."""
        self._starts.append(start_ns)
        self._ops.append((end_ns, op))

    def at(self, time_ns: int) -> tuple[int, Op] | None:
        """Begin and op of the innermost at a moment, None if nothing runs."""
        last = bisect_right(self._starts, time_ns) - 1
        for index in range(last, max(-1, last - MOST_NESTED), -1):
            end_ns, op = self._ops[index]
            if end_ns >= time_ns:
                return self._starts[index], op
        return None


def _owners(ops: list[Op], trace: RecordedOps) -> Iterator[tuple[Region, Op]]:
    """The regions that belong to an op; the work of a region may be handed on."""
    lanes: dict[str, _Running] = {}
    for op in sorted(ops, key=lambda op: (op.start_ns, op.end_ns)):
        if not op.is_mark and op.device == CPU:
            lanes.setdefault(op.lane, _Running()).add(op.start_ns, op.end_ns, op)
    pools: dict[str, _Running] = {}
    for region in sorted(trace.regions, key=lambda region: region.start_ns):
        source = trace.handed.get(region.number)
        if source is None or region.number < 0:
            continue  # a damaged trace: it is not said whose work this is
        found = [
            running.at(source.time_ns)
            for running in (lanes.get(source.lane), pools.get(source.lane))
            if running is not None
        ]
        known = [each for each in found if each is not None]
        if known:
            _, op = max(known, key=lambda each: each[0])
            pool = pools.setdefault(region.lane, _Running())
            pool.add(region.start_ns, region.end_ns, op)
            yield region, op


HOST = "/host:CPU"
GPU = re.compile(r"^/device:GPU:(\d+)$")
STREAM = re.compile(r"^Stream\b")
POOL = "Eigen"
RECORD = "ThreadpoolListener::Record"
START = "ThreadpoolListener::StartRegion"
STOP = "ThreadpoolListener::StopRegion"
EXECUTORS = {"ExecutorState::Process", "ThunkExecutor::Execute"}


@dataclass(slots=True)
class StatsOf:
    """Stats of an event, read only when asked for."""

    plane: Plane
    line: Line
    row: int

    def __call__(self) -> dict[str, Value]:
        """All stats by name."""
        return self.plane.event_stats(self.line, self.row)


class Namer(ABC):
    """Tells what an event is; what XLA compiled is told alike for all frameworks."""

    def __init__(self, hlo: HloNames) -> None:
        self.hlo = hlo
        self.unnamed: set[str] = set()

    @abstractmethod
    def host_op(self, op: Op, stats: StatsOf) -> Op | None:
        """An op or mark of the host with its module and phase, None if neither."""

    @abstractmethod
    def instruction(self, op: Op, op_name: str, home: Program, label: str) -> Op:
        """A compiled instruction with what its `op_name` in a program tells."""

    def device_op(self, op: Op, stats: dict[str, Value]) -> Op:
        """A kernel or copy of a GPU with its module and phase, where they are known."""
        return self.compiled(op, stats) or op

    def compiled(self, op: Op, stats: dict[str, Value]) -> Op | None:
        """An instruction that XLA compiled, None if it is none."""
        name = str(stats.get("hlo_op", ""))
        if not name:
            return None
        module = str(stats.get("hlo_module", ""))
        home = self.hlo.program(module, _number(stats.get("program_id", -1)))
        op_name = self.hlo.op_name(home, name) if home else ""
        label = f"{module}/{name}"
        if home is None or not op_name:
            self.unnamed.add(label)
            return replace(op, op=name.partition(".")[0])
        return self.instruction(op, op_name, home, label)


def read_ops(space: XSpace, namer: Namer) -> RecordedOps:
    """Go through all threads of the host and all streams of GPUs."""
    trace = RecordedOps()
    for plane in space.named(HOST):
        for line in plane.lines:
            _read_line(trace, plane, line, namer)
    trace.steps.sort(key=lambda step: step.start_ns)
    for device, plane, line in _streams(space):
        for row, (name, start_ns, end_ns) in enumerate(_spans(plane, line)):
            op = Op(name, start_ns, end_ns, line.name, device=device)
            trace.ops.append(namer.device_op(op, plane.event_stats(line, row)))
    return trace


def _spans(plane: Plane, line: Line) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of all events of a line."""
    times = zip(line.name_id, line.start_ns.tolist(), line.end_ns.tolist(), strict=True)
    return ((plane.names.get(key, ""), begin, end) for key, begin, end in times)


def _read_line(trace: RecordedOps, plane: Plane, line: Line, namer: Namer) -> None:
    lane = f"{line.name.partition('/')[0]} {line.id}"
    begun: list[tuple[int, int]] = []
    for row, (name, start_ns, end_ns) in enumerate(_spans(plane, line)):
        stats = StatsOf(plane, line, row)
        if name == RECORD:
            trace.handed[_number(stats().get("_p", -1))] = Handed(lane, start_ns)
        elif name == START:
            begun.append((start_ns, _number(stats().get("_c", -1))))
        elif name == STOP:
            if begun and POOL in lane:
                begin_ns, number = begun.pop()
                end_ns = max(begin_ns, start_ns)
                trace.regions.append(Region(lane, begin_ns, end_ns, number))
        elif step := _step(name, stats, start_ns, end_ns):
            trace.steps.append(step)
            trace.ops.append(Op(name, start_ns, end_ns, lane, is_mark=True))
        elif found := namer.host_op(Op(name, start_ns, end_ns, lane), stats):
            trace.ops.append(found)


def _step(name: str, stats: StatsOf, start_ns: int, end_ns: int) -> Step | None:
    if ":" in name or "/" in name or not stats.line.stats_at[stats.row]:
        return None
    number = stats().get("step_num")
    if not isinstance(number, int):
        return None
    return Step(f"{name} {number}", start_ns, end_ns)


def _number(value: Value) -> int:
    return value if isinstance(value, int) else -1


def _streams(space: XSpace) -> Iterator[tuple[str, Plane, Line]]:
    """Streams of all GPUs, each with its device as torch names it."""
    for plane in space.planes:
        if found := GPU.match(plane.name):
            for line in plane.lines:
                if STREAM.match(line.name):
                    yield f"cuda:{found[1]}", plane, line
