"""Linking: what belongs to what in a Kineto trace.

Kernels belong to the op that launched them, backward ops to a forward op, and both to a
module and a phase.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from irene.account.align.nesting import nest
from irene.account.events import PHASES
from irene.account.readers.kineto.trace_columns import (
    ANNOTATION,
    KERNEL,
    MODULE,
    MODULE_PREFIX,
    OP,
    RUNTIME,
    Columns,
)
from irene.arrays import Bools, Ints

ROUNDING_NS = 1_000
"""Old traces are in whole microseconds: a launch may seem to begin as its op ends."""


@dataclass(frozen=True, slots=True)
class KernelLinks:
    """Rows of kernels, copies, fills; of the host's op that launched each, -1: none."""

    rows: Ints
    host: Ints


def nearest(flag: Bools, parent: Ints) -> Ints:
    """Every row itself or the nearest above it that is flagged, -1 for none."""
    found = np.arange(len(flag), dtype=np.int64)
    seeking = np.flatnonzero(~flag)
    while len(seeking):
        found[seeking] = parent[found[seeking]]
        seeking = seeking[found[seeking] >= 0]
        seeking = seeking[~flag[found[seeking]]]
    return found


def link_kernels(
    columns: Columns, start_ns: Ints, end_ns: Ints, host: Ints
) -> KernelLinks:
    """Link every kernel, copy and fill to what launched it.

    Since 2024 `External id` names the op. Before, it repeated `correlation`, which
    names a runtime call; the op is then the innermost one around that call on its
    thread.
    """
    rows = np.flatnonzero(columns.kind >= KERNEL)
    found = np.full(len(rows), -1, dtype=np.int64)
    external, correlation = columns.external[rows], columns.correlation[rows]
    is_own = (external >= 0) & (external != correlation)
    found[is_own] = _rows_with(columns.external, host, external[is_own])
    left = np.flatnonzero(found < 0)
    calls = np.flatnonzero(columns.kind == RUNTIME)
    call = _rows_with(columns.correlation, calls, correlation[left])
    around = _around(columns, start_ns, end_ns, host, calls)
    found[left] = np.where(call >= 0, around[call], -1)
    # A call that is not in the trace: an identifier of its own is better than nothing.
    lost = np.flatnonzero(
        (found < 0) & ~np.isin(correlation, columns.correlation[calls])
    )
    found[lost] = _rows_with(columns.external, host, external[lost])
    return KernelLinks(rows, found)


def _rows_with(column: Ints, rows: Ints, wanted: Ints) -> Ints:
    """For each wanted value the last of some rows that has it, -1 for none."""
    if not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = rows[np.argsort(column[rows], kind="stable")]
    values = column[order]
    place = np.searchsorted(values, wanted, side="right") - 1
    row = order[np.maximum(place, 0)]
    return np.where((place >= 0) & (column[row] == wanted) & (wanted >= 0), row, -1)


def _around(
    columns: Columns, start_ns: Ints, end_ns: Ints, host: Ints, calls: Ints
) -> Ints:
    """Innermost op around each runtime call, else annotation; by row, -1 for none."""
    around = np.full(len(columns), -1, dtype=np.int64)
    for slip_ns in (0, ROUNDING_NS):
        open_calls = calls[(around[calls] < 0) | (columns.kind[around[calls]] != OP)]
        if not len(open_calls) or not len(host):
            break
        moment = start_ns[open_calls] - slip_ns
        rows = np.concatenate((host, open_calls))
        begin = np.concatenate((start_ns[host], moment))
        end = np.concatenate((end_ns[host], moment))
        parent = nest(columns.lane[rows], begin, end).parent
        is_op = columns.kind[rows] == OP
        inner = nearest(is_op, parent)[len(host) :]
        best = np.where(inner >= 0, inner, parent[len(host) :])
        row = np.where(best >= 0, rows[best], -1)
        better = (row >= 0) & (
            (around[open_calls] < 0) | (columns.kind[np.maximum(row, 0)] == OP)
        )
        around[open_calls[better]] = row[better]
    return around


def forward_of(
    sequence: Ints, start_ns: Ints, is_forward: Bools, is_backward: Bools
) -> Ints:
    """The forward op of every backward op, -1 for none.

    Ops that need no gradient repeat the number of the next one that does, so the last
    forward op with a number owns it.
    """
    found = np.full(len(sequence), -1, dtype=np.int64)
    owners = np.flatnonzero(is_forward & (sequence >= 0))
    seekers = np.flatnonzero(is_backward & (sequence >= 0))
    if not len(owners) or not len(seekers):
        return found
    # Sort both together by number and time: the owner is the last one before.
    rows = np.concatenate((owners, seekers))
    seeks = np.arange(len(rows)) >= len(owners)
    order = np.lexsort((seeks, start_ns[rows], sequence[rows]))
    place = np.where(seeks[order], -1, np.arange(len(order)))
    last = np.maximum.accumulate(place)
    owner = np.where(last >= 0, rows[order[np.maximum(last, 0)]], -1)
    same = (owner >= 0) & (sequence[owner] == sequence[rows[order]])
    pick = seeks[order] & same
    found[rows[order[pick]]] = owner[pick]
    return found


