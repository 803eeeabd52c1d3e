"""Every question a user can ask, once.

A question is a frozen dataclass: its fields are its parameters with units, defaults,
bounds and words, and it knows how to answer itself. Options of the command line,
parameters of the HTTP API, messages to computing processes, the client's methods, jobs
and the reference pages are made from these fields; the answer is the same whichever way
it was asked.

- `question`: what all questions share.
- `table`: the questions themselves, and `QUESTIONS`, all of them by name.
- `asker`: `Asker`, the questions as methods, for whoever can answer them; `here`: as
  functions that answer in this process.
"""

from irene.questions.question import Question
from irene.questions.table import QUESTIONS, question_named

__all__ = ["QUESTIONS", "Question", "question_named"]
