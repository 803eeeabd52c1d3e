"""Steps of a running program: told by it or seen, and which of them are recorded."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from irene.account.events import Events
from irene.errors import UsageError

StepKind = Literal["forward", "optimizer", "told"]
KINDS: tuple[StepKind, ...] = ("forward", "optimizer", "told")
"""How a step is known, the weakest first: a stronger one makes the weaker ones void."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Skip some steps, warm up for some, record some (None: all), then watch no more.

    What is recorded to warm up is thrown away: a profiler is slow at first.
    """

    skip: int = 0
    warmup: int = 0
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.skip < 0 or self.warmup < 0:
            raise UsageError(
                f"skip and warmup must be 0 or more, got {self.skip} and {self.warmup}"
            )
        if self.steps is not None and self.steps < 1:
            raise UsageError(f"at least one step must be recorded, got {self.steps}")

    def state(self, done: int) -> Literal["skip", "warmup", "record", "over"]:
        """What to do after some steps are done."""
        if done < self.skip:
            return "skip"
        if done < self.skip + self.warmup:
            return "warmup"
        if self.steps is None or done < self.skip + self.warmup + self.steps:
            return "record"
        return "over"

    def why_nothing(self, done: int) -> str:
        """Why nothing was recorded when some steps are done, in words."""
        return (
            f"nothing was recorded: {done} steps are over, and recording begins after "
            f"{self.skip} skipped and {self.warmup} to warm up"
        )


class Steps:
    """When steps ended or began, by every way to know; the strongest counts."""

    def __init__(self) -> None:
        self.void_ns: list[int] = []
        self._seen_ns: dict[StepKind, list[int]] = {kind: [] for kind in KINDS}

    @property
    def _kind(self) -> StepKind:
        """The strongest way of knowing steps that has shown itself."""
        return next((kind for kind in KINDS[::-1] if self._seen_ns[kind]), KINDS[0])

    @property
    def done(self) -> int:
        """Steps that are over: a forward begins one, the others end one."""
        seen = len(self._seen_ns[self._kind])
        return max(seen - 1, 0) if self._kind == "forward" else seen

    def happened(self, kind: StepKind, time_ns: int) -> bool:
        """Take note of a begin or an end; whether it is of the kind that counts."""
        self._seen_ns[kind].append(time_ns)
        return kind == self._kind

    def give(self, events: Events, window_ns: tuple[int, int]) -> Events:
        """The same events, each in the step in which it began."""
        bounds = self._bounds_ns(*window_ns)
        if not bounds:
            return events
        begins, ends = np.array(bounds, dtype=np.int64).T
        place = np.searchsorted(begins, events.start_ns, side="right") - 1
        inside = (place >= 0) & (events.start_ns < ends[np.maximum(place, 0)])
        return replace(
            events,
            step=np.where(inside, place, -1).astype(np.int64),
            steps=tuple(str(number) for number in range(1, len(bounds) + 1)),
        )

    def _bounds_ns(self, begin_ns: int, end_ns: int) -> list[tuple[int, int]]:
        """Begin and end of every step."""
        seen_ns = self._seen_ns[self._kind]
        if self._kind == "forward":
            edges = [f for f in seen_ns if begin_ns <= f < end_ns]
            edges += [end_ns] if edges else []
        else:
            edges = [begin_ns, *(e for e in seen_ns if begin_ns < e <= end_ns)]
        return [(self._after_void(begin, end), end) for begin, end in pairwise(edges)]

    def _after_void(self, begin_ns: int, end_ns: int) -> int:
        """Begin of a step, after what belongs to none."""
        place = bisect_left(self.void_ns, end_ns)
        return max(begin_ns, self.void_ns[place - 1]) if place else begin_ns
