"""Engine: what every place where work can run has to offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from irene.work.task import Outcome, Task


class Engine(ABC):
    """Takes tasks, and gives an outcome for each, in whatever order they end.

    An engine does not know what the work is, and writes no results: those that took
    the tasks to it do. Opened with `with`; leaving it ends everything that runs.

    Attributes:
        name: `local`, `ray`, `slurm`.
    """

    name: str

    @property
    @abstractmethod
    def window(self) -> int:
        """How many tasks it is good to have submitted at a time."""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Take a task; returns at once."""

    @abstractmethod
    def wait(self, timeout_s: float) -> list[Outcome]:
        """Outcomes since the last call, at least one unless the time is over.

        Args:
            timeout_s: How long to wait at most, s.
        """

    @abstractmethod
    def cancel(self) -> None:
        """End everything that was submitted; gives no outcomes of it."""

    def news(self) -> list[str]:
        """What tasks have reported since the last call, where that can be heard."""
        return []

    def __enter__(self) -> Self:
        """Get ready."""
        return self

    def __exit__(self, *error: object) -> None:
        """End everything that runs."""
        self.cancel()
