"""The questions as functions that answer in this process: `irene.compare(…)`."""

from __future__ import annotations

from typing import TypeVar

from irene.analyse.subject import Progress
from irene.questions.asker import Asker
from irene.questions.question import Question

__all__ = [
    "Here",
    "bottlenecks",
    "compare",
    "cost",
    "leaderboard",
    "report",
    "sensitivity",
    "suggest",
    "trade_off",
    "what_if",
]

T = TypeVar("T")


class Here(Asker):
    """Answers in this process."""

    def ask(self, question: Question[T], progress: Progress | None = None) -> T:
        """The answer to a question, after a look at its names and sizes."""
        question.check()
        return question.answer(progress)


_here = Here()
bottlenecks = _here.bottlenecks
compare = _here.compare
cost = _here.cost
leaderboard = _here.leaderboard
report = _here.report
sensitivity = _here.sensitivity
suggest = _here.suggest
trade_off = _here.trade_off
what_if = _here.what_if
