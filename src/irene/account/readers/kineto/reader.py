"""A Kineto trace, as the PyTorch profiler writes it, becomes events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from irene.account.align.nesting import Nesting, nest
from irene.account.arrays import Bools, Floats, Ints
from irene.account.events import CPU, PHASES, PYTHON, Coded, Events
from irene.account.readers.kineto.columns import (
    ANNOTATION,
    COPY,
    FILL,
    KERNEL,
    MODULE,
    OP,
    Columns,
    collect,
)
from irene.account.readers.kineto.links import KernelLinks, link_kernels
from irene.account.readers.kineto.places import BACKWARD, MARK, STEP, Places, place
from irene.account.readers.kineto.stream import TraceFile
from irene.errors import FormatError

__all__ = ["KinetoTrace", "Linking", "read_kineto"]


YEAR_2001_US = 1e15
"""Times before are not since 1970 but need a base."""


@dataclass(frozen=True, slots=True)
class Linking:
    """How many events were linked to what.

    Attributes:
        kernels: Kernels, and how many of them have an op.
        copies: Copies between memories, the same.
        fills: Fills of memory, the same.
        by_external_id: Linked by `External id`.
        by_correlation: Linked through a runtime call.
        to_annotation: Linked, but only to an annotation.
        backward: Backward events, and how many have their forward op.
        backward_s: Time of gradient functions, and how much of it has its forward op.
    """

    kernels: tuple[int, int]
    copies: tuple[int, int]
    fills: tuple[int, int]
    by_external_id: int
    by_correlation: int
    to_annotation: int
    backward: tuple[int, int]
    backward_s: tuple[float, float]


@dataclass(frozen=True, slots=True)
class KinetoTrace:
    """A trace that was read.

    Attributes:
        events: What ran.
        linking: How well its events could be linked.
        has_clock: Whether its times are since 1970; if not, they need an offset.
        scope_from: What modules were told by, in words.
        metadata: What the file says beside its events.
    """

    events: Events
    linking: Linking
    has_clock: bool
    scope_from: str
    metadata: dict[str, Any]


def read_kineto(path: str | Path) -> KinetoTrace:
    """Read a Kineto trace, plain or compressed; a cut one as far as it goes.

    Raises:
        UsageError: There is no such file.
        FormatError: It is no trace, or has no events of ops.
    """
    file = TraceFile(Path(path))
    columns = collect(file.events())
    if not np.isin(columns.kind, (OP, KERNEL, COPY, FILL, ANNOTATION)).any():
        raise FormatError(f"{path} has no events of ops{_cut_words(file)}")
    base_ns, has_clock = _base_ns(file.metadata, columns)
    start_ns, end_ns = _times(columns, base_ns)
    notes = _notes(file, columns, has_clock)
    return _trace(file.metadata, columns, start_ns, end_ns, has_clock, notes)


def _base_ns(metadata: dict[str, Any], columns: Columns) -> tuple[int, bool]:
    """What is added to the times, ns, and whether they are then since 1970."""
    base = metadata.get("baseTimeNanoseconds")
    if isinstance(base, int) and not isinstance(base, bool):
        return base, True
    return 0, bool(columns.ts_us.min() >= YEAR_2001_US)


def _times(columns: Columns, base_ns: int) -> tuple[Ints, Ints]:
    """Begins and ends, ns."""
    whole = np.floor(columns.ts_us)
    part = np.rint((columns.ts_us - whole) * 1e3)
    start = base_ns + whole.astype(np.int64) * 1000 + part.astype(np.int64)
    return start, start + np.rint(columns.duration_us * 1e3).astype(np.int64)


def _notes(file: TraceFile, columns: Columns, has_clock: bool) -> list[str]:
    notes = []
    if file.cut_at is not None:
        notes.append(
            f"warning: the trace is cut off at byte {file.cut_at:,} ({file.cut_why}); "
            f"the {len(columns):,} whole events before it are used"
        )
    if columns.skipped:
        notes.append(f"warning: {columns.skipped:,} events have no usable time")
    if not has_clock:
        notes.append(
            "warning: the trace has no clock base (baseTimeNanoseconds), its times are "
            "not since 1970"
        )
    return notes


def _cut_words(file: TraceFile) -> str:
    if file.cut_at is None:
        return ""
    return f"; it is cut off at byte {file.cut_at:,} ({file.cut_why})"


def _trace(
    metadata: dict[str, Any],
    columns: Columns,
    start_ns: Ints,
    end_ns: Ints,
    has_clock: bool,
    notes: list[str],
) -> KinetoTrace:
    host, steps = _host_and_steps(columns)
    nesting = nest(columns.lane[host], start_ns[host], end_ns[host])
    links = link_kernels(columns, start_ns, end_ns, host)
    places = place(columns, host, start_ns[host], nesting.parent)
    labels, step = _steps(columns, steps, start_ns, end_ns)
    events = _events(
        columns, host, nesting, places, links, start_ns, end_ns, step, labels
    )
    linking = _linking(columns, host, nesting, places, links, start_ns)
    if links.rows.size and (lost := int((links.host < 0).sum())):
        notes.append(
            f"warning: {lost:,} of {len(links.rows):,} kernels and copies have no op: "
            "what launched them is not in the trace"
        )
    events = events.noted(*notes, *nesting.notes)
    return KinetoTrace(events, linking, has_clock, places.scope_from, metadata)


def _host_and_steps(columns: Columns) -> tuple[Ints, Ints]:
    """Rows of ops and marks, and rows of the profiler's steps."""
    is_step = np.array([name.startswith(STEP) for name in columns.names], np.bool_)
    steps = (columns.kind == ANNOTATION) & is_step[columns.name]
    host = np.isin(columns.kind, (OP, ANNOTATION, MODULE)) & ~steps
    return np.flatnonzero(host), np.flatnonzero(steps)


