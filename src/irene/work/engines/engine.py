"""Engine: what every place where work can run has to offer."""

from __future__ import annotations

from typing import Protocol, Self

from irene.work.task import Outcome, Task

__all__ = ["Engine"]


class Engine(Protocol):
    """Takes tasks, and gives an outcome for each, in whatever order they end.

    An engine does not know what the work is, and writes no results: those that took
    the tasks to it do. Opened with `with`; leaving it ends everything that runs.

    Attributes:
        name: `local`, `ray`, `slurm`.
        window: How many tasks it is good to have submitted at a time.
    """

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def window(self) -> int:
        """How many tasks it is good to have submitted at a time."""

    def submit(self, task: Task) -> None:
        """Take a task; returns at once."""

    def wait(self, timeout_s: float) -> list[Outcome]:
        """Outcomes since the last call, at least one unless the time is over.

        Args:
            timeout_s: How long to wait at most, s.
        """

    def news(self) -> list[str]:
        """What the tasks have reported since the last call, where that is heard."""

    def cancel(self) -> None:
        """End everything that was submitted; gives no outcomes of it."""

    def __enter__(self) -> Self:
        """Get ready."""

    def __exit__(self, *error: object) -> None:
        """End everything that runs."""
