"""A collection in numbers: what is there, how long the rest takes, how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from irene.collect.measuring import Measuring
from irene.collect.sweep import Sweep
from irene.dataset.store import Entry, Store
from irene.errors import IreneError
from irene.plain import Document
from irene.spec import RunSpec
from irene.work.task import describe_place

PLAN_SCHEMA = "irene.collection-plan/1"
State = Literal["open", "measured", "failed"]


@dataclass(frozen=True, slots=True)
class Point(Document):
    """One run of a sweep, with the hash of its config if that could be found.

    `model` is as the sweep names it. What failed before is left alone; nobody may know
    how long it takes.
    """

    spec: RunSpec
    model: str = field(metadata={"kept": False})
    state: State = "open"
    problem: str = ""
    guess_s: float | None = None

    @property
    def key(self) -> str:
        """Names the point."""
        return self.spec.digest


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """A sweep, compared with a store.

    `slower` is the factor between what was measured before and what was guessed for it.
    """

    sweep: Sweep
    points: tuple[Point, ...]
    slower: float = 1.0
    learned_from: int = 0
    notes: tuple[str, ...] = ()

    def count(self, state: State) -> int:
        """How many points are in a state."""
        return sum(point.state == state for point in self.points)

    @property
    def open(self) -> list[Point]:
        """Points that are to be measured."""
        return [point for point in self.points if point.state == "open"]

    @property
    def left_s(self) -> float:
        """Guess for all open points, one after the other, s."""
        return self.slower * sum(point.guess_s or 0.0 for point in self.open)

    @property
    def basis(self) -> str:
        """How the guess is known, in words."""
        guessed = sum(point.guess_s is not None for point in self.open)
        words = "guessed from FLOPs"
        if guessed < len(self.open):
            words += (
                f" for {guessed} of {len(self.open)} runs, the others are not in it"
            )
        if self.learned_from:
            words += (
                f", times {self.slower:.2g} as {self.learned_from} measured ones say"
            )
        return words

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "schema": PLAN_SCHEMA,
            "sweep": self.sweep.name,
            "machine": self.sweep.machine,
            "points": len(self.points),
            "open": self.count("open"),
            "measured": self.count("measured"),
            "failed": self.count("failed"),
            "left_s": self.left_s,
            "basis": self.basis,
            "notes": list(self.notes),
            "runs": [point.to_dict() for point in self.points],
        }


def loose_key(spec: RunSpec) -> str:
    """A run but for the hash of its config, which versions of transformers change."""
    left_out = ("config_digest", "chosen")
    fields = {k: v for k, v in spec.to_dict().items() if k not in left_out}
    return json.dumps(fields, sort_keys=True)


@dataclass(slots=True)
class StoredRuns:
    """What a store has of the runs on one machine, and how many of each software."""

    store: Store | None
    machine: str
    software: dict[str, int] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _measured: dict[str, list[Entry]] = field(default_factory=dict)
    _failed: dict[str, list[Entry]] = field(default_factory=dict)

    def refresh(self) -> None:
        """Look what has come into the store, by whichever collector."""
        entries = self.store.entries() if self.store is not None else []
        for entry in entries:
            if entry.id in self._seen or entry.hardware != self.machine:
                continue
            self._seen.add(entry.id)
            key = loose_key(entry.spec)
            if entry.state == "failed":
                self._failed.setdefault(key, []).append(entry)
                continue
            self._measured.setdefault(key, []).append(entry)
            self.software[entry.software] = self.software.get(entry.software, 0) + 1

    def measured(self, spec: RunSpec) -> Entry | None:
        """The measurement of a run, if there is one.

        Configs are compared only where the same transformers has read them.
        """
        here = describe_place()["transformers"]
        for entry in self._measured.get(loose_key(spec), []):
            there = entry.origin.software.get("transformers", here)
            same = entry.spec.config_digest == spec.config_digest
            if same or spec.config_digest is None or there != here:
                return entry
        return None

    def failures(self, spec: RunSpec) -> list[Entry]:
        """The failures of a run, the last one last."""
        found = self._failed.get(loose_key(spec), [])
        return sorted(found, key=lambda entry: entry.added_ns)


def plan_collection(
    sweep: Sweep, known: StoredRuns, work: Measuring, *, retry_failed: bool = False
) -> CollectionPlan:
    """Compare a sweep with what is there, and guess how long the rest takes."""
    known.refresh()
    points = [_point(spec, known, work, retry_failed) for spec in sweep.specs]
    if not any(point.state == "open" for point in points):
        return CollectionPlan(sweep, tuple(points), notes=tuple(_notes(known)))
    how = sweep.measurement
    specs = [
        point.spec for point in points if point.state != "open" or not point.problem
    ]
    guesses_s = work.guess_s(specs, how.protocol, how.device)
    points = [replace(p, guess_s=guesses_s.get(p.spec.digest)) for p in points]
    slower, count = _learn(points, known)
    return CollectionPlan(sweep, tuple(points), slower, count, tuple(_notes(known)))


def _point(
    asked: RunSpec, known: StoredRuns, work: Measuring, retry_failed: bool
) -> Point:
    """A run, compared with what is there."""
    problem = ""
    spec = asked
    try:
        spec = work.resolve(asked)
    except IreneError as error:
        problem = str(error)
    if known.measured(spec) is not None:
        return Point(spec, asked.model, "measured")
    failures = known.failures(spec)
    if failures and not retry_failed:
        return Point(spec, asked.model, "failed", failures[-1].reason)
    return Point(spec, asked.model, "open", problem)


def _learn(points: Sequence[Point], known: StoredRuns) -> tuple[float, int]:
    """What was measured, as a multiple of what was guessed for it."""
    lasted_s = guessed_s = 0.0
    count = 0
    for point in points:
        entry = known.measured(point.spec) if point.state == "measured" else None
        if entry is None or not point.guess_s or not entry.origin.duration_s:
            continue
        lasted_s += entry.origin.duration_s
        guessed_s += point.guess_s
        count += 1
    return (lasted_s / guessed_s, count) if count else (1.0, 0)


def _notes(known: StoredRuns) -> Iterable[str]:
    if len(known.software) > 1:
        parts = "; ".join(
            f"{count} with {name}" for name, count in known.software.items()
        )
        yield (
            f"runs on {known.machine} were measured with different software, which is "
            f"kept apart: {parts}"
        )


# How far it is, and what became of it ------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """How far a collection is, and about how long the rest takes.

    Attributes:
        done: Runs that need nothing more, those that were there before included.
        run: In words, the run that this is about; "" at the beginning and the end.
        event: What became of it: `measured`, `failed`, `skipped` (another collector
            has measured it), `started`, or "" where `message` says something else.
    """

    done: int
    total: int
    failed: int
    run: str
    event: str
    lasted_s: float
    rate_per_hour: float
    left_s: float
    message: str = ""


Listener = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Failure(Document):
    """A run without a measurement, and why, in words."""

    spec: RunSpec
    reason: str


@dataclass(slots=True)
class Report(Document):
    """What became of the runs of a sweep, now, before, and by other collectors."""

    points: int
    there: int = 0
    measured: int = 0
    disturbed: int = 0
    elsewhere: int = 0
    failures: list[Failure] = field(default_factory=list)
    stopped: bool = False
    lasted_s: float = 0.0
    messages: list[str] = field(default_factory=list)

    schema: ClassVar = "irene.collection/1"
    also: ClassVar = ("failed", "left")

    @property
    def failed(self) -> int:
        """How many runs have no measurement."""
        return len(self.failures)

    @property
    def left(self) -> int:
        """Runs of which nothing is known yet."""
        known = self.there + self.measured + self.elsewhere + self.failed
        return self.points - known
