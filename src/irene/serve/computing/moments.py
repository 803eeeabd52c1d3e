"""Questions that take a moment each: asked in one message, answered in one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from irene.errors import IreneError
from irene.serve.computing.turns import Turns, Waiting
from irene.serve.computing.worker import read_several
from irene.work.task import Outcome

TOGETHER = 8
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


Take = Callable[[Reply, asyncio.Future[Any]], None]


def pass_on(reply: Reply, turn: asyncio.Future[Any]) -> None:
    """Give a turn the answer as it is."""
    turn.set_result(reply)


@dataclass(frozen=True, slots=True, eq=False)
class Moment(Waiting[Any]):
    """A question; its turn has what became of the answer, None where it takes longer.

    Attributes:
        question: Its name.
        arguments: Its values.
        take: Takes the answer, and gives the turn what becomes of it.
    """

    question: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    take: Take = pass_on


class Moments(Turns[Any]):
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
        elif told is None:
            each.turn.set_result(None)
        else:
            each.take(Reply(body, seconds, packed), each.turn)


def refuse(some: Sequence[Moment], error: IreneError) -> None:
    """Tell all that have no answer why there is none."""
    for each in some:
        if not each.turn.done():
            each.turn.set_exception(error)
