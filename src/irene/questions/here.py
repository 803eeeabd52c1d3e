"""The questions as functions that answer in this process: `irene.compare(…)`."""

from __future__ import annotations

from typing import TypeVar

from irene.analyse.subject import Progress
from irene.questions.asker import Asker
from irene.questions.question import Question

T = TypeVar("T")


class Here(Asker):
    """Answers in this process."""

    def ask(self, question: Question[T], progress: Progress | None = None) -> T:
        """The answer to a question, after a look at its names and sizes."""
        question.check()
        return question.answer(progress)


_here = Here()
bottlenecks = _here.bottlenecks
card = _here.card
compare = _here.compare
cost = _here.cost
leaderboard = _here.leaderboard
plan_training = _here.plan_training
report = _here.report
sensitivity = _here.sensitivity
serve_plan = _here.serve_plan
suggest = _here.suggest
trade_off = _here.trade_off
what_if = _here.what_if