def _steps(
    columns: Columns, rows: Ints, start_ns: Ints, end_ns: Ints
) -> tuple[tuple[str, ...], Ints]:
    """Labels of the steps, and the step of every row by its begin."""
    step = np.full(len(columns), -1, dtype=np.int64)
    rows = rows[np.argsort(start_ns[rows], kind="stable")]
    labels = dict.fromkeys(columns.names[columns.name[row]] for row in rows)
    number = {label: index for index, label in enumerate(labels)}
    if len(rows):
        index = np.array([number[columns.names[columns.name[row]]] for row in rows])
        place = np.searchsorted(start_ns[rows], start_ns, side="right") - 1
        here = np.maximum(place, 0)
        inside = (place >= 0) & (start_ns < end_ns[rows][here])
        step = np.where(inside, index[here], -1)
    return tuple(label.removeprefix("ProfilerStep") for label in labels), step


def _events(
    columns: Columns,
    host: Ints,
    nesting: Nesting,
    places: Places,
    links: KernelLinks,
    start_ns: Ints,
    end_ns: Ints,
    step: Ints,
    labels: tuple[str, ...],
) -> Events:
    """All columns: the host's events first, then the accelerators'."""
    where = np.full(len(columns), -1, dtype=np.int64)
    where[host] = np.arange(len(host))
    launcher = np.where(links.host >= 0, where[links.host], -1)
    has_op = launcher >= 0
    rows = np.concatenate((host, links.rows))
    ops = _ops(columns, host, links)
    home = np.where(has_op, launcher, 0)

    def behind(of_host: Ints, missing: int) -> Ints:
        """A host column, and for kernels that of what launched them."""
        kernels = (
            np.where(has_op, of_host[home], missing)
            if len(host)
            else np.full(len(home), missing)
        )
        return np.concatenate((of_host, kernels))

    own_step = np.where(has_op, step[np.maximum(links.host, 0)], step[links.rows])
    return Events(
        start_ns[rows],
        np.concatenate((nesting.end_ns, end_ns[links.rows])),
        Coded(columns.name[rows], columns.names),
        ops,
        Coded(behind(places.scope, 0), places.scopes),
        Coded(behind(places.phase, PHASES.index("other")), PHASES),
        _devices(columns, host, links.rows),
        Coded(columns.lane[rows], columns.lanes),
        np.concatenate((nesting.parent, np.full(len(links.rows), -1))),
        np.concatenate((step[host], own_step)),
        _is_mark(columns, rows),
        labels,
        _weights(columns, rows, links, len(host)),
    )


