"""Report: what became of a sweep; Step: how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from irene.collect.collection_plan import Point

__all__ = ["SCHEMA", "Failure", "Listener", "Report", "Step"]

SCHEMA = "irene.collection/1"


@dataclass(frozen=True, slots=True)
class Step:
    """How far a collection is.

    Attributes:
        done: Runs that need nothing more, those that were there before included.
        total: Runs in all.
        failed: Runs of those that failed.
        run: In words, the run that this is about; "" at the beginning and the end.
        event: What became of it: `measured`, `failed`, `skipped` (another collector
            has measured it), `started`, or "" where `message` says something else.
        lasted_s: How long the run took, s.
        rate_per_hour: Runs per hour so far.
        left_s: About how long the rest takes, s.
        message: Something a reader should know now, or "".
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
class Failure:
    """A run without a measurement.

    Attributes:
        point: The run.
        reason: Why, in words.
    """

    point: Point
    reason: str


@dataclass(slots=True)
class Report:
    """What became of a sweep.

    Attributes:
        points: Runs in all.
        there: Runs that were measured before.
        measured: Runs that were measured now.
        elsewhere: Runs that another collector measured meanwhile.
        failures: Runs without a measurement, now and before.
        stopped: Whether it was asked to stop before the end.
        lasted_s: How long it took, s.
        messages: What a reader should know.
    """

    points: int
    there: int = 0
    measured: int = 0
    elsewhere: int = 0
    failures: list[Failure] = field(default_factory=list)
    stopped: bool = False
    lasted_s: float = 0.0
    messages: list[str] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Runs of which nothing is known yet."""
        known = self.there + self.measured + self.elsewhere + len(self.failures)
        return self.points - known

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "schema": SCHEMA,
            "points": self.points,
            "there": self.there,
            "measured": self.measured,
            "elsewhere": self.elsewhere,
            "failed": len(self.failures),
            "left": self.left,
            "stopped": self.stopped,
            "lasted_s": self.lasted_s,
            "failures": [
                {"spec": one.point.spec.to_dict(), "reason": one.reason}
                for one in self.failures
            ],
            "messages": self.messages,
        }
