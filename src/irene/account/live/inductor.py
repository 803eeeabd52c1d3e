"""The code that Inductor wrote for a graph: which module each of its calls runs for.

Weights are exact: a product reads the weight of its module, or makes its gradient,
which the code returns at the place of that weight. What gradients are computed from
otherwise was made by a call of the forward pass, and handed over in the order of what
that returns. A fused kernel that nothing names runs for the smallest module that holds
all that lies between the calls around it.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

NODES = re.compile(r"# Topologically Sorted Source Nodes: \[([\w, ]*)\]")
LIBRARY = re.compile(r"(?:extern_kernels\.(\w+)|torch\.ops\.(\w+)\.(\w+))[.\w]*\(")
PRODUCT = re.compile(r"mm|linear|conv")
FUSED = re.compile(r"^\s+(\w*fused_\w+)(?:\.run)?\(")
NAME = re.compile(r"\b(?!None\b|reinterpret_tensor\b)[a-z]\w*\b")
INPUT = re.compile(r"primals_(\d+)|arg(\d+)_1")
GIVEN = re.compile(r"^\s+(\w[\w, ]*?),? = args$", re.MULTILINE)
PART = re.compile(r"(buf\d+) = (buf\d+)\[")
NOT_SAVED = re.compile(r"tangents_|s\d+$")


class Step(NamedTuple):
    """What a compiled region does at one point: an op as a trace calls it, its module.

    The module is below what was compiled. A trace of a CPU does not show fused kernels.
    """

    op: str
    path: str
    is_fused: bool = False


class Node(NamedTuple):
    """A node of a graph: its name, its module, and its op as a trace calls it."""

    name: str
    path: str
    op: str = ""


class Graph(NamedTuple):
    """Nodes in order, and for each input, if it is a weight, the nodes that use it."""

    nodes: Sequence[Node]
    inputs: Sequence[Sequence[Node]] = ()


class Call(NamedTuple):
    """A call in the code of Inductor: its op, nodes it is made of, names around it."""

    op: str
    nodes: Sequence[str]
    names: Sequence[str]
    is_fused: bool


def shared_path(paths: Iterable[str]) -> str:
    """The smallest module that holds all given ones."""
    split = [path.split(".") for path in paths]
    same = itertools.takewhile(
        lambda parts: len(set(parts)) == 1, zip(*split, strict=False)
    )
    return ".".join(parts[0] for parts in same)


def inductor_steps(
    source: str, graph: Graph, saved: Mapping[str, str] | None = None
) -> list[Step]:
    """Calls of the code that Inductor wrote for a graph, with their modules.

    A call of a library runs for the module whose weight it reads or makes the gradient
    of, else for that whose values it kept, else for its last node. A fused kernel runs
    for all that lies between the calls around it.
    """
    saved, calls = saved or {}, list(_calls(source))
    place = {node.name: number for number, node in enumerate(graph.nodes)}
    backward = "tangents_" in source
    gradients = {n: i for i, n in enumerate(returned(source)) if n and backward}
    own = [_own(call, graph, gradients) for call in calls]
    # What several calls read, as a mask, tells nothing of any.
    reads = Counter(n for c in calls if not c.is_fused for n in set(c.names))
    kept = [[saved[n] for n in c.names if n in saved and reads[n] < 2] for c in calls]
    at = {
        i: max(place[n] for n in call.nodes if n in place)
        for i, call in enumerate(calls)
        if not call.is_fused and not place.keys().isdisjoint(call.nodes)
    }
    sure = {
        i: shared_path(own[i] or kept[i] or [graph.nodes[at[i]].path])
        for i, call in enumerate(calls)
        if not call.is_fused and (own[i] or kept[i] or i in at)
    }
    steps = []
    for i, call in enumerate(calls):
        before = max((j for j in sure if j < i), default=-1)
        after = min((j for j in sure if j > i), default=-1)
        first, last = at.get(before, -1) + 1, at.get(after, len(graph.nodes))
        between = [node.path for node in graph.nodes[first:last]]
        if backward or not between:  # before the first gradient is what the loss is of
            beside = (sure.get(before, ""), sure.get(after, sure.get(before, "")))
            between = [*own[i], *kept[i], *beside]
        steps.append(
            Step(call.op, sure.get(i, shared_path(between)), is_fused=call.is_fused)
        )
    return steps


def saved_paths(source: str, steps: Sequence[Step], gradients: str) -> dict[str, str]:
    """Modules that made what the code of gradients is given, by its name there."""
    made: dict[str, str] = {}
    for call, step in zip(_calls(source), steps, strict=True):
        for name in call.names:
            if name.startswith("buf"):
                made.setdefault(name, step.path)
    made |= {part: made.get(whole, "") for part, whole in PART.findall(source)}
    given = GIVEN.search(gradients)
    names = given[1].split(", ") if given else []
    names = [name for name in names if not NOT_SAVED.match(name)]
    pairs = zip(reversed(names), reversed(returned(source)), strict=False)
    return {name: made[buffer] for name, buffer in pairs if buffer in made}


def _own(call: Call, graph: Graph, gradients: Mapping[str, int]) -> set[str]:
    """Modules whose weights a call reads, or makes the gradients of."""
    given = filter(None, map(INPUT.fullmatch, call.names))
    numbers = [int(f[1]) - 1 if f[1] else int(f[2]) for f in given]
    numbers += [gradients[name] for name in call.names if name in gradients]
    users = [u for n in numbers for each in graph.inputs[n : n + 1] for u in each]
    if not call.is_fused:  # an embedding may share its weight with the last product
        users = [user for user in users if PRODUCT.search(user.op)] or users
    return {user.path for user in users}


def _calls(source: str) -> Iterator[Call]:
    """Every call of a library or a fused kernel, in order."""
    nodes: list[str] = []
    body = source.partition("def call(")[2].partition("\n        return (")[0]
    for line in body.splitlines():
        names = NAME.findall(LIBRARY.sub("", line))
        if found := NODES.search(line):
            nodes = found[1].split(", ")
        elif found := FUSED.match(line):
            yield Call(found[1], nodes, names, is_fused=True)
            nodes = []
        elif found := LIBRARY.search(line):
            op = f"aten::{found[1]}" if found[1] else f"{found[2]}::{found[3]}"
            yield Call(op, nodes, names, is_fused=False)
            nodes = []


def returned(source: str) -> list[str]:
    """Names of what the code returns, in order; "" for nothing."""
    body = source.partition("def call(")[2]
    line = body.partition("\n        return ")[2].partition("\n")[0].strip() or "()"
    each = ast.parse(line, mode="eval").body
    parts = each.elts if isinstance(each, ast.Tuple) else [each]
    return [next(iter(NAME.findall(ast.unparse(part))), "") for part in parts]
