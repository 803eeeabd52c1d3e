"""How much of a trace was linked: counts that a good reader makes complete."""

from __future__ import annotations

from pathlib import Path

from irene.account.events import PHASES
from irene.account.readers.kineto.reader import LinkedTrace, _base_ns
from irene.account.readers.kineto.stream import TraceFile
from irene.account.readers.kineto.trace_columns import COPY, FILL, KERNEL, OP, collect

__all__ = ["backward_s", "launched", "linked_trace", "only_annotated"]


def linked_trace(path: Path) -> LinkedTrace:
    file = TraceFile(path)
    columns = collect(file.events())
    return LinkedTrace.of(columns, _base_ns(file.metadata, columns)[0])


def launched(trace: LinkedTrace) -> list[tuple[int, int]]:
    """Kernels, copies and fills, and how many of each have an op."""
    links, kinds = trace.links, trace.columns.kind[trace.links.rows]
    return [
        (int((kinds == kind).sum()), int(((kinds == kind) & (links.host >= 0)).sum()))
        for kind in (KERNEL, COPY, FILL)
    ]


def only_annotated(trace: LinkedTrace) -> int:
    """How many were linked to an annotation, as no op is around their launch."""
    host = trace.links.host
    return int((trace.columns.kind[host[host >= 0]] != OP).sum())


def backward_s(trace: LinkedTrace) -> tuple[float, float]:
    """Time of gradient functions, and how much of it has its forward op."""
    parent, places = trace.nesting.parent, trace.places
    backward = places.phase == PHASES.index("backward")
    # Only the outermost: nested durations are never added up.
    outer = backward & ((parent < 0) | ~backward[parent])
    length_s = (trace.nesting.end_ns - trace.start_ns[trace.host]) * 1e-9
    return float(length_s[outer].sum()), float(length_s[outer & places.linked].sum())
