"""From a question to its answer: from memory, from the store, or computed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from irene.serve.answers.memory import ETAG, LINK, Memory, Ready, make_ready
from irene.serve.answers.question import Inquiry
from irene.serve.answers.storage import Answers, Made
from irene.serve.computing.moments import Reply
from irene.serve.computing.pool import Pool
from irene.serve.http.problems import CLIENT_LEFT, Problem

logger = logging.getLogger(__name__)
Compute = Callable[[Callable[[], None]], Awaitable[Reply]]
"""Makes an answer; calls what it is given when it begins."""
_Made = tuple[str, Reply, str, str]
"""An answer with its key before it, its media type and what was asked behind it."""


class Passing(Reply):
    """An answer that may be another one soon, and is kept nowhere."""


@dataclass(slots=True)
class _Asked:
    """A question that is being computed, and how many wait for it."""

    listeners: int = 0
    has_begun: bool = False
    task: asyncio.Task[Ready] = field(init=False)

    def begin(self) -> None:
        """Note that the computation has begun."""
        self.has_begun = True


class Answering:
    """Finds or computes answers; equal questions at one time are computed once.

    Args:
        pool: Computes.
        answers: Those of the store.
        memory: Those that are ready to be sent.
        count: Told where each answer came from, and how long a computation took, s.
    """

    def __init__(
        self,
        pool: Pool,
        answers: Answers,
        memory: Memory,
        count: Callable[[str, float], None] = lambda origin, seconds: None,
    ) -> None:
        self.pool = pool
        self.answers = answers
        self.memory = memory
        self._count = count
        self._asked: dict[str, _Asked] = {}
        self._made: list[tuple[asyncio.Future[Ready | None], _Made]] = []
        self._keeping: asyncio.Task[None] | None = None

    async def by_key(self, key: str) -> Ready | None:
        """An answer that is known; None if there is none of that name."""
        ready = self.memory.answers.get(key)
        if ready is not None:
            self._count("memory", 0.0)
            return ready
        try:
            ready = await asyncio.to_thread(self.answers.get, key)
        except SQLAlchemyError as error:
            logger.error("the store cannot be read: %s", error)
            return None
        if ready is not None:
            self._count("store", 0.0)
            self.memory.answers.put(key, ready)
        return ready

    async def ask(
        self,
        inquiry: Inquiry,
        is_gone: Callable[[], asyncio.Future[None]],
        compute: Compute | None = None,
        client: str = "",
    ) -> Ready:
        """The answer to a question.

        Args:
            inquiry: What is asked.
            is_gone: Gives a future that ends when the client has left; a question that
                nobody waits for any more is not begun.
            compute: How it is answered, if not by asking a computing process.
            client: Whose turn at the processes it takes.

        Raises:
            IreneError: It cannot be answered.
        """
        key = inquiry.key
        ready = await self.by_key(key)
        if ready is not None:
            return ready
        asked = self._begun(key, inquiry, compute or self._asking(inquiry, client))
        asked.listeners += 1
        gone = is_gone()
        try:
            both: set[asyncio.Future[Any]] = {asked.task, gone}
            await asyncio.wait(both, return_when="FIRST_COMPLETED")
        finally:
            gone.cancel()
            asked.listeners -= 1
            if not asked.listeners and not asked.has_begun:
                # Out of sight at once: whoever asks now does not join what is ending.
                self._forget(key, asked)
                asked.task.cancel()
        if not asked.task.done():
            raise Problem(CLIENT_LEFT, "the client has left")
        if asked.task.cancelled():
            raise Problem(503, "the server is stopping", again_s=5)
        return asked.task.result()

    def begin(self, inquiry: Inquiry, compute: Compute) -> None:
        """Compute an answer that nobody waits for yet.

        Args:
            inquiry: What is asked.
            compute: How it is answered.
        """
        self._begun(inquiry.key, inquiry, compute).begin()

    def _begun(self, key: str, inquiry: Inquiry, how: Compute) -> _Asked:
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = _Asked()
            asked.task = asyncio.create_task(self._compute(key, inquiry, asked, how))
            asked.task.add_done_callback(lambda task: self._ended(key, asked))
        return asked

    def _asking(self, inquiry: Inquiry, client: str) -> Compute:
        question = inquiry.question

        async def ask(begin: Callable[[], None]) -> Reply:
            return await self.pool.ask(
                question.name, inquiry.arguments, is_long=question.is_long,
                client=client, on_begin=begin,
            )  # fmt: skip

        return ask

    def _forget(self, key: str, asked: _Asked) -> None:
        if self._asked.get(key) is asked:
            del self._asked[key]

    def _ended(self, key: str, asked: _Asked) -> None:
        self._forget(key, asked)
        error = None if asked.task.cancelled() else asked.task.exception()
        if error is not None and not asked.listeners:
            logger.warning("answer %s, which nobody waits for, failed: %r", key, error)

    async def _compute(
        self, key: str, inquiry: Inquiry, asked: _Asked, how: Compute
    ) -> Ready:
        reply = await how(asked.begin)
        self._count("computed", reply.seconds)
        is_passing = isinstance(reply, Passing)
        if is_passing or inquiry.is_private:
            ready = await asyncio.to_thread(
                make_ready, key, reply.body, inquiry.media_type
            )
            return ready.without(*((LINK, ETAG) if is_passing else (LINK,)))
        return await self.keep(key, reply, inquiry.media_type, inquiry.text)

    def soon(
        self,
        question: str,
        values: Mapping[str, Any],
        client: str,
        naming: tuple[str, str, str],
    ) -> asyncio.Future[Ready | None]:
        """The answer to what takes a moment, kept; None where it takes longer.

        Args:
            question: Its name.
            values: What of it was given, and the form.
            client: Whose turn at the processes it takes.
            naming: Key and media type of the answer, and what was asked, as JSON.

        Raises:
            IreneError: It cannot be answered.
        """

        def take(reply: Reply, turn: asyncio.Future[Ready | None]) -> None:
            self._count("computed", reply.seconds)
            self._keep_for(turn, reply, *naming)

        return self.pool.ask_soon(question, values, client, take)

    async def stop(self) -> None:
        """Give up what is being computed."""
        tasks = [asked.task for asked in self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def keep(self, key: str, reply: Reply, media_type: str, text: str) -> Ready:
        """An answer as it is sent, in memory and in the store if that is possible.

        Args:
            key: Its name.
            reply: The answer.
            media_type: What it is.
            text: What was asked, as JSON.
        """
        turn: asyncio.Future[Ready | None] = asyncio.get_running_loop().create_future()
        self._keep_for(turn, reply, key, media_type, text)
        ready = await turn
        assert ready is not None
        return ready

    def _keep_for(
        self,
        turn: asyncio.Future[Ready | None],
        reply: Reply,
        key: str,
        media_type: str,
        text: str,
    ) -> None:
        self._made.append((turn, (key, reply, media_type, text)))
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        """Store what was made while others were stored: one wait for the disk."""
        while self._made:
            made, self._made = self._made, []
            try:
                ready = await asyncio.to_thread(self._store, [each for _, each in made])
            except Exception as error:  # noqa: BLE001  who waits is told
                for turn, _ in made:
                    if not turn.done():
                        turn.set_exception(error)
                continue
            for (turn, _), each in zip(made, ready, strict=True):
                self.memory.answers.put(each.key, each)
                if not turn.done():
                    turn.set_result(each)

    def _store(self, some: list[_Made]) -> list[Ready]:
        made = [
            Made(make_ready(key, reply.body, kind, packed=reply.packed), kind, text)
            for key, reply, kind, text in some
        ]
        try:
            self.answers.put_all(made)
        except (SQLAlchemyError, OSError) as error:
            # A full disk is no reason to keep the answer from the client.
            logger.error("%d answers could not be stored: %s", len(made), error)
            return [each.ready.without(LINK) for each in made]
        return [each.ready for each in made]
