"""Requests that differ from one that was answered by their sizes alone.

What such a request asks is known but for some numbers: it needs no parsing, and where
the tree of a run is known at once, its answer takes a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from irene.serve.answers.answering import Answering
from irene.serve.answers.memory import (
    LONGEST_REQUEST,
    MOST_REQUESTS,
    Asked,
    Form,
    Ready,
    form_of,
)
from irene.serve.answers.question import Inquiry, answer_key, canonical
from irene.serve.computing.questions import MOMENTS
from irene.serve.recent import Recent


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
        self._known: Recent[Form, _Known] = Recent(MOST_REQUESTS)
        self._asked: dict[str, asyncio.Future[Ready | None]] = {}

    def remember(self, request: Asked, inquiry: Inquiry) -> None:
        """Note what a request asked, for others of its form.

        Args:
            request: That was answered.
            inquiry: What it asked.
        """
        form, sizes = form_of(request)
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

    async def answer(
        self, request: Asked, form: Form, sizes: Mapping[str, int], client: str
    ) -> Ready | None:
        """The answer to a request of a form that is known; None if it is not.

        Args:
            request: Of which there is no answer.
            form: Of `form_of`.
            sizes: With it.
            client: Whose turn at the processes it takes.

        Raises:
            IreneError: It cannot be answered.
        """
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
