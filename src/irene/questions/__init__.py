"""Every question a user can ask, once.

A question is a frozen dataclass: its fields are its parameters with units, defaults,
bounds and words, and it knows how to answer itself. Options of the command line,
parameters of the HTTP API, messages to computing processes, the client's methods, jobs
and the reference pages are made from these fields; the answer is the same whichever way
it was asked.

- `question`: what all questions share.
- `of_one_model`, `of_several`, `of_plans`: the questions themselves; `QUESTIONS`: all
  of them by name.
- `asker`: `Asker`, the questions as methods, for whoever can answer them; and as
  functions that answer in this process.
"""

from typing import Any

from irene.errors import UsageError
from irene.questions.of_one_model import (
    AskBottlenecks,
    AskCard,
    AskCost,
    AskEnergy,
    AskReport,
    AskSuggestions,
    AskTree,
    AskWhatIf,
)
from irene.questions.of_plans import AskServePlan, AskTrainingPlan
from irene.questions.of_several import AskComparison, AskLeaderboard, AskTradeOff
from irene.questions.question import Question

__all__ = [
    "QUESTIONS",
    "AskBottlenecks",
    "AskCard",
    "AskComparison",
    "AskCost",
    "AskEnergy",
    "AskLeaderboard",
    "AskReport",
    "AskServePlan",
    "AskSuggestions",
    "AskTradeOff",
    "AskTrainingPlan",
    "AskTree",
    "AskWhatIf",
    "Question",
    "question_named",
]

QUESTIONS: dict[str, type[Question[Any]]] = {
    each.name: each
    for each in (
        AskEnergy, AskTree, AskBottlenecks, AskComparison, AskWhatIf, AskTradeOff,
        AskCost, AskSuggestions, AskLeaderboard, AskServePlan, AskTrainingPlan,
        AskCard, AskReport,
    )
}  # fmt: skip
"""Every question by name."""


def question_named(name: str) -> type[Question[Any]]:
    """The question of a name.

    Raises:
        UsageError: There is none.
    """
    if name not in QUESTIONS:
        raise UsageError(f"no question {name!r}; there are {', '.join(QUESTIONS)}")
    return QUESTIONS[name]
