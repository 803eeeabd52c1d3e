"""TensorFlow 2 and Keras: `*.xplane.pb` → events.

Record with `tf.profiler.experimental.start(folder)` and `stop()`, at host tracer level
2 or above, as is the default. Ops of compiled functions carry their name scopes; eager
ops carry none, and are counted without a module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from irene.account.events import Events
from irene.account.readers.tensorflow.hlo import METADATA, HloNames, Program
from irene.account.readers.tensorflow.name_scopes import DATA, NameScopes
from irene.account.readers.tensorflow.recorded_ops import (
    EXECUTORS,
    HOST,
    Namer,
    Op,
    RecordedOps,
    StatsOf,
    Step,
    build,
    read_ops,
)
from irene.account.readers.tensorflow.xplane import Value, XSpace

OP = re.compile(r"^([^:\s]+):([A-Za-z_]\w*)$")
EAGER = "EagerLocalExecute: "
FUNCTION = re.compile(r"^_*(inference|forward|backward)_")
ITERATOR = re.compile(r"^(Make)?Iterator(::|GetNextOp)|^(Prefetch|ParallelMap)Produce$")
WAITS = re.compile(r"(::Root|::Prefetch|::Parallel\w+|GetNextOp::DoCompute)$")
DATA_LANE = "tf_data"
FEW = 0.05
"""Share of eager ops that every program has: Keras resets its metrics so."""
NO_CLOCK = (
    "warning: the trace does not say when it began (no profile_start_time): its times "
    "count from 0"
)


def tensorflow_events(space: XSpace) -> Events:
    """Events of a trace of TensorFlow 2."""
    hlo = HloNames()
    for plane in space.named(METADATA):
        hlo.add_plane(plane)
    names = {*op_names(space), *_compiled_names(hlo)}
    namer = _TensorFlowNamer(NameScopes(names), hlo)
    trace = read_ops(space, namer)
    if not trace.steps:
        trace.steps.extend(_calls(trace))
    return build(trace, _notes(space, namer, len(trace.ops)))


def op_names(space: XSpace) -> Iterator[tuple[str, str]]:
    """Name and type of every op that TensorFlow itself runs."""
    for plane in space.named(HOST):
        for name in plane.names.values():
            if "::" not in name and (found := OP.match(name)):
                yield found[1], found[2]


def _compiled_names(hlo: HloNames) -> Iterator[tuple[str, str]]:
    """Names and types of the ops that compiled programs were made from."""
    for program in hlo.programs.values():
        for name in program.op_names.values():
            yield name, name.rpartition("/")[2]


class _TensorFlowNamer(Namer):
    """Tells ops of TensorFlow from what surrounds them."""

    def __init__(self, scopes: NameScopes, hlo: HloNames) -> None:
        super().__init__(hlo)
        self.eager = 0
        self._place = cache(scopes.place)

    def host_op(self, op: Op, stats: StatsOf) -> Op | None:
        """The op or mark with its module and phase, None if it is neither."""
        name = op.name
        if name in EXECUTORS:
            return replace(op, op=name, is_mark=True)
        if name.startswith(EAGER):
            return self._eager(op, name.removeprefix(EAGER))
        if ITERATOR.match(name):
            kind = name.rpartition("::")[2]
            waits = bool(WAITS.search(name))
            return replace(op, op=kind, phase="data", is_mark=waits)
        if "::" not in name and (found := OP.match(name)):
            if op.lane.startswith(DATA_LANE):
                return replace(op, op=_op(found[2]), phase="data")
            return self._placed_op(op, found[1], found[2])
        if stats.line.stats_at[stats.row] and not name.startswith("end: "):
            return self.compiled(op, stats())
        return None

    def _placed_op(self, op: Op, name: str, kind: str) -> Op:
        """An op with what its name tells."""
        found = self._place(name, kind)
        return replace(
            op,
            op=_op(kind),
            scope=found.scope,
            phase=found.phase,
            follows=found.follows,
        )

    def instruction(self, op: Op, op_name: str, home: Program, label: str) -> Op:
        """A compiled instruction with what its `op_name` tells."""
        return self._placed_op(op, op_name, op_name.rpartition("/")[2])

    def device_op(self, op: Op, stats: dict[str, Value]) -> Op:
        """A kernel or copy of a GPU: of an op of TensorFlow, or compiled."""
        if found := OP.match(str(stats.get("tf_op", ""))):
            return self._placed_op(op, found[1], found[2])
        return super().device_op(op, stats)

    def _eager(self, op: Op, kind: str) -> Op:
        if FUNCTION.match(kind):
            return replace(op, op="(function)", is_mark=True)
        if DATA.search(kind):
            return replace(op, op=kind, phase="data")
        self.eager += 1
        return replace(op, op=kind)


def _op(kind: str) -> str:
    """Type of an op without the mark of a CPU library's own version."""
    return kind.removeprefix("_Mkl").removeprefix("Native") or kind


def _calls(trace: RecordedOps) -> list[Step]:
    """Calls of the function that was called most, if a program marked no steps."""
    calls = [op for op in trace.ops if op.op == "(function)"]
    names = [op.name for op in calls]
    if not names:
        return []
    most = max(names, key=names.count)
    chosen = sorted(
        (op for op in calls if op.name == most), key=lambda call: call.start_ns
    )
    return [Step(f"step {i}", op.start_ns, op.end_ns) for i, op in enumerate(chosen)]


def _notes(space: XSpace, namer: _TensorFlowNamer, count: int) -> Iterator[str]:
    if space.start_ns is None:
        yield NO_CLOCK
    if namer.eager > FEW * count:
        yield (
            f"{namer.eager:,} ops ran eagerly: TensorFlow gives those no name scope, "
            "so they have no module; wrap the step in tf.function"
        )
    if namer.unnamed:
        yield (
            f"{len(namer.unnamed):,} compiled instructions have no op_name, as "
            f"{min(namer.unnamed)}: they have no module and phase"
        )
    for error in space.errors:
        yield f"warning: the profiler reported: {error}"
