"""Places: module, phase and step of every event on the host."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from irene.account.arrays import Bools, Ints
from irene.account.events import PHASES
from irene.account.readers.kineto.columns import (
    ANNOTATION,
    MODULE,
    MODULE_PREFIX,
    OP,
    Columns,
)
from irene.account.readers.kineto.links import forward_of, nearest

__all__ = ["MARK", "STEP", "Places", "place"]


MARK = "mod:"
STEP = "ProfilerStep#"
BACKWARD = "autograd::engine::evaluate_function"
OPTIMIZER = "Optimizer."
DATA = "enumerate(DataLoader)"
ACCUMULATE = re.compile(r"AccumulateGrad$")
LOSS = re.compile(r"^aten::.*(loss|cross_entropy)")
COLLECTIVES = ("nccl:", "gloo:", "mpi:", "ucc:", "rccl:")
FORWARD_P, BACKWARD_P, OPTIMIZER_P, LOSS_P, DATA_P, OTHER_P = range(len(PHASES))


@dataclass(frozen=True, slots=True)
class Places:
    """Where every host event belongs.

    Attributes:
        scope: Index into `scopes`.
        phase: Index into `PHASES`.
        scopes: Paths of modules; "" first.
        scope_from: What the paths come from, in words.
        linked: Whether a backward event has the forward op it belongs to.
    """

    scope: Ints
    phase: Ints
    scopes: tuple[str, ...]
    scope_from: str
    linked: Bools


def place(columns: Columns, host: Ints, start_ns: Ints, parent: Ints) -> Places:
    """Find module and phase of every host event.

    Args:
        columns: The trace.
        host: Rows of ops and annotations.
        start_ns: Begin of each host event.
        parent: Place in `host` of the event around each, -1 for none.
    """
    name = columns.name[host]
    starts = _Starts(columns.names, name)
    in_backward = nearest(starts.with_prefix(BACKWARD), parent) >= 0
    forward = _forward_ops(columns, host, start_ns, parent, in_backward)
    paths, scope_from = _marked_paths(columns, host, start_ns, parent, starts)
    scopes = {"": 0}
    own = np.full(len(host), -1, dtype=np.int64)
    for row, path in paths.items():
        own[row] = scopes.setdefault(path, len(scopes))
    own = _backward_scopes(own, forward, parent)
    above = nearest(own >= 0, parent)
    scope = np.where(above >= 0, own[above], 0)
    has_modules = scope_from in ("mod: marks", "recorded modules")
    phase = _phases(starts, parent, in_backward, above >= 0, has_modules)
    linked = nearest(forward >= 0, parent) >= 0
    return Places(scope, phase, tuple(scopes), scope_from, linked)


class _Starts:
    """Which names begin how; each distinct name is looked at once."""

    def __init__(self, names: tuple[str, ...], name: Ints) -> None:
        self.names, self.name = names, name

    def with_prefix(self, *prefixes: str) -> Bools:
        return self._per_event([text.startswith(prefixes) for text in self.names])

    def like(self, pattern: re.Pattern[str]) -> Bools:
        return self._per_event([bool(pattern.search(text)) for text in self.names])

    def _per_event(self, flags: list[bool]) -> Bools:
        found: Bools = np.array(flags, dtype=np.bool_)[self.name]
        return found


def _forward_ops(
    columns: Columns, host: Ints, start_ns: Ints, parent: Ints, in_backward: Bools
) -> Ints:
    """Place of the forward op of every backward event that has a number of its own."""
    sequence = columns.sequence[host].copy()
    is_op = columns.kind[host] == OP
    # The event around a gradient function has no number in some traces: take its
    # child's, so that its own time has a home too.
    bare = in_backward & (sequence < 0)
    lenders = np.flatnonzero(in_backward & (sequence >= 0) & (parent >= 0))
    lenders = lenders[bare[parent[lenders]]]
    sequence[parent[lenders]] = sequence[lenders]
    is_forward = is_op & ~in_backward & (columns.forward_thread[host] <= 0)
    forward = forward_of(sequence, start_ns, is_forward, in_backward)
    return _accumulated(columns, host, start_ns, parent, in_backward, forward)


def _accumulated(
    columns: Columns,
    host: Ints,
    start_ns: Ints,
    parent: Ints,
    in_backward: Bools,
    forward: Ints,
) -> Ints:
    """Give the accumulation of a gradient the forward op of what made the gradient.

    It has no number. The engine runs it before anything else that is ready (its place
    in the queue is the highest), so right after the function that made the gradient.
    """
    outer = np.flatnonzero(in_backward & ((parent < 0) | ~in_backward[parent]))
    outer = outer[np.lexsort((start_ns[outer], columns.lane[host[outer]]))]
    adds = _Starts(columns.names, columns.name[host[outer]]).like(ACCUMULATE)
    if not adds.any():
        return forward
    last = np.maximum.accumulate(np.where(adds, -1, np.arange(len(outer))))
    maker, lane = np.maximum(last, 0), columns.lane[host[outer]]
    fits = adds & (last >= 0) & (forward[outer] < 0) & (lane == lane[maker])
    fits &= forward[outer[maker]] >= 0
    found = forward.copy()
    found[outer[fits]] = forward[outer[last[fits]]]
    return found


def _backward_scopes(own: Ints, forward: Ints, parent: Ints) -> Ints:
    """Give every backward event the module of its forward op."""
    seekers = np.flatnonzero(forward >= 0)
    above = nearest(own >= 0, parent)
    home = above[forward[seekers]]
    result = own.copy()
    result[seekers] = np.where(home >= 0, own[np.maximum(home, 0)], 0)
    return result


def _marked_paths(
    columns: Columns, host: Ints, start_ns: Ints, parent: Ints, starts: _Starts
) -> tuple[dict[int, str], str]:
    """Paths of the marks of modules, by place, and what kind of marks they are."""
    ours = np.flatnonzero(starts.with_prefix(MARK))
    if len(ours):
        names = columns.names
        paths = {
            i: names[starts.name[i]][len(MARK) :].strip(".") for i in ours.tolist()
        }
        return paths, "mod: marks"
    modules = columns.kind[host] == MODULE
    if modules.any():
        return _joined(columns, modules, starts, start_ns, parent), "recorded modules"
    other = columns.kind[host] == ANNOTATION
    other &= ~starts.with_prefix(OPTIMIZER, DATA, STEP, *COLLECTIVES)
    if other.any():
        return _joined(columns, other, starts, start_ns, parent), "annotations"
    return {}, "nothing"


def _joined(
    columns: Columns, flag: Bools, starts: _Starts, start_ns: Ints, parent: Ints
) -> dict[int, str]:
    """Paths of nested marks: names joined with dots."""
    rows = np.flatnonzero(flag)
    rows = rows[np.argsort(start_ns[rows], kind="stable")]
    above = nearest(flag, np.where(parent >= 0, parent, -1))
    paths: dict[int, str] = {}
    waiting = rows.tolist()
    while waiting:
        later = []
        for row in waiting:
            up = int(above[parent[row]]) if parent[row] >= 0 else -1
            if up >= 0 and up not in paths:
                later.append(row)
                continue
            name = columns.names[starts.name[row]].removeprefix(MODULE_PREFIX)
            name = name.replace(".", "_").strip() or "_"
            paths[row] = f"{paths[up]}.{name}" if up >= 0 else name
        waiting = later
    return paths


def _phases(
    starts: _Starts, parent: Ints, in_backward: Bools, inside: Bools, has_modules: bool
) -> Ints:
    """Phase of every host event; later lines win."""
    default = np.where(inside, FORWARD_P, OTHER_P) if has_modules else FORWARD_P
    phase = np.zeros(len(parent), dtype=np.int64) + default
    phase[starts.with_prefix(*COLLECTIVES)] = OTHER_P
    phase[nearest(starts.like(LOSS), parent) >= 0] = LOSS_P
    phase[in_backward] = BACKWARD_P
    phase[nearest(starts.with_prefix(DATA), parent) >= 0] = DATA_P
    phase[nearest(starts.with_prefix(OPTIMIZER), parent) >= 0] = OPTIMIZER_P
    return phase
