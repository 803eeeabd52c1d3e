"""Steps of a running program: told by it, or seen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from irene.account.events import Events

__all__ = ["StepMarks"]


@dataclass
class StepMarks:
    """When steps ended or began, by the three ways there are to know.

    Attributes:
        told_ns: Ends of steps that the program told us.
        optimizer_ns: Ends of calls of an optimizer's step.
        forward_ns: Begins of calls of the whole model.
        void_ns: Ends of what ran after a step and belongs to none.
    """

    told_ns: list[int] = field(default_factory=list)
    optimizer_ns: list[int] = field(default_factory=list)
    forward_ns: list[int] = field(default_factory=list)
    void_ns: list[int] = field(default_factory=list)

    def bounds_ns(self, window_ns: tuple[int, int]) -> list[tuple[int, int]]:
        """Begin and end of every step: what was told, else by optimizer, else forward.

        Args:
            window_ns: What was recorded.
        """
        begin_ns, end_ns = window_ns
        ends = self.told_ns or self.optimizer_ns
        if ends:
            edges = [begin_ns, *(e for e in ends if begin_ns < e <= end_ns)]
        else:
            edges = [f for f in self.forward_ns if begin_ns <= f < end_ns]
            edges += [end_ns] if edges else []
        return [(self._after_void(begin, end), end) for begin, end in pairwise(edges)]

    def _after_void(self, begin_ns: int, end_ns: int) -> int:
        """Begin of a step, after what belongs to none."""
        place = bisect_left(self.void_ns, end_ns)
        return max(begin_ns, self.void_ns[place - 1]) if place else begin_ns

    def give(self, events: Events, window_ns: tuple[int, int]) -> Events:
        """The same events, each in the step in which it began."""
        bounds = self.bounds_ns(window_ns)
        if not bounds:
            return events
        return replace(
            events,
            step=_step_of(events, bounds),
            steps=tuple(str(number) for number in range(1, len(bounds) + 1)),
        )


def _step_of(
    events: Events, bounds: Sequence[tuple[int, int]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    begins = np.array([begin for begin, _ in bounds], dtype=np.int64)
    ends = np.array([end for _, end in bounds], dtype=np.int64)
    place = np.searchsorted(begins, events.start_ns, side="right") - 1
    inside = (place >= 0) & (events.start_ns < ends[np.maximum(place, 0)])
    return np.where(inside, place, -1).astype(np.int64)
