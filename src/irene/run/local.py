"""LocalEngine: this machine, one task at a time."""

from __future__ import annotations

import time
from collections import deque
from typing import Self

from irene.run.child import Child
from irene.run.task import Outcome, Task

__all__ = ["LocalEngine"]


class LocalEngine:
    """Runs every task in a process of its own, strictly one after the other."""

    name = "local"
    window = 1

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        self._child: Child | None = None

    def submit(self, task: Task) -> None:
        """Take a task; it begins when those before it have ended."""
        self._waiting.append(task)
        self._start()

    def _start(self) -> None:
        if self._child is None and self._waiting:
            self._child = Child(self._waiting.popleft())

    def wait(self, timeout_s: float) -> list[Outcome]:
        """The outcome of the task that runs, if it ends in time."""
        if self._child is None:
            time.sleep(timeout_s)
            return []
        outcome = self._child.wait(timeout_s)
        if outcome is None:
            return []
        self._child = None
        self._start()
        return [outcome]

    def cancel(self) -> None:
        """End the task that runs, and forget the others."""
        self._waiting.clear()
        if self._child is not None:
            self._child.end()
            self._child = None

    def __enter__(self) -> Self:
        """Nothing to get ready."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the task that runs."""
        self.cancel()