MARK = "mod:"
STEP = "ProfilerStep#"
BACKWARD = "autograd::engine::evaluate_function"
OPTIMIZER = "Optimizer."
DATA = "enumerate(DataLoader)"
LOADING = re.compile(r"(load|fetch|next|get)_?(batch|data)\b|data_?load", re.I)
"""What people call the part of a step that brings its data."""
ACCUMULATE = re.compile(r"AccumulateGrad$")
CHECKPOINT = re.compile(r"\bCheckpointFunctionBackward\b")
LOSS = re.compile(r"^aten::.*(loss|cross_entropy)")
COLLECTIVES = ("nccl:", "gloo:", "mpi:", "ucc:", "rccl:")
COMMUNICATION = (*COLLECTIVES, "c10d::", "record_param_comms", "nccl", "rccl")
"""Begins of names: annotations, ops of the process group, and kernels of libraries."""
COMPILE = re.compile(r"\(dynamo_timed\)$")
PHASE = {name: number for number, name in enumerate(PHASES)}


@dataclass(frozen=True, slots=True)
class Places:
    """Module and phase of every host event, and whether its forward op is known."""

    scope: Ints
    phase: Ints
    scopes: tuple[str, ...]
    linked: Bools


def place(columns: Columns, host: Ints, start_ns: Ints, parent: Ints) -> Places:
    """Find module and phase of every host event."""
    name = columns.name[host]
    starts = Starts(columns.names, name)
    engine = nearest(starts.with_prefix(BACKWARD), parent)
    in_backward = engine >= 0
    gradient = in_backward & ~_computed_again(starts, parent, engine)
    forward = _forward_ops(columns, host, start_ns, parent, gradient)
    paths, has_modules = _marked_paths(columns, host, start_ns, parent, starts)
    scopes = {"": 0}
    own = np.full(len(host), -1, dtype=np.int64)
    for row, path in paths.items():
        own[row] = scopes.setdefault(path, len(scopes))
    marked = own >= 0
    own = _backward_scopes(own, forward, parent)
    above = nearest(own >= 0, parent)
    scope = np.where(above >= 0, own[above], 0)
    phase = _phases(starts, parent, in_backward, marked)
    if has_modules:
        phase[(above < 0) & (phase == PHASE["forward"])] = PHASE["other"]
    linked = nearest(forward >= 0, parent) >= 0
    return Places(scope, phase, tuple(scopes), linked)


class Starts:
    """Which names begin how; each distinct name is looked at once."""

    def __init__(self, names: tuple[str, ...], name: Ints) -> None:
        self.names, self.name = names, name

    def with_prefix(self, *prefixes: str) -> Bools:
        """Events whose name begins with one of these."""
        return self._per_event([text.startswith(prefixes) for text in self.names])

    def like(self, pattern: re.Pattern[str]) -> Bools:
        """Events in whose name the pattern is found."""
        return self._per_event([bool(pattern.search(text)) for text in self.names])

    def _per_event(self, flags: list[bool]) -> Bools:
        found: Bools = np.array(flags, dtype=np.bool_)[self.name]
        return found


def _computed_again(starts: Starts, parent: Ints, engine: Ints) -> Bools:
    """Forward ops that reentrant checkpointing runs inside its gradient function."""
    checkpoint = starts.like(CHECKPOINT)
    inside = (parent >= 0) & checkpoint[np.maximum(engine, 0)] & (engine >= 0)
    # The function itself is a gradient's: the engine's event, and the one in it.
    return inside & ~checkpoint


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
    adds = Starts(columns.names, columns.name[host[outer]]).like(ACCUMULATE)
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
    columns: Columns, host: Ints, start_ns: Ints, parent: Ints, starts: Starts
) -> tuple[dict[int, str], bool]:
    """Paths of marks, by place, and whether they are of modules for certain."""
    ours = np.flatnonzero(starts.with_prefix(MARK))
    if len(ours):
        names = columns.names
        paths = {
            i: names[starts.name[i]][len(MARK) :].strip(".") for i in ours.tolist()
        }
        return paths, True
    modules = columns.kind[host] == MODULE
    if modules.any():
        return _joined(columns, modules, starts, start_ns, parent), True
    other = columns.kind[host] == ANNOTATION
    other &= ~starts.with_prefix(OPTIMIZER, DATA, STEP, *COMMUNICATION)
    other &= ~starts.like(COMPILE)
    if other.any():
        return _joined(columns, other, starts, start_ns, parent), False
    return {}, False


def _joined(
    columns: Columns, flag: Bools, starts: Starts, start_ns: Ints, parent: Ints
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


def _phases(starts: Starts, parent: Ints, in_backward: Bools, marked: Bools) -> Ints:
    """Phase of every host event; later lines win."""
    phase = np.full(len(parent), PHASE["forward"], dtype=np.int64)
    loss, optimizer = starts.like(LOSS), starts.with_prefix(OPTIMIZER)
    # An optimizer that is given a closure calls the model: that is no work of its own.
    nearest_mark = nearest(optimizer | marked | in_backward | loss, parent)
    begins = {
        "loss": nearest(loss, parent) >= 0,
        "backward": in_backward,
        "data": nearest(starts.with_prefix(DATA) | starts.like(LOADING), parent) >= 0,
        "optimizer": (nearest_mark >= 0) & optimizer[nearest_mark],
        "communication": nearest(starts.with_prefix(*COMMUNICATION), parent) >= 0,
        "compile": nearest(starts.like(COMPILE), parent) >= 0,
    }
    for name, rows in begins.items():
        phase[rows] = PHASE[name]
    return phase
