"""TensorFlow 1: `timeline-N.json` → events. Smaragdine's own input.

`tf.compat.v1.train.ProfilerHook` writes one file for a step, and so does
`timeline.Timeline(run_metadata.step_stats)`. Times are µs since 1970, names are those
of the graph: `bert/encoder/layer_0/output/dense/MatMul`, and under `gradients/` the
backward pass. Lanes are those that the file was laid out in; threads it does not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from irene.account.events import CPU, Events
from irene.account.readers.tensorflow.name_scopes import (
    DATA,
    FUNCTIONS,
    REWRITERS,
    is_loss,
    is_optimizer,
)
from irene.account.readers.tensorflow.recorded_ops import Op, RecordedOps, Step, build
from irene.account.readers.tensorflow.wire import trace_bytes
from irene.errors import FormatError

COMPUTE = re.compile(r"device:(\w+):(\d+)(/stream:(\w+))? Compute$")
GRADIENTS = re.compile(r"gradients(_\d+)?$")
GRADIENT = re.compile(r"_grad(_\d+)?$")
UPDATE = "update_"
POWER = re.compile(r"beta[12]_power")
"""What Adam keeps beside the weights."""
NUMBER = re.compile(r"_\d+$")
STEP = re.compile(r"(\d+)\.json(\.gz)?$")
VARIABLES = {"VarHandleOp", "VariableV2", "Variable", "VarIsInitializedOp"}
UNIX_US = 10**14
"""Times before this (1973) are not since 1970."""
NO_CLOCK = "warning: the timeline's times do not count from 1970: they begin at {} µs"


def read_timeline(path: Path) -> Events:
    """Read a timeline of TensorFlow 1, `timeline-N.json`, also gzipped."""
    try:
        document = json.loads(trace_bytes(path))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not a timeline: {error}") from error
    if not isinstance(document, dict):
        raise FormatError(f"{path} is not a timeline: it has no traceEvents")
    found = STEP.search(path.name)
    label = f"step {found[1]}" if found else "step"
    return timeline_events(document, label, str(path))


def timeline_events(document: dict[str, Any], label: str, source: str) -> Events:
    """Events of a timeline."""
    records = document.get("traceEvents")
    if not isinstance(records, list):
        raise FormatError(f"{source} is not a timeline: it has no traceEvents")
    devices = _devices(records)
    spans = [_span(record, devices, source) for record in records if _is_op(record)]
    known = [span for span in spans if span is not None]
    if not known:
        raise FormatError(f"{source} has no ops of TensorFlow 1 (no args.op)")
    scopes = _Scopes((name, op.op) for op, name in known)
    ops = [scopes.placed(op, name) for op, name in known]
    begin = min(op.start_ns for op in ops)
    step = Step(label, begin, max(op.end_ns for op in ops))
    notes = [] if begin > UNIX_US * 1000 else [NO_CLOCK.format(begin // 1000)]
    return build(RecordedOps(ops, [step]), notes)


def _is_op(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and record.get("ph") == "X"
        and isinstance(record.get("args"), dict)
        and "op" in record["args"]
    )


def _devices(records: Iterable[Any]) -> dict[Any, tuple[str, str] | None]:
    """Device and stream of every process, None for those that do not count.

    A GPU's kernels are on its streams, and once more on a stream of all; what the
    file has of the GPU itself is then the CPU's launching.
    """
    named = {
        record.get("pid"): COMPUTE.search(str(record["args"].get("name", "")))
        for record in records
        if isinstance(record, dict)
        and record.get("name") == "process_name"
        and isinstance(record.get("args"), dict)
    }
    streams = {found[2] for found in named.values() if found and found[4]}
    single = {f[2] for f in named.values() if f and f[4] and f[4] != "all"}
    devices: dict[Any, tuple[str, str] | None] = {}
    for pid, found in named.items():
        if not found or (found[4] == "all" and found[2] in single):
            devices[pid] = None
        elif found[1] == "GPU" and (found[4] or found[2] not in streams):
            devices[pid] = (f"cuda:{found[2]}", found[4] or "")
        else:
            devices[pid] = (CPU, f"{found[1]} {found[2]}")
    return devices


def _span(
    record: dict[str, Any], devices: dict[Any, tuple[str, str] | None], source: str
) -> tuple[Op, str] | None:
    """An op and its name in the graph, None if its process does not count."""
    place = devices.get(record.get("pid"), (CPU, str(record.get("pid"))))
    if place is None:
        return None
    args = record["args"]
    name = str(args.get("name", "")).partition(":")[0]
    try:
        start_ns = _ns(record["ts"])
        end_ns = start_ns + max(0, _ns(record.get("dur", 0)))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"{source}: {name!r} has no times: {error!r}") from error
    if not 0 <= start_ns <= end_ns < 2**62:
        raise FormatError(f"{source}: {name!r} is at {start_ns} ns: not a time")
    lane = f"{place[1]} {record.get('tid', 0)}"
    op = Op(name, start_ns, end_ns, lane, op=str(args["op"]), device=place[0])
    return op, name


def _ns(time_us: int | float) -> int:
    """Nanoseconds of µs; whole ones exactly, for 1970 is too far for a float."""
    whole = int(time_us)
    return whole * 1000 + round((float(time_us) - whole) * 1000)


class _Scopes:
    """Modules of a graph, from the names of all its ops."""

    def __init__(self, ops: Iterable[tuple[str, str]]) -> None:
        every = [(tuple(name.split("/")), kind) for name, kind in ops]
        self.variables = {path for path, kind in every if kind in VARIABLES}
        self.modules = {
            path[:n] for path in self.variables for n in range(1, len(path))
        }

    def placed(self, op: Op, name: str) -> Op:
        """The op with its module and phase."""
        parts = [part for part in name.split("/") if part not in REWRITERS]
        backward = bool(GRADIENTS.match(parts[0])) and len(parts) > 1
        path = parts[1:] if backward else parts
        scope = ".".join(self._module(path[:-1], path))
        phase = "backward" if backward else self._phase(parts, scope, op.op)
        if phase == "optimizer":
            scope = self._updated(parts) or scope or parts[0]
        follows = backward and not scope and op.op == "AddN"
        return replace(op, scope=scope.strip("."), phase=phase, follows=follows)

    def _module(self, scopes: list[str], path: list[str]) -> Iterator[str]:
        kept = scopes
        for index, part in enumerate(scopes):
            if GRADIENT.search(part) or tuple(path[: index + 1]) in self.variables:
                kept = scopes[:index]
                break
        while kept and tuple(kept) not in self.modules and _is_function(kept[-1]):
            kept = kept[:-1]
        return (part.replace(".", "_") for part in kept)

    def _updated(self, parts: list[str]) -> str:
        """Module of the weight that an optimizer updates."""
        for index, part in enumerate(parts):
            if part.startswith(UPDATE):
                path = [part.removeprefix(UPDATE), *parts[index + 1 :]]
                lengths = range(len(path), 0, -1)
                found = (n for n in lengths if tuple(path[:n]) in self.variables)
                return ".".join(path[: next(found, 1) - 1])
        return ""

    def _phase(self, parts: list[str], scope: str, kind: str) -> str:
        if any(map(is_optimizer, parts)) or POWER.match(parts[0]):
            return "optimizer"
        if is_loss(parts[0]) and len(parts) > 1:
            return "loss"
        if DATA.search(kind):
            return "data"
        return "forward" if scope else "other"


def _is_function(name: str) -> bool:
    bare = NUMBER.sub("", name)
    return bare in FUNCTIONS or bare[:1].isupper()
