"""A Kineto trace, as the PyTorch profiler writes it, becomes events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from irene.account.align.nesting import Nesting, nest
from irene.account.events import CPU, PHASES, PYTHON, Coded, Events, RecordedTrace
from irene.account.readers.kineto.linking import (
    BACKWARD,
    COMMUNICATION,
    MARK,
    PHASE,
    STEP,
    KernelLinks,
    Places,
    Starts,
    link_kernels,
    place,
)
from irene.account.readers.kineto.stream import TraceFile
from irene.account.readers.kineto.trace_columns import (
    ANNOTATION,
    COPY,
    FILL,
    KERNEL,
    MODULE,
    OP,
    Columns,
    collect,
)
from irene.arrays import Bools, Floats, Ints
from irene.errors import FormatError

YEAR_2001_US = 1e15
"""Times before are not since 1970 but need a base."""


@dataclass(frozen=True, slots=True)
class LinkedTrace:
    """A trace in which everything has found its place: host, kernels, modules."""

    columns: Columns
    start_ns: Ints
    end_ns: Ints
    host: Ints
    nesting: Nesting
    links: KernelLinks
    places: Places

    @classmethod
    def of(cls, columns: Columns, base_ns: int) -> LinkedTrace:
        """Link all events of a trace whose times count from `base_ns`."""
        whole = np.floor(columns.ts_us)
        part = np.rint((columns.ts_us - whole) * 1e3)
        start_ns = base_ns + whole.astype(np.int64) * 1000 + part.astype(np.int64)
        end_ns = start_ns + np.rint(columns.duration_us * 1e3).astype(np.int64)
        is_host = np.isin(columns.kind, (OP, ANNOTATION, MODULE))
        host = np.flatnonzero(is_host & ~_is_step(columns))
        nesting = nest(columns.lane[host], start_ns[host], end_ns[host])
        links = link_kernels(columns, start_ns, end_ns, host)
        places = place(columns, host, start_ns[host], nesting.parent)
        return cls(columns, start_ns, end_ns, host, nesting, links, places)

    @property
    def rows(self) -> Ints:
        """Rows of the events that are made: the host's, then the accelerators'."""
        return np.concatenate((self.host, self.links.rows))

    def events(self, notes: Sequence[str], shapes: bool) -> Events:
        """All of it as events."""
        columns, host, links, rows = self.columns, self.host, self.links, self.rows
        where = np.full(len(columns), -1, dtype=np.int64)
        where[host] = np.arange(len(host))
        launcher = np.where(links.host >= 0, where[links.host], -1)
        scope = _behind(self.places.scope, launcher, 0)
        phase = _behind(self.places.phase, launcher, PHASE["other"])
        talks = Starts(columns.names, columns.name[rows]).with_prefix(*COMMUNICATION)
        phase[talks] = PHASE["communication"]
        labels, step = self._steps()
        own_step = np.where(
            launcher >= 0, step[np.maximum(links.host, 0)], step[links.rows]
        )
        return Events(
            self.start_ns[rows],
            np.concatenate((self.nesting.end_ns, self.end_ns[links.rows])),
            Coded(columns.name[rows], columns.names),
            self._ops(shapes),
            Coded(scope, self.places.scopes),
            Coded(phase, PHASES),
            self._devices(),
            Coded(columns.lane[rows], columns.lanes),
            np.concatenate((self.nesting.parent, np.full(len(links.rows), -1))),
            np.concatenate((step[host], own_step)),
            _is_mark(columns, rows),
            labels,
            self._weights(),
            (*notes, *self._lost(), *self.nesting.notes),
        )

    def _steps(self) -> tuple[tuple[str, ...], Ints]:
        """Labels of the steps, and the step of every row by its begin."""
        columns, start_ns = self.columns, self.start_ns
        step = np.full(len(columns), -1, dtype=np.int64)
        rows = np.flatnonzero(_is_step(columns))
        rows = rows[np.argsort(start_ns[rows], kind="stable")]
        labels = dict.fromkeys(columns.names[columns.name[row]] for row in rows)
        number = {label: index for index, label in enumerate(labels)}
        if len(rows):
            index = np.array([number[columns.names[columns.name[row]]] for row in rows])
            place = np.searchsorted(start_ns[rows], start_ns, side="right") - 1
            here = np.maximum(place, 0)
            inside = (place >= 0) & (start_ns < self.end_ns[rows][here])
            step = np.where(inside, index[here], -1)
        return tuple(label.removeprefix("ProfilerStep") for label in labels), step

    def _ops(self, shapes: bool) -> Coded:
        """Op of every event: of kernels, the op that launched them."""
        columns, links = self.columns, self.links
        index: dict[str, int] = {}
        short = [index.setdefault(_op_name(name), len(index)) for name in columns.names]
        python = index.setdefault(PYTHON, len(index))
        codes = np.array(short, dtype=np.int64)[columns.name]
        if shapes:
            codes = self._told_apart(codes, index)
        # A kernel that no op launched, but a fused optimizer, say, has the mark's name.
        linked = links.host >= 0
        codes[links.rows[linked]] = codes[links.host[linked]]
        codes[_is_mark(columns, np.arange(len(columns)))] = python
        return Coded(codes[self.rows], tuple(index))

    def _told_apart(self, codes: Ints, index: dict[str, int]) -> Ints:
        """Numbers of ops with the shapes of their inputs, which `index` is given."""
        names, shape = list(index), self.columns.shape
        pairs, where = np.unique(
            np.column_stack((codes, shape)), axis=0, return_inverse=True
        )
        told = [f"{names[op]} {self.columns.shapes[s]}".strip() for op, s in pairs]
        numbers = [index.setdefault(name, len(index)) for name in told]
        return np.array(numbers, dtype=np.int64)[where.ravel()]

    def _devices(self) -> Coded:
        device = self.columns.device[self.links.rows]
        numbers = np.unique(device)
        names = (f"cuda:{number}" if number >= 0 else "cuda" for number in numbers)
        codes = 1 + np.searchsorted(numbers, device)
        on_host = np.zeros(len(self.host), np.int64)
        return Coded(np.concatenate((on_host, codes)), (CPU, *names))

    def _weights(self) -> dict[str, Floats]:
        """What is known about each event; an op's FLOPs are shared by its kernels."""
        columns, links, rows = self.columns, self.links, self.rows
        flops, hosts = columns.flops[rows].copy(), len(self.host)
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
        return {
            key: values for key, values in found.items() if np.isfinite(values).any()
        }

    def _lost(self) -> list[str]:
        """What to say of kernels that no op is known for."""
        lost = int((self.links.host < 0).sum())
        if not lost:
            return []
        return [
            f"warning: {lost:,} of {len(self.links.rows):,} kernels and copies have no "
            "op: what launched them is not in the trace"
        ]


