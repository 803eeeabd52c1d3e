"""What a request passes inside: answers that take a moment, then the app."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.exceptions import HTTPException

from irene.serve.answers.memory import Memory, Ready
from irene.serve.answers.sizes import Sizes
from irene.serve.computing.turns import Rounds
from irene.serve.http.access import Held, client_of
from irene.serve.http.exchange import Exchange, Message, Receive, Scope, Send
from irene.serve.http.gate import CLOSE, TOO_MUCH, Gate, as_it_came, line_of
from irene.serve.http.logs import AccessLog
from irene.serve.http.metrics import Metrics
from irene.serve.http.problems import Problem
from irene.serve.http.settings import API, Settings
from irene.serve.http.tracing import Tracing

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

    async def _answer(self, scope: Scope, receive: Receive, exchange: Exchange) -> None:
        line = line_of(scope)
        if line is not None:
            line.returns = bool(client_of(scope))
        await super()._answer(scope, receive, exchange)

    async def _give(
        self,
        ready: Ready,
        scope: Scope,
        headers: dict[bytes, bytes],
        exchange: Exchange,
    ) -> None:
        """Answer from memory; who is at the door answers it the next time."""
        line = line_of(scope)
        if line is not None and line.is_passed and line.loop.passage is not None:
            told = self.memory.told(*as_it_came(scope, headers), ready)
            line.loop.passage.tell(told)
        await super()._give(ready, scope, headers, exchange)

    async def _go_on(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        receive: Receive,
        exchange: Exchange,
    ) -> None:
        client = client_of(scope)
        if scope["method"] == "GET":
            asked = as_it_came(scope, headers)
            ready = await self.sizes.answer(asked, client)
            if ready is not None:
                await super()._give(ready, scope, headers, exchange)
                return
        await self.turns.enter(client)
        bounded = self._bounded(scope["path"], headers, receive, exchange)
        await self.app(scope, bounded, exchange.send)

    def _bounded(
        self,
        path: str,
        headers: dict[bytes, bytes],
        receive: Receive,
        exchange: Exchange,
    ) -> Receive:
        """The body, up to its largest size and for as long as it may take."""
        limits = self.settings.limits
        is_upload = path.startswith(UPLOADS)
        most = limits.upload_bytes if is_upload else limits.body_bytes
        too_large = f"the body is larger than the {most:,} bytes that are taken"
        told = headers.get(b"content-length", b"")
        if told.isdigit() and int(told[:20]) > most:
            raise Problem(413, too_large, CLOSE)
        if not told and b"transfer-encoding" not in headers:
            return receive
        hold = partial(exchange.hold, self.large if is_upload else self.held)
        return _bounded_body(receive, most, limits.body_s, too_large, hold)


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
