"""Ops, marks and steps of an XPlane trace, of the host's threads and of GPU streams.

TensorFlow and JAX trace with the same profiler. What differs is how an op's name tells
its module; that is told by a `Namer`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from irene.account.readers.tensorflow.hlo import HloNames, Program
from irene.account.readers.tensorflow.recorded_ops import (
    Handed,
    Op,
    RecordedOps,
    Region,
    Step,
)
from irene.account.readers.tensorflow.xplane import Line, Plane, Value, XSpace

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
    """Tells what an event is; what XLA compiled is told alike for all frameworks.

    Attributes:
        hlo: Compiled programs that are known.
        unnamed: Compiled instructions of which nothing says where they come from.
    """

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
    """Go through all threads of the host and all streams of GPUs.

    Args:
        space: The trace.
        namer: Tells ops and their modules.
    """
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
