"""The host's threads in an XPlane trace: ops, marks, steps and pool threads.

TensorFlow and JAX trace the host with the same profiler. What differs is how an op's
name tells its module; that is told by a `Namer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from irene.account.readers.recorded_ops import Op, RecordedOps, Step
from irene.account.readers.tensorflow.pool_threads import Handed, Region
from irene.account.readers.tensorflow.xplane import Line, Plane, Value, XSpace

__all__ = ["EXECUTORS", "HOST", "Namer", "StatsOf", "device_planes", "read_host"]

HOST = "/host:CPU"
GPU = re.compile(r"^/device:GPU:(\d+)$")
STREAM = re.compile(r"^Stream\b")
POOL = "Eigen"
RECORD = "ThreadpoolListener::Record"
START = "ThreadpoolListener::StartRegion"
STOP = "ThreadpoolListener::StopRegion"
EXECUTORS = {"ExecutorState::Process", "ThunkExecutor::Execute"}


class Namer(Protocol):
    """Tells what an event of the host is."""

    def host_op(self, op: Op, stats: StatsOf) -> Op | None:
        """The op or mark with its module and phase, None if it is neither."""
        ...


@dataclass(slots=True)
class StatsOf:
    """Stats of an event, read only when asked for."""

    plane: Plane
    line: Line
    row: int

    def __call__(self) -> dict[str, Value]:
        """All stats by name."""
        return self.plane.event_stats(self.line, self.row)


def read_host(space: XSpace, namer: Namer) -> RecordedOps:
    """Go through all threads of the host.

    Args:
        space: The trace.
        namer: Tells ops and their modules.
    """
    trace = RecordedOps()
    for plane in space.named(HOST):
        for line in plane.lines:
            _read_line(trace, plane, line, namer)
    trace.steps.sort(key=lambda step: step.start_ns)
    return trace


def _read_line(trace: RecordedOps, plane: Plane, line: Line, namer: Namer) -> None:
    lane = f"{line.name.partition('/')[0]} {line.id}"
    begun: list[tuple[int, int]] = []
    spans = zip(line.name_id, line.start_ns.tolist(), line.end_ns.tolist(), strict=True)
    for row, (name_id, start_ns, end_ns) in enumerate(spans):
        name = plane.names.get(name_id, "")
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
            mark = Op(name, start_ns, end_ns, lane, is_mark=True)
            trace.ops.append(mark)
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


def device_planes(space: XSpace) -> Iterator[tuple[str, Plane, Line]]:
    """Streams of all GPUs, each with its device as torch names it."""
    for plane in space.planes:
        if found := GPU.match(plane.name):
            for line in plane.lines:
                if STREAM.match(line.name):
                    yield f"cuda:{found[1]}", plane, line
