"""What a request passes inside: answers that take a moment, then the app."""

from __future__ import annotations

import asyncio
import logging
import marshal
import time
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.exceptions import HTTPException

from irene.errors import IreneError
from irene.serve.answers.memory import Asked, Memory, Ready, form_of
from irene.serve.answers.sizes import Sizes
from irene.serve.computing.turns import Rounds
from irene.serve.http.access import Held
from irene.serve.http.exchange import Exchange, Message, Receive, Scope, Send
from irene.serve.http.gate import CLOSE, TOO_MUCH, Gate
from irene.serve.http.logs import AccessLog
from irene.serve.http.metrics import Metrics
from irene.serve.http.passage import (
    AGAIN_S,
    ANSWER,
    FORM,
    MOST_BYTES,
    REPLY,
    Passage,
)
from irene.serve.http.problems import Problem, problem_of
from irene.serve.http.settings import API, Settings
from irene.serve.http.tracing import Tracing

logger = logging.getLogger(__name__)
App = Callable[[Scope, Receive, Send], Awaitable[None]]
HELD_BYTES, CLIENT_HELD_BYTES = 40_000_000, 5_000_000
"""Bodies that are held in memory at a time, and those of one client."""
UPLOADS = f"{API}/uploads"


class Front(Gate):
    """The layer in front of the app.

    Args:
        app: Everything else.
        settings: Of the server.
        memory: Answers that are ready.
        sizes: Those that take a moment.
        metrics: Counts.
        log: Has a line of each request.
        tracing: Follows; None: nobody does.
    """

    def __init__(
        self,
        app: App,
        settings: Settings,
        memory: Memory,
        sizes: Sizes,
        metrics: Metrics,
        log: AccessLog,
        tracing: Tracing | None = None,
    ) -> None:
        super().__init__(settings, memory, metrics, log, tracing)
        self.app = app
        self.sizes = sizes
        self.turns = Rounds(at_once=1, most=1)
        self.held = Held(HELD_BYTES, CLIENT_HELD_BYTES)
        self._replies: set[asyncio.Task[None]] = set()

    async def _answer(self, exchange: Exchange) -> None:
        if exchange.line is not None:
            exchange.line.returns = bool(exchange.client)
        await super()._answer(exchange)

    async def _give(self, ready: Ready, exchange: Exchange) -> None:
        """Answer from memory; who is at the door answers it the next time."""
        _tell_door(exchange, ANSWER, partial(self.memory.told, *exchange.asked, ready))
        await super()._give(ready, exchange)

    async def _go_on(self, exchange: Exchange) -> None:
        if exchange.scope["method"] == "GET":
            form, sizes = form_of(exchange.asked)
            told = exchange.asked, form, sizes, exchange.client
            ready = await self.sizes.answer(*told)
            if ready is not None:
                _tell_door(exchange, FORM, partial(marshal.dumps, form))
                await super()._give(ready, exchange)
                return
        await self.turns.enter(exchange.client)
        bounded = self._bounded(exchange)
        await self.app(exchange.scope, bounded, exchange.send)

    def begin_reply(self, passage: Passage, told: bytes) -> None:
        """Answer a request that the one at the door has, who knows its form.

        Args:
            passage: Takes the reply there.
            told: Of `Doorway`.
        """
        task = asyncio.create_task(self._reply(passage, told))
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    async def _reply(self, passage: Passage, told: bytes) -> None:
        asked: Asked
        number, headers, (asked, form, sizes, client) = marshal.loads(told)
        found, problem = None, None
        try:
            known = self.memory.request(*asked, form[0])
            if known is not None:
                self.metrics.answer("memory", 0.0)
                passage.tell(ANSWER, self.memory.told(*asked, known))
            ready = known or await self.sizes.answer(asked, form, sizes, client)
            found = None if ready is None else ready.response(headers)
        except IreneError as error:
            refused = problem_of(error)
            problem = refused.status, refused.detail, refused.headers
        except Exception:  # it is passed on, and fails as it would have here
            logger.exception("unexpected error")
        answer = marshal.dumps((number, found, problem))
        if len(answer) >= MOST_BYTES:
            answer = marshal.dumps((number, None, None))
        while not (passage.tell(REPLY, answer) or passage.is_closed):
            await asyncio.sleep(AGAIN_S)

    def _bounded(self, exchange: Exchange) -> Receive:
        """The body, up to its largest size and for as long as it may take."""
        limits, headers = self.settings.limits, exchange.headers
        is_upload = exchange.scope["path"].startswith(UPLOADS)
        most = limits.upload_bytes if is_upload else limits.body_bytes
        too_large = f"the body is larger than the {most:,} bytes that are taken"
        told = headers.get(b"content-length", b"")
        if told.isdigit() and int(told[:20]) > most:
            raise Problem(413, too_large, CLOSE)
        if not told and b"transfer-encoding" not in headers:
            return exchange.receive
        hold = partial(exchange.hold, self.large if is_upload else self.held)
        return _bounded_body(exchange.receive, most, limits.body_s, too_large, hold)


def _tell_door(exchange: Exchange, kind: bytes, told: Callable[[], bytes]) -> None:
    """Tell the one at the door, who had no answer to this request."""
    line = exchange.line
    if line is not None and line.is_passed and line.loop.passage is not None:
        line.loop.passage.tell(kind, told())


def _bounded_body(
    receive: Receive,
    most: int,
    seconds: float,
    too_large: str,
    hold: Callable[[int], bool],
) -> Receive:
    got = 0
    is_whole = False
    ends = time.monotonic() + seconds

    async def bounded() -> Message:
        nonlocal got, is_whole
        if is_whole:
            return await receive()
        try:
            async with asyncio.timeout(ends - time.monotonic()):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the body came too slowly", CLOSE) from None
        size = len(message.get("body", b""))
        got += size
        if got > most:
            raise HTTPException(413, too_large, CLOSE)
        if not hold(size):
            raise HTTPException(429, TOO_MUCH, {**CLOSE, "Retry-After": "10"})
        is_whole = not message.get("more_body", False)
        return message

    return bounded
