"""Compiled regions: which module each op and kernel of `torch.compile` runs for.

Inside a compiled region no module is called, so no hook tells. The graphs that Dynamo
made are still there, and every node of theirs knows its module. A trace has the ops of
a region in the order of its graph:

- Backends that run the graph op by op (`eager`, `aot_eager`): ops are matched by name
  and order.
- Inductor: the code that it wrote calls libraries and fused kernels one after the
  other (`inductor`). Library calls are ops in the trace; fused kernels of a CPU are
  what lies between them.

What was found becomes marks of modules, as hooks would have made them.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

import numpy as np

from irene.account.align.nesting import nest
from irene.account.live.inductor import (
    Graph,
    Node,
    Step,
    inductor_steps,
    saved_paths,
    shared_path,
)
from irene.account.readers.kineto.linking import MARK

REGION, CALL = "Torch-Compiled Region: ", "## Call CompiledFxGraph "
FORWARD, BACKWARD = "CompiledFunction", "CompiledFunctionBackward"
HOLDERS = (REGION, CALL, FORWARD)
ROOT = re.compile(r"^[LG]\[['\"].*?['\"]\]|\.slice\([^)]*\)")
EDGE_US = 1e-3
ALIKE = 0.7
"""Share of the ops of a region that must be those of a graph taken for its own."""
NO_GRAPH = (
    "{} calls of compiled regions have no module inside: the graph they were made from "
    "is not known"
)
FUSED_MODULES = (
    "kernels that Inductor fused from several modules are charged to the smallest "
    "module that holds them all: compare with a plain run by layer"
)


def _graphs() -> tuple[dict[str, Graph], list[Graph], dict[str, str]]:
    """Graphs of Dynamo by number of the region, other graphs, code of Inductor."""
    from torch.fx import GraphModule

    output = sys.modules.get("torch._inductor.output_code")
    compiled: type = getattr(output, "CompiledFxGraph", type(None))
    dynamo, others, sources = {}, [], {}
    for each in gc.get_objects():
        kind = type(each)  # of a proxy of something gone, not asked for its class
        if issubclass(kind, GraphModule):
            graph = _graph(each)
            number = each.meta.get("dynamo_compile_id")
            if number is not None:
                dynamo[str(number)] = graph
            elif any(node.path for node in graph.nodes):
                others.append(graph)
        elif compiled is not type(None) and issubclass(kind, compiled):
            sources[str(getattr(each, "_fx_graph_cache_key", ""))] = (
                each.source_code or ""
            )
    return dynamo, others, sources


def _graph(module: Any) -> Graph:
    found = {node: _node(node) for node in module.graph.nodes}
    calls = [each for node, each in found.items() if node.op.startswith("call")]
    inputs = [
        [found[u] for u in node.users] if "_parameters_" in node.name else []
        for node in found
        if node.op == "placeholder"
    ]
    return Graph(calls, inputs)


def _node(node: Any) -> Node:
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    path = _path(list(stack.values())[-1][0]) if stack else ""
    # `aten.addmm.default`, or a function by its name.
    target = str(getattr(node.target, "__name__", node.target))
    return Node(node.name, path, f"aten::{target.partition('.')[0]}")


def _path(name: str) -> str:
    """`L['self'].layers.0.fc` as `layers.0.fc`."""
    path = ROOT.sub("", name).replace("._modules", "")
    return re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", path).strip(".")


@dataclass(slots=True)
class CompiledModules:
    """Adds to the events of a trace the modules of what was compiled."""

    known: Iterable[str]
    notes: list[str] = field(default_factory=list)

    def __call__(self, events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """All events, and then marks of modules."""
        ops, compiled = [], False
        for event in events:
            yield event
            if event.get("cat") == "cpu_op" and event.get("ph") == "X":
                ops.append(event)
                compiled = compiled or event["name"].startswith(REGION)
        if compiled:
            yield from _Regions(ops, set(self.known), self.notes).marks()


class _Regions:
    """Compiled regions of a trace, and whom their ops run for."""

    def __init__(
        self, ops: list[dict[str, Any]], known: set[str], notes: list[str]
    ) -> None:
        self._ops, self._known, self._notes = ops, known, notes
        lanes: dict[Any, int] = {}
        lane = [lanes.setdefault((e["pid"], e["tid"]), len(lanes)) for e in ops]
        begin, length = (
            np.array([float(e[k]) * 1e3 for e in ops]) for k in ("ts", "dur")
        )
        start = np.rint(begin).astype(np.int64)
        end = start + np.rint(length).astype(np.int64)
        self._parent = nest(np.array(lane), start, end).parent.tolist()
        self._region: dict[int, tuple[str, str]] = {}
        self._sequences: dict[int, tuple[str, str]] = {}
        self._steps: dict[str, list[Step]] = {}
        self._forward: dict[str, str] = {}

    def marks(self) -> Iterator[dict[str, Any]]:
        """A mark for every stretch of a region whose module is known."""
        dynamo, others, sources = _graphs()
        inside: dict[int, list[int]] = {}
        order = sorted(range(len(self._ops)), key=lambda i: self._ops[i]["ts"])
        for row in order:
            self._note_region(row)
            if (above := self._parent[row]) >= 0:
                inside.setdefault(above, []).append(row)
        lost, fused = 0, False
        for row in self._innermost(order):
            name = self._name(row)
            children = [c for c in inside.get(row, ()) if "::" in self._name(c)]
            number, outer = self._home(row)
            graph = dynamo.get(number)
            if name.startswith(CALL):
                code = sources.get(name.removeprefix(CALL).split()[0], "")
                steps = self._inductor(number, code, graph) if graph else []
                fused = fused or any(step.is_fused for step in steps)
            else:
                steps = self._plain(children, graph, others)
            if steps:
                yield from self._marked(row, children, steps, outer)
            elif children:
                lost += 1
        if lost:
            self._notes.append(NO_GRAPH.format(lost))
        if fused:
            self._notes.append(FUSED_MODULES)

    def _inductor(self, number: str, code: str, graph: Graph) -> list[Step]:
        """Steps of a call of Inductor's code; the forward pass comes first."""
        if code not in self._steps:
            saved = {}
            if "tangents_" in code and number in self._forward:
                forward = self._forward[number]
                saved = saved_paths(forward, self._steps[forward], code)
            else:
                self._forward[number] = code
            self._steps[code] = inductor_steps(code, graph, saved)
        return self._steps[code]

    def _innermost(self, order: Iterable[int]) -> list[int]:
        """Calls of compiled code that hold no other such call."""
        rows = [row for row in order if self._name(row).startswith(HOLDERS)]
        outer = {above for row in rows for above in self._around(self._parent[row])}
        return [row for row in rows if row not in outer]

    def _around(self, row: int) -> Iterator[int]:
        """An event and all those around it, from the inside out."""
        while row >= 0:
            yield row
            row = self._parent[row]

    def _name(self, row: int) -> str:
        return str(self._ops[row]["name"])

    def _note_region(self, row: int) -> None:
        """Remember the number and the module around a region, also for gradients."""
        name = self._name(row)
        if name.startswith(REGION):
            marks = (n for n in map(self._name, self._around(row)) if n[:4] == MARK)
            number = name.removeprefix(REGION).strip()
            self._region[row] = number, next(marks, MARK)[4:].strip(".")
        elif name == FORWARD:
            self._sequences[self._sequence(row)] = self._home(row)

    def _sequence(self, row: int) -> int:
        return int(self._ops[row].get("args", {}).get("Sequence number", -1))

    def _home(self, row: int) -> tuple[str, str]:
        """Number of the region that something is in, or is the gradient of."""
        for each in self._around(row):
            if each in self._region:
                return self._region[each]
            if self._name(each) == BACKWARD:
                return self._sequences.get(self._sequence(each), ("", ""))
        return "", ""

    def _plain(
        self, children: list[int], graph: Graph | None, others: list[Graph]
    ) -> list[Step]:
        """Steps of the graph whose ops are most like those of a region."""
        best, found = ALIKE, list[Step]()
        for each in ([graph] if graph else []) + others:
            steps = [Step(node.op, node.path) for node in each.nodes]
            likeness, _ = self._compared(steps, children)
            if children and likeness > best:
                best, found = likeness, steps
        return found

    def _compared(
        self, steps: Iterable[Step], children: Iterable[int]
    ) -> tuple[float, dict[int, int]]:
        """How alike steps and ops are, and which op is which step."""
        return _compared(tuple(s.op for s in steps), tuple(map(self._name, children)))

    def _marked(
        self, row: int, children: list[int], steps: list[Step], outer: str
    ) -> Iterator[dict[str, Any]]:
        """Marks around ops, and fused kernels where nothing shows between these."""
        seen = [i for i, step in enumerate(steps) if not step.is_fused]
        _, found = self._compared((steps[i] for i in seen), children)
        at = {place: seen[step] for place, step in found.items()}
        region = self._ops[row]
        last, until = -1, region["ts"] + EDGE_US
        for place, child in enumerate(children):
            event = self._ops[child]
            if place not in at:
                continue
            fused = [s for s in steps[last + 1 : at[place]] if s.is_fused]
            yield from self._fused(region, until, event["ts"], fused, outer)
            path = self._absolute(outer, steps[at[place]].path)
            until = event["ts"] + event["dur"] + EDGE_US
            yield _event(region, MARK + path, event["ts"] - EDGE_US, until)
            last = at[place]
        fused = [s for s in steps[last + 1 :] if s.is_fused]
        end = region["ts"] + region["dur"]
        yield from self._fused(region, until, end, fused, outer)

    def _fused(
        self, like: Any, begin: float, end: float, steps: list[Step], outer: str
    ) -> Iterator[dict[str, Any]]:
        begin, end = begin + EDGE_US, end - 2 * EDGE_US
        if not steps or end - begin < 4 * EDGE_US:
            return
        path = self._absolute(outer, shared_path(step.path for step in steps))
        name = " + ".join(dict.fromkeys(step.op for step in steps))
        yield _event(like, MARK + path, begin, end)
        yield _event(like, name, begin + EDGE_US, end - EDGE_US)

    def _absolute(self, outer: str, path: str) -> str:
        """A path below a module; the module itself where it has no such part."""
        whole = ".".join(filter(None, (outer, path)))
        return whole if whole in self._known else outer


@lru_cache(maxsize=64)  # a region does the same at every call
def _compared(
    ops: tuple[str, ...], names: tuple[str, ...]
) -> tuple[float, dict[int, int]]:
    matcher = SequenceMatcher(None, ops, names, False)
    blocks = matcher.get_matching_blocks()
    return matcher.ratio(), {b + n: a + n for a, b, size in blocks for n in range(size)}


def _event(like: Mapping[str, Any], name: str, begin: float, end: float) -> Any:
    where = {key: like[key] for key in ("ph", "cat", "pid", "tid")}
    return {**where, "name": name, "ts": begin, "dur": end - begin}