More = Callable[[Iterator[dict[str, Any]]], Iterator[dict[str, Any]]]
NO_SHAPES = (
    "warning: the trace has no shapes: record it with "
    "torch.profiler.profile(record_shapes=True)"
)
JAX_NAMES = (".trace.json.gz", ".trace.json")
JAX_TRACE = (
    "if it is a trace of JAX or TensorFlow, give the *.xplane.pb that lies beside it: "
    "that one holds the ops"
)


def read_kineto(
    path: str | Path, shapes: bool = False, more: More = iter
) -> RecordedTrace:
    """Read a Kineto trace, plain or compressed; a cut one as far as it goes.

    Raises:
        UsageError: There is no such file.
        FormatError: It is no trace, or has no events of ops.
    """
    file = TraceFile(Path(path))
    columns = collect(more(file.events()))
    if not np.isin(columns.kind, (OP, KERNEL, COPY, FILL, ANNOTATION)).any():
        looks = f"; {JAX_TRACE}" if str(path).endswith(JAX_NAMES) else ""
        raise FormatError(f"{path} has no events of ops{_cut_words(file)}{looks}")
    base_ns, has_clock = _base_ns(file.metadata, columns)
    linked = LinkedTrace.of(columns, base_ns)
    notes = _notes(file, columns, has_clock)
    if shapes and len(columns.shapes) == 1:
        notes.append(NO_SHAPES)
    return RecordedTrace(linked.events(notes, shapes), has_clock)


def _base_ns(metadata: dict[str, Any], columns: Columns) -> tuple[int, bool]:
    """What is added to the times, ns, and whether they are then since 1970."""
    base = metadata.get("baseTimeNanoseconds")
    if isinstance(base, int) and not isinstance(base, bool):
        return base, True
    return 0, bool(columns.ts_us.min() >= YEAR_2001_US)


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


def _is_step(columns: Columns) -> Bools:
    """Rows of the profiler's steps."""
    named = Starts(columns.names, columns.name).with_prefix(STEP)
    is_step: Bools = (columns.kind == ANNOTATION) & named
    return is_step


def _is_mark(columns: Columns, rows: Ints) -> Bools:
    """Annotations, and our own marks of modules, which the profiler takes for ops."""
    named = Starts(columns.names, columns.name[rows]).with_prefix(MARK)
    return np.isin(columns.kind[rows], (ANNOTATION, MODULE)) | named


def _behind(of_host: Ints, launcher: Ints, missing: int) -> Ints:
    """A host column, and for kernels that of what launched them."""
    if not len(of_host):
        return np.full(len(launcher), missing)
    kernels = np.where(launcher >= 0, of_host[np.maximum(launcher, 0)], missing)
    return np.concatenate((of_host, kernels))


def _op_name(name: str) -> str:
    """`AddmmBackward0` for the engine's event around it; kernels without templates."""
    if name.startswith(BACKWARD):
        return name.partition(": ")[2] or name
    if name.startswith("void "):
        return name[5:].partition("<")[0].partition("(")[0]
    return name
