"""Events: what a program did and when, as columns.

A million op calls are a dozen arrays, not a million objects. Every reader of a trace
and every collector makes the same `Events`; everything after it knows no framework.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from irene.account.align.nesting import nest
from irene.arrays import Bools, Floats, Ints
from irene.errors import FormatError

PHASES = (
    "forward", "backward", "optimizer", "loss", "data", "communication", "compile",
    "other",
)  # fmt: skip
CPU = "cpu"
PYTHON = "(python)"
"""Op of a mark: what a stretch of a program does while no op runs."""
WEIGHTS = ("flops", "bytes", "threads", "sm")
"""What may be known about an op: FLOPs, bytes moved, threads it runs on, and the share
of the device's multiprocessors that it keeps busy."""


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of few distinct strings: the place of each event's in `names`."""

    codes: Ints
    names: tuple[str, ...]

    @classmethod
    def from_strings(cls, strings: Iterable[str]) -> Coded:
        """Number the strings in the order in which they first appear."""
        index: dict[str, int] = {}
        codes = [index.setdefault(text, len(index)) for text in strings]
        return cls(np.array(codes, dtype=np.int64), tuple(index))

    def __getitem__(self, row: int) -> str:
        return self.names[int(self.codes[row])]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True)
class Events:
    """What ran, where, for which module, in which phase and step.

    Events of one lane nest: an op that calls another is its parent. An event is charged
    for its own time only, that is without its children's.

    Attributes:
        start_ns: When each began, ns since 1970.
        end_ns: When it ended; never before it began, nor after its parent's end.
        name: What it is called in the trace (the kernel's name, for a kernel).
        op: The framework's op that it belongs to.
        scope: Dotted path of the module it runs for, "" for none.
        phase: One of `PHASES`.
        device: Device it keeps busy, as torch names it.
        lane: Thread or stream, in which events nest and follow each other.
        parent: Row of the event around it in its lane, -1 for none.
        step: Index into `steps`, -1 outside every step.
        is_mark: True for a stretch of a program that is no op itself: a module's
            forward, an annotation. It is charged only while no op of its device runs.
        steps: Labels of the steps.
        weights: Columns by name, of `WEIGHTS`; NaN where not known.
        notes: What a reader should know, in words.
    """

    start_ns: Ints
    end_ns: Ints
    name: Coded
    op: Coded
    scope: Coded
    phase: Coded
    device: Coded
    lane: Coded
    parent: Ints
    step: Ints
    is_mark: Bools
    steps: tuple[str, ...] = ()
    weights: Mapping[str, Floats] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.start_ns)
        for column in fields(self):
            if column.name in ("steps", "weights", "notes"):
                continue
            if len(getattr(self, column.name)) != count:
                raise ValueError(f"column {column.name} is not of {count} events")
        if count and bool((self.end_ns < self.start_ns).any()):
            row = int(np.argmax(self.end_ns < self.start_ns))
            raise FormatError(
                f"event {row} ({self.name[row]!r}) ends "
                f"{int(self.start_ns[row] - self.end_ns[row])} ns before it begins"
            )
        if count and int(self.step.max()) >= len(self.steps):
            raise ValueError(
                f"step {int(self.step.max())} of {len(self.steps)} steps with a label"
            )
        if bad := set(self.phase.names) - set(PHASES):
            raise ValueError(f"unknown phases {sorted(bad)}")

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def span_ns(self) -> tuple[int, int]:
        """Begin of the first and end of the last event."""
        if not len(self):
            return (0, 0)
        return int(self.start_ns.min()), int(self.end_ns.max())

    def noted(self, *notes: str) -> Events:
        """The same events with more notes."""
        return replace(self, notes=(*self.notes, *notes))


@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """A trace that was read; without a clock its times need an offset."""

    events: Events
    has_clock: bool


class EventsBuilder:
    """Collects events one by one, in any order."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._weights: dict[str, dict[int, float]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        *,
        op: str | None = None,
        scope: str = "",
        phase: str = "other",
        device: str = CPU,
        lane: str = "0",
        step: int = -1,
        is_mark: bool = False,
        **weights: float,
    ) -> int:
        """Append an event and return its row; fields are those of `Events`."""
        row = len(self._rows)
        op = (PYTHON if is_mark else name) if op is None else op
        lane = f"{device} {lane}"
        self._rows.append(
            (start_ns, end_ns, name, op, scope, phase, device, lane, step, is_mark)
        )
        for key, value in weights.items():
            self._weights.setdefault(key, {})[row] = value
        return row

    def build(self, steps: Sequence[str] = (), notes: Sequence[str] = ()) -> Events:
        """The events in the order in which they were added."""
        columns = list(zip(*self._rows, strict=True)) or [()] * 10
        start, end = (np.array(column, dtype=np.int64) for column in columns[:2])
        name, op, scope, phase, device, lane = map(Coded.from_strings, columns[2:8])
        nesting = nest(lane.codes, start, end)
        return Events(
            start,
            nesting.end_ns,
            name,
            op,
            scope,
            phase,
            device,
            lane,
            nesting.parent,
            np.array(columns[8], dtype=np.int64),
            np.array(columns[9], dtype=np.bool_),
            tuple(steps),
            {key: self._column(key) for key in self._weights},
            (*notes, *nesting.notes),
        )

    def _column(self, key: str) -> Floats:
        column = np.full(len(self._rows), np.nan)
        known = self._weights[key]
        column[list(known)] = list(known.values())
        return column
