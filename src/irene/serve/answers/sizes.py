"""Requests that differ from one that was answered by their sizes alone.

What such a request asks is known but for some numbers: it needs no parsing, and where
the tree of a run is known at once, its answer takes a moment.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from irene.predict.machines.added import added_when_ns
from irene.serve.answers.answering import Answering
from irene.serve.answers.memory import (
    LONGEST_REQUEST,
    MOST_REQUESTS,
    Ready,
    prefers_csv,
)
from irene.serve.answers.question import Inquiry, answer_key, canonical
from irene.serve.computing.questions import MOMENTS, SIZES
from irene.serve.recent import Recent

SIZE = re.compile(
    rb"(?<![^&])(%s)=([1-9][0-9]{0,7})(?![^&])" % "|".join(SIZES).encode()
)
"""A size in a query, within its bounds whatever it is."""
Request = tuple[str, bytes, bytes]
"""Path, query and the `Accept` header."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What requests of a form ask, but for their sizes.

    Attributes:
        question: Name of the question.
        values: Of the question, and the form of the answer.
        media_type: What the answer is.
        identities: Of the machines that decide it.
    """

    question: str
    values: Mapping[str, Any]
    media_type: str
    identities: list[str]


class Sizes:
    """The requests that were answered, whatever their sizes.

    Args:
        answering: Answers, and keeps the answers.
    """

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._known: Recent[tuple[Any, ...], _Known] = Recent(MOST_REQUESTS)
        self._asked: dict[str, asyncio.Future[Ready | None]] = {}

    def remember(self, request: Request, inquiry: Inquiry) -> None:
        """Note what a request asked, for others of its form.

        Args:
            request: That was answered.
            inquiry: What it asked.
        """
        form, sizes = _form(request)
        is_plain = not (inquiry.brought or inquiry.trees or inquiry.models)
        if (
            is_plain
            and inquiry.question.name in MOMENTS
            and not inquiry.is_private
            and len(request[1]) <= LONGEST_REQUEST
            and sizes
            and sizes.items() <= inquiry.values.items()
        ):
            name, kind = inquiry.question.name, inquiry.media_type
            known = _Known(name, inquiry.values, kind, inquiry.identities)
            self._known.put(form, known)

    async def answer(self, request: Request, client: str) -> Ready | None:
        """The answer to a request of a form that is known; None if it is not.

        Args:
            request: Of which there is no answer.
            client: Whose turn at the processes it takes.

        Raises:
            IreneError: It cannot be answered.
        """
        form, sizes = _form(request)
        known = self._known.get(form)
        if known is None:
            return None
        values = {**known.values, **sizes}
        text = canonical({"question": known.question, **values})
        key = answer_key(text, known.identities)
        ready = self._answering.memory.answers.get(key)
        if ready is None and key in self._asked:
            ready = await asyncio.shield(self._asked[key])
        elif ready is None:
            naming = key, known.media_type, text
            asked = self._answering.soon(known.question, values, client, naming)
            self._asked[key] = asked
            try:
                ready = await asked
            finally:
                del self._asked[key]
        if ready is not None:
            self._answering.memory.remember(*request, key, form[0])
        return ready


def _form(request: Request) -> tuple[tuple[Any, ...], dict[str, int]]:
    """What names a request but for its sizes, and these."""
    path, query, accept = request
    found = SIZE.findall(query)
    sizes = {name.decode(): int(value) for name, value in found}
    rest = SIZE.sub(rb"\1", query)
    return (added_when_ns(), path, rest, tuple(sizes), prefers_csv(accept)), sizes
