"""Events of an XPlane: TensorFlow 2 and Keras, and JAX.

TensorFlow: record with `tf.profiler.experimental.start(folder)` and `stop()`, at host
tracer level 2 or above, as is the default. Ops of compiled functions carry their name
scopes; eager ops carry none, and are counted without a module.

JAX: record with `jax.profiler.start_trace(folder)` and `stop_trace()`. The trace names
HLO instructions; which op of the program each came from is in the compiled module, that
is in the trace itself (recent versions) or in the text of `….compile().as_text()`.
There an op is called `jit(step)/transpose(jvp(layer_0))/attention/dot_general`: name
scopes and Flax modules, what JAX did to them, and the primitive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from irene.account.events import Events
from irene.account.readers.tensorflow.hlo import METADATA, HloNames, Program
from irene.account.readers.tensorflow.name_scopes import (
    DATA,
    NameScopes,
    is_loss,
    is_optimizer,
)
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
        return replace(op, op=_op(kind), **self._place(name, kind)._asdict())

    def instruction(self, op: Op, op_name: str, home: Program, label: str) -> Op:
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


WRAPPED = re.compile(r"^([\w\-]+)\((.*)\)$")
FUNCTIONS = {"jit", "pjit", "xla_call", "core_call"}
"""What these wrap is a function, not a module."""
CONTROL = {
    "while", "body", "cond", "scan", "branch", "checkpoint", "remat", "remat2",
    "rematted_computation", "closed_call", "custom_jvp_call", "custom_vjp_call",
    "custom_vjp_call_jaxpr", "shard_map", "pjit", "jit", "xla_call",
}  # fmt: skip
"""What JAX calls its own control flow, which is no module."""
BRANCH = re.compile(r"branch_\d+_fun$")


@dataclass(frozen=True, slots=True)
class JaxName:
    """What an `op_name` tells: modules, outermost first, primitive, what JAX did."""

    scopes: tuple[str, ...]
    op: str
    transforms: frozenset[str]

    @property
    def scope(self) -> str:
        """Dotted path of the module."""
        return ".".join(self.scopes)


def parse_op_name(op_name: str) -> JaxName:
    """Take apart `jit(step)/transpose(jvp(layer_0))/attention/dot_general`.

    What was fused has names behind each other with semicolons: the first counts.
    """
    parts = _split(op_name.partition(";")[0])
    op = parts.pop() if parts and not WRAPPED.match(parts[-1]) else ""
    function = ""
    scopes: list[str] = []
    transforms: set[str] = set()
    for part in parts:
        name = part
        while found := WRAPPED.match(name):
            if found[1] in FUNCTIONS:
                function, name = found[2], ""
            else:
                transforms.add(found[1])
                name = found[2]
        is_scope = name and name not in CONTROL and "->" not in name
        if is_scope and not BRANCH.match(name):
            # `jvp(model/layer)` wraps a whole path.
            scopes += [piece.replace(".", "_") for piece in name.split("/") if piece]
    return JaxName(tuple(scopes), op or function or "(call)", frozenset(transforms))


def _split(op_name: str) -> list[str]:
    """Parts between slashes that are in no parentheses."""
    parts, depth, begin = [], 0, 0
    for index, letter in enumerate(op_name):
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth == 0:
            parts.append(op_name[begin:index])
            begin = index + 1
    return [part for part in (*parts, op_name[begin:]) if part]


def is_jax(space: XSpace) -> bool:
    """Whether a trace is of JAX: it says so, or has HLO ops and none of TensorFlow."""
    if any("jax_version" in plane.stats for plane in space.planes):
        return True
    compiled = any("hlo_op" in plane.stat_names.values() for plane in space.planes)
    return compiled and not any(True for _ in op_names(space))


def jax_events(space: XSpace, hlo: HloNames | None = None) -> Events:
    """Events of a trace of JAX; `hlo` has programs that are not in the trace."""
    names = hlo or HloNames()
    for plane in space.named(METADATA):
        names.add_plane(plane)
    namer = _JaxNamer(names)
    return build(read_ops(space, namer), _jax_notes(space, namer))


class _JaxNamer(Namer):
    """Tells HLO instructions from what surrounds them."""

    def __init__(self, hlo: HloNames) -> None:
        super().__init__(hlo)
        self.outside: set[str] = set()
        self._parse, self._is_training = cache(parse_op_name), cache(_is_training)

    def host_op(self, op: Op, stats: StatsOf) -> Op | None:
        if op.name in EXECUTORS:
            return replace(op, op=op.name, is_mark=True)
        if op.name.startswith("end: ") or not stats.line.stats_at[stats.row]:
            return None
        return self.compiled(op, stats())

    def instruction(self, op: Op, op_name: str, home: Program, label: str) -> Op:
        parsed = self._parse(op_name)
        phase = self._phase(parsed, home)
        if phase == "other":
            self.outside.add(label)
        return replace(op, op=parsed.op, scope=parsed.scope, phase=phase)

    def _phase(self, name: JaxName, home: Program) -> str:
        if "transpose" in name.transforms:
            return "backward"
        if any(map(is_optimizer, name.scopes)):
            return "optimizer"
        if any(map(is_loss, name.scopes)):
            return "loss"
        outside = not name.scopes and "jvp" not in name.transforms
        if outside and self._is_training(home):
            return "other"
        return "forward"


def _is_training(program: Program) -> bool:
    return any("transpose(jvp(" in name for name in program.op_names.values())


def _jax_notes(space: XSpace, namer: _JaxNamer) -> Iterator[str]:
    if space.start_ns is None:
        yield NO_CLOCK
    if namer.unnamed:
        yield (
            f"{len(namer.unnamed):,} HLO instructions have no op_name, as "
            f"{min(namer.unnamed)}: give the text of the compiled module, or they have "
            "no module and phase"
        )
    if namer.outside:
        yield (
            f"{len(namer.outside):,} HLO instructions of a training step, as "
            f"{min(namer.outside)}, are outside the differentiated function and in no "
            'name scope: put the update in jax.named_scope("optimizer")'
        )
