"""JAX: `*.xplane.pb` and compiled HLO → events.

Record with `jax.profiler.start_trace(folder)` and `stop_trace()`. The trace names HLO
instructions; which op of the program each came from is in the compiled module, that is
in the trace itself (recent versions) or in the text of `….compile().as_text()`. There
an op is called `jit(step)/transpose(jvp(layer_0))/attention/dot_general`: name scopes
and Flax modules, what JAX did to them, and the primitive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from irene.account.events import Events
from irene.account.readers.tensorflow.hlo import METADATA, HloNames, Program
from irene.account.readers.tensorflow.name_scopes import is_loss, is_optimizer
from irene.account.readers.tensorflow.recorded_ops import (
    EXECUTORS,
    Namer,
    Op,
    StatsOf,
    build,
    read_ops,
)
from irene.account.readers.tensorflow.tensorflow_events import NO_CLOCK, op_names
from irene.account.readers.tensorflow.xplane import XSpace

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
    """Take an `op_name` apart.

    Args:
        op_name: As `jit(step)/transpose(jvp(layer_0))/attention/dot_general`; of what
            was fused, names behind each other with semicolons: the first counts.
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
    return build(read_ops(space, namer), _notes(space, namer))


class _JaxNamer(Namer):
    """Tells HLO instructions from what surrounds them.

    Attributes:
        outside: Instructions of a training step that are neither in the
            differentiated function nor in a name scope.
    """

    def __init__(self, hlo: HloNames) -> None:
        super().__init__(hlo)
        self.outside: set[str] = set()
        self._parse, self._is_training = cache(parse_op_name), cache(_is_training)

    def host_op(self, op: Op, stats: StatsOf) -> Op | None:
        """The op or mark with its module and phase, None if it is neither."""
        if op.name in EXECUTORS:
            return replace(op, op=op.name, is_mark=True)
        if op.name.startswith("end: ") or not stats.line.stats_at[stats.row]:
            return None
        return self.compiled(op, stats())

    def instruction(self, op: Op, op_name: str, home: Program, label: str) -> Op:
        """A compiled instruction with what its `op_name` tells."""
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


def _notes(space: XSpace, namer: _JaxNamer) -> Iterator[str]:
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
