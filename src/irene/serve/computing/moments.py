"""Questions that take a moment each: asked in one message, answered in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from irene.errors import IreneError
from irene.serve.computing.turns import Turns, Waiting
from irene.serve.computing.worker import read_several
from irene.work.task import Outcome

TOGETHER = 16
"""Questions that go in one message."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of a process.

    Attributes:
        body: The document, or a table.
        seconds: How long it took, s.
        packed: The same as gzip, if that is made already.
    """

    body: bytes
    seconds: float
    packed: bytes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Moment(Waiting[Reply | None]):
    """A question; its turn has the answer, None where it takes longer.

    Attributes:
        question: Its name.
        arguments: Its values.
    """

    question: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


class Moments(Turns[Reply | None]):
    """The questions that wait, by client."""

    def some(self) -> list[Moment]:
        """The next that go together."""
        found = (self.next(lambda _: True) for _ in range(TOGETHER))
        return [each for each in found if isinstance(each, Moment)]


def message(some: Sequence[Moment]) -> dict[str, Any]:
    """What a process is told: see `worker.answer_several`."""
    asked = [{"question": each.question, "arguments": each.arguments} for each in some]
    return {"asked": asked}


def give(
    some: Sequence[Moment], reply: Reply, error_of: Callable[[Outcome], IreneError]
) -> None:
    """Give everybody the answer to what was asked, or say why there is none.

    Args:
        some: What was asked.
        reply: Of the process.
        error_of: What a client is told of what was refused.
    """
    seconds = reply.seconds / max(len(some), 1)
    answers = read_several(reply.body)
    for each, (told, body, packed) in zip(some, answers, strict=True):
        if each.turn.done():
            continue
        if told is not None and "error" in told:
            outcome = Outcome(each.question, None, "refused", **told)
            each.turn.set_exception(error_of(outcome))
        else:
            made = None if told is None else Reply(body, seconds, packed)
            each.turn.set_result(made)


def refuse(some: Sequence[Moment], error: IreneError) -> None:
    """Tell all that have no answer why there is none."""
    for each in some:
        if not each.turn.done():
            each.turn.set_exception(error)
