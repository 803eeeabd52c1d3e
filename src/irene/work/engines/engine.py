"""Engine: what a place where work can run has to offer; LocalEngine: this machine."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from typing import Self

from irene.work.child import Child
from irene.work.task import Outcome, Task


class Engine(ABC):
    """Takes tasks, and gives an outcome for each, in whatever order they end.

    An engine does not know what the work is, and writes no results: those that took
    the tasks to it do. Opened with `with`; leaving it ends everything that runs.
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
        """Outcomes since the last call, at least one unless the time is over."""

    @abstractmethod
    def cancel(self) -> None:
        """End everything that was submitted; gives no outcomes of it."""

    def news(self) -> list[str]:
        """What tasks have reported since the last call, where that can be heard."""
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.cancel()


POLL_S = 0.02


class LocalEngine(Engine):
    """Runs tasks in processes of their own, so many at a time, in the order they come.

    Tasks that measure must be alone on the machine: more than one is for others.
    """

    name = "local"

    def __init__(self, jobs: int = 1) -> None:
        self._jobs = jobs
        self._waiting: deque[Task] = deque()
        self._children: list[Child] = []
        self._news: list[str] = []

    @property
    def window(self) -> int:
        """How many tasks run at a time."""
        return self._jobs

    def submit(self, task: Task) -> None:
        """Take a task; it begins when those before it have ended."""
        self._waiting.append(task)
        self._start()

    def _start(self) -> None:
        while len(self._children) < self.window and self._waiting:
            child = Child(on_progress=lambda step: self._news.append(step.text))
            self._children.append(child)
            child.begin(self._waiting.popleft())

    def news(self) -> list[str]:
        """What the tasks have reported since the last call."""
        news, self._news = self._news, []
        return news

    def wait(self, timeout_s: float) -> list[Outcome]:
        """The outcomes of the tasks that run, of those that end in time."""
        if not self._children:
            time.sleep(timeout_s)
            return []
        until_s = time.monotonic() + timeout_s
        while True:
            found = self._ended()
            left_s = until_s - time.monotonic()
            if found or left_s <= 0:
                self._start()
                return found
            time.sleep(min(POLL_S, left_s))

    def _ended(self) -> list[Outcome]:
        """Outcomes of children that have ended, which are forgotten."""
        found: list[Outcome] = []
        for child in list(self._children):
            if (outcome := child.wait(0.0)) is not None:
                found.append(outcome)
                self._children.remove(child)
                child.end(0.0)
        return found

    def cancel(self) -> None:
        """End the tasks that run, and forget the others."""
        self._waiting.clear()
        for child in self._children:
            child.end()
        self._children.clear()
