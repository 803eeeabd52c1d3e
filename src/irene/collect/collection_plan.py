"""CollectionPlan: what of a sweep is there, what is left, and how long that takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from irene.collect.point import PointWork
from irene.collect.sweep import Sweep
from irene.dataset.store import Entry, Origin, Store
from irene.errors import IreneError
from irene.hardware import Hardware
from irene.spec import RunSpec
from irene.work.task import describe_place

__all__ = [
    "SCHEMA",
    "CollectionPlan",
    "Known",
    "Point",
    "State",
    "loose_key",
    "plan_collection",
]

SCHEMA = "irene.collection-plan/1"
State = Literal["open", "measured", "failed"]


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep.

    Attributes:
        spec: The run, with the hash of its config if that could be found.
        model: Its model, as the sweep names it.
        state: `open` (to be measured), `measured`, or `failed` (and left alone).
        problem: Why it failed, or cannot be measured; "" else.
        guess_s: About how long it takes, s; None if nobody knows.
    """

    spec: RunSpec
    model: str
    state: State = "open"
    problem: str = ""
    guess_s: float | None = None

    @property
    def key(self) -> str:
        """Names the point."""
        return self.spec.digest

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "spec": self.spec.to_dict(),
            "state": self.state,
            "problem": self.problem,
            "guess_s": self.guess_s,
        }


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """A sweep, compared with a store.

    Attributes:
        sweep: The sweep.
        points: All its runs.
        slower: Factor between what was measured before and what was guessed for it.
        learned_from: How many measurements that factor comes from.
        notes: What a reader should know.
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
            "schema": SCHEMA,
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
    fields = {k: v for k, v in spec.to_dict().items() if k != "config_digest"}
    return json.dumps(fields, sort_keys=True)


@dataclass(slots=True)
class Known:
    """What a store has of the runs on one machine.

    Attributes:
        store: The store; None for an empty one.
        machine: What the machine is called.
        software: Versions that measured: how many runs of each.
    """

    store: Store | None
    machine: str
    software: dict[str, int] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _measured: dict[str, list[Entry]] = field(default_factory=dict)
    _failed: dict[str, list[Entry]] = field(default_factory=dict)
    _machines: set[tuple[str, str]] = field(default_factory=set)

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
            self._learn(entry.origin)

    def _learn(self, origin: Origin) -> None:
        name = origin.software_name
        self.software[name] = self.software.get(name, 0) + 1
        hardware = origin.hardware
        self._machines.add((hardware.covers, hardware.description))

    def stranger(self, hardware: Hardware) -> str:
        """Why a machine is not the one that is known by this name; "" if it is."""
        if not self._machines or (hardware.covers, hardware.description) in (
            self._machines
        ):
            return ""
        covers, description = min(self._machines)
        return (
            f"it was measured on another machine ({hardware.description}; covers "
            f"{hardware.covers}) than what {self.machine} is in this store "
            f"({description}; covers {covers}): collect each kind of machine under a "
            "name of its own"
        )

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
    sweep: Sweep, known: Known, work: PointWork, *, retry_failed: bool = False
) -> CollectionPlan:
    """Compare a sweep with what is there, and guess how long the rest takes.

    Args:
        sweep: What is wanted.
        known: What is there.
        work: What is done with every run.
        retry_failed: Whether runs that failed before are open again.
    """
    known.refresh()
    resolved = [_resolve(spec, work) for spec in sweep.specs]
    measurement = sweep.measurement
    guesses = work.guess_s(
        [spec for spec, problem in resolved if not problem],
        measurement.protocol,
        measurement.device,
    )
    points = tuple(
        _point(spec, problem, asked.model, known, guesses, retry_failed)
        for (spec, problem), asked in zip(resolved, sweep.specs, strict=True)
    )
    slower, count = _learn(points, known)
    return CollectionPlan(sweep, points, slower, count, tuple(_notes(known)))


def _resolve(spec: RunSpec, work: PointWork) -> tuple[RunSpec, str]:
    try:
        return work.resolve(spec), ""
    except IreneError as error:
        return spec, str(error)


def _point(
    spec: RunSpec,
    problem: str,
    model: str,
    known: Known,
    guesses: Mapping[str, float],
    retry_failed: bool,
) -> Point:
    guess_s = guesses.get(spec.digest)
    if known.measured(spec) is not None:
        return Point(spec, model, "measured", "", guess_s)
    failures = known.failures(spec)
    if failures and not retry_failed:
        return Point(spec, model, "failed", failures[-1].reason, guess_s)
    return Point(spec, model, "open", problem, guess_s)


def _learn(points: Sequence[Point], known: Known) -> tuple[float, int]:
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


def _notes(known: Known) -> Iterable[str]:
    if len(known.software) > 1:
        parts = "; ".join(
            f"{count} with {name}" for name, count in known.software.items()
        )
        yield (
            f"runs on {known.machine} were measured with different software, which is "
            f"kept apart: {parts}"
        )