def _is_mark(columns: Columns, rows: Ints) -> Bools:
    """Annotations, and our own marks of modules, which the profiler takes for ops."""
    named = np.array([name.startswith(MARK) for name in columns.names], np.bool_)
    marks: Bools = np.isin(columns.kind[rows], (ANNOTATION, MODULE))
    return marks | named[columns.name[rows]]


def _ops(columns: Columns, host: Ints, links: KernelLinks) -> Coded:
    """Op of every event: of kernels, the op that launched them."""
    index: dict[str, int] = {}
    short = [index.setdefault(_op_name(name), len(index)) for name in columns.names]
    python = index.setdefault(PYTHON, len(index))
    codes = np.array(short, dtype=np.int64)[columns.name]
    # A kernel that no op launched, but a fused optimizer, say, has the mark's name.
    linked = links.host >= 0
    codes[links.rows[linked]] = codes[links.host[linked]]
    codes[_is_mark(columns, np.arange(len(columns)))] = python
    rows = np.concatenate((host, links.rows))
    return Coded(codes[rows], tuple(index))


def _op_name(name: str) -> str:
    """`AddmmBackward0` for the engine's event around it; kernels without templates."""
    if name.startswith(BACKWARD):
        return name.partition(": ")[2] or name
    if name.startswith("void "):
        return name[5:].partition("<")[0].partition("(")[0]
    return name


def _devices(columns: Columns, host: Ints, kernels: Ints) -> Coded:
    numbers = np.unique(columns.device[kernels])
    names = (CPU, *(f"cuda:{number}" if number >= 0 else "cuda" for number in numbers))
    codes = 1 + np.searchsorted(numbers, columns.device[kernels])
    return Coded(np.concatenate((np.zeros(len(host), np.int64), codes)), names)


def _weights(
    columns: Columns, rows: Ints, links: KernelLinks, hosts: int
) -> dict[str, Floats]:
    """What is known about each event; an op's FLOPs are shared by its kernels."""
    flops = columns.flops[rows].copy()
    linked = np.flatnonzero(links.host >= 0)
    if np.isfinite(flops[:hosts]).any() and len(linked):
        launched = np.bincount(links.host[linked], minlength=len(columns))
        op = links.host[linked]
        flops[hosts + linked] = columns.flops[op] / launched[op]
    found = {
        "flops": flops,
        "bytes": columns.bytes[rows],
        "threads": columns.threads[rows],
        "sm": np.minimum(columns.blocks_per_sm[rows], 1.0),
    }
    return {key: values for key, values in found.items() if np.isfinite(values).any()}


def _linking(
    columns: Columns,
    host: Ints,
    nesting: Nesting,
    places: Places,
    links: KernelLinks,
    start_ns: Ints,
) -> Linking:
    def of_kind(kind: int) -> tuple[int, int]:
        here = columns.kind[links.rows] == kind
        return int(here.sum()), int((here & (links.host >= 0)).sum())

    backward = places.phase == PHASES.index("backward")
    # Only the outermost: nested durations are never added up.
    outer = backward & ((nesting.parent < 0) | ~backward[nesting.parent])
    length_s = (nesting.end_ns - start_ns[host]) * 1e-9
    return Linking(
        of_kind(KERNEL),
        of_kind(COPY),
        of_kind(FILL),
        links.by_external_id,
        links.by_correlation,
        links.to_annotation,
        (int(backward.sum()), int((backward & places.linked).sum())),
        (
            float(length_s[outer].sum()),
            float(length_s[outer & places.linked].sum()),
        ),
    )
