"""Schedule: which steps of a long run are recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from irene.errors import UsageError

__all__ = ["Schedule", "StepCounter", "StepKind"]

StepKind = Literal["forward", "optimizer", "told"]
KINDS: tuple[StepKind, ...] = ("forward", "optimizer", "told")
"""How a step is known, the weakest first: a stronger one makes the weaker ones void."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Skip some steps, warm up for some, record some, then watch no more.

    Attributes:
        skip: Steps that nothing is done in.
        warmup: Steps that are recorded and thrown away: a profiler is slow at first.
        steps: Steps to record; None for all that follow.
    """

    skip: int = 0
    warmup: int = 0
    steps: int | None = None

    def __post_init__(self) -> None:
        """Refuse what records nothing."""
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


class StepCounter:
    """Counts steps by the strongest way of knowing them that has shown itself.

    Attributes:
        done: Steps that are over.
    """

    def __init__(self) -> None:
        self.done = 0
        self._kind: StepKind = "forward"
        self._seen = 0

    def happened(self, kind: StepKind) -> bool:
        """Take note of a begin of a forward, or an end of a step.

        Returns:
            Whether it is of the kind that counts.
        """
        if KINDS.index(kind) < KINDS.index(self._kind):
            return False
        if kind != self._kind:
            self._kind, self._seen = kind, 0
        self._seen += 1
        # A forward begins a step; the others end one.
        self.done = self._seen - 1 if kind == "forward" else self._seen
        return True
