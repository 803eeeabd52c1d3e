"""What every request passes through, as one plain ASGI layer.

Sizes and rate first, then answers that are ready in memory, then the app. Every
response gets its headers here, is counted and is written to the access log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache, partial
from typing import Any

import h11
from starlette.exceptions import HTTPException
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES

from irene.errors import IreneError
from irene.serve.answers.memory import ETAG, LINK, Headers, Memory, Ready
from irene.serve.answers.sizes import Sizes
from irene.serve.computing.turns import Rounds
from irene.serve.http.access import (
    CLIENT,
    Access,
    Held,
    Rates,
    client_of,
    network_of,
)
from irene.serve.http.connections import LARGEST_HEAD, LINE, PatientProtocol
from irene.serve.http.logs import AccessLog, new_request
from irene.serve.http.metrics import Metrics
from irene.serve.http.problems import (
    CLIENT_LEFT,
    MEDIA_TYPE,
    Problem,
    problem_document,
    problem_of,
)
from irene.serve.http.settings import API, USUAL_RATE, Settings
from irene.serve.http.tracing import Tracing

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
UNLIMITED = ("/healthz", "/readyz")
VERSIONS = ("1.0", "1.1", "2", "3")
CLOSE = {"Connection": "close"}
PIECE = 262_144
"""Bytes of an answer that go out together: the rest waits for who takes it slowly."""
HELD_BYTES, CLIENT_HELD_BYTES = 40_000_000, 5_000_000
"""Bodies that are held in memory at a time, and those of one client."""
LARGE_BYTES, MOST_LARGE, CLIENT_LARGE = 20_000_000, 20, 3
"""Uploads and large answers on their way are as much as so many of these."""
TOO_MUCH = "too much is on its way already, of yours or of all: ask again later"
UPLOADS = f"{API}/uploads"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY: Headers = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
"""No script, style or request from elsewhere; no framing; no guessing of types."""


class Front:
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
        self.app = app
        self.tracing = tracing
        self.settings = settings
        self.memory = memory
        self.sizes = sizes
        self.metrics = metrics
        self.log = log
        self.door = Rounds(at_once=1, most=1)
        self.access = Access(settings)
        rate = settings.limits.requests_per_s
        self.rates = Rates(USUAL_RATE if rate is None else rate, settings.limits.burst)
        self.is_own_limited = rate is not None
        largest = max(settings.limits.upload_bytes, LARGE_BYTES)
        self.large = Held(MOST_LARGE * largest, CLIENT_LARGE * largest)
        self.held = Held(HELD_BYTES, CLIENT_HELD_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self.tracing is None:
            await self._exchange(scope, receive, _Exchange(send, self.large))
        else:
            headers = dict(scope["headers"])
            with self.tracing.request(scope["method"], headers) as span:
                exchange = _Exchange(send, self.large)
                await self._exchange(scope, receive, exchange)
                span.update_name(f"{scope['method']} {exchange.route}")
                span.set_attributes(exchange.attributes(scope))

    async def _exchange(
        self, scope: Scope, receive: Receive, exchange: _Exchange
    ) -> None:
        address = _address(scope)
        is_own = self.settings.is_own(address)
        exchange.client = scope[CLIENT] = "" if is_own else network_of(address)
        try:
            await self._answer(scope, receive, exchange)
            if exchange.is_too_much:
                raise Problem(429, TOO_MUCH, again_s=10)
        except IreneError as error:
            await self._refuse(problem_of(error), scope, receive, exchange)
        except asyncio.CancelledError:  # a stop waits only so long
            if not exchange.status:
                ending = Problem(503, "the server is stopping", again_s=5)
                await self._refuse(ending, scope, receive, exchange)
        except Exception:
            logger.exception("unexpected error")
            if exchange.status and not exchange.is_complete:
                raise  # half a response cannot be taken back
            if not exchange.status:
                bug = Problem(500, "this is a bug in irene; see its log")
                await self._refuse(bug, scope, receive, exchange)
        finally:
            exchange.let_go()
            self._note(scope, exchange)

    async def _refuse(
        self, problem: Problem, scope: Scope, receive: Receive, exchange: _Exchange
    ) -> None:
        exchange.is_too_much = False
        response = problem_response(problem, scope["path"])
        await response(scope, receive, exchange.send)

    async def _answer(
        self, scope: Scope, receive: Receive, exchange: _Exchange
    ) -> None:
        path, query = scope["path"], scope["query_string"]
        headers = dict(scope["headers"])
        self._check_form(scope, headers)
        self._check_rate(scope, path)
        if self.settings.private:
            self.access.check(scope, headers)
        if scope["method"] == "GET":
            request = path, query, headers.get(b"accept", b"")
            ready = self.memory.request(*request)
            if ready is not None:
                self.metrics.answer("memory", 0.0)
            else:
                self.access.check(scope, headers)
                ready = await self.sizes.answer(request, client_of(scope))
            if ready is not None:
                exchange.route = path
                await exchange.give(ready, headers, scope.get("state", {}).get(LINE))
                return
        self.access.check(scope, headers)
        await self.door.enter(client_of(scope))
        bounded = self._bounded(path, headers, receive, exchange)
        await self.app(scope, bounded, exchange.send)

    def _check_form(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Refuse what is no request to this server, before anything of it is read."""
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size > self.settings.limits.query_bytes:
            raise Problem(414, "the address is longer than this server reads")
        if sum(map(len, headers)) + sum(map(len, headers.values())) > LARGEST_HEAD:
            raise Problem(431, f"more than {LARGEST_HEAD:,} bytes of headers", CLOSE)
        if scope.get("http_version", "1.1") not in VERSIONS:
            raise Problem(505, "this server speaks HTTP/1.1", CLOSE)
        if b"transfer-encoding" in headers and b"content-length" in headers:
            raise Problem(400, "a body has a length or is sent in chunks", CLOSE)
        self.access.check_host(headers.get(b"host", b""))

    def _check_rate(self, scope: Scope, path: str) -> None:
        client = client_of(scope)
        if path in UNLIMITED or not (client or self.is_own_limited):
            return
        wait = self.rates.wait_s(client)
        if wait:
            words = f"too many requests: wait {math.ceil(wait)} s"
            raise Problem(429, words, again_s=wait)

    def _bounded(
        self,
        path: str,
        headers: dict[bytes, bytes],
        receive: Receive,
        exchange: _Exchange,
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

    def _note(self, scope: Scope, exchange: _Exchange) -> None:
        seconds = time.perf_counter() - exchange.started
        exchange.route = exchange.route or _route(scope)
        exchange.status = exchange.status or CLIENT_LEFT
        self.metrics.request(exchange.route, scope["method"], exchange.status, seconds)
        if self.settings.access_log:
            self.log.note(
                exchange.key, network_of(_address(scope)), scope["method"],
                scope.get("raw_path") or b"", scope["query_string"], exchange.status,
                exchange.sent, seconds,
            )  # fmt: skip


def _address(scope: Scope) -> str:
    return str((scope.get("client") or ("", 0))[0])


def problem_response(problem: Problem, path: str) -> Response:
    """A problem as it is sent.

    Args:
        problem: What happened.
        path: That was asked for.
    """
    # As ASCII: a path or a detail may hold what has no UTF-8.
    body = json.dumps(problem_document(problem, path))
    return Response(body, problem.status, problem.headers, MEDIA_TYPE)


def _route(scope: Scope) -> str:
    """The route as it is declared; all that is none is one."""
    route = scope.get("route")
    found = getattr(route, "path_format", None) or getattr(route, "path", None)
    if not found:
        return "none"
    # A route of a group does not know under which prefix the group is.
    is_api = scope["path"].startswith(API) and not found.startswith(API)
    return f"{API}{found}" if is_api else str(found)


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


class _Exchange:
    """One request, what was sent to answer it, and what is held in memory for it."""

    def __init__(self, send: Send, large: Held) -> None:
        self.started = time.perf_counter()
        self.status = 0
        self.sent = 0
        self.is_complete = False
        self.route = ""
        self.key = new_request()
        self.client = ""
        self.is_too_much = False
        self._send = send
        self._large = large
        self._held: list[tuple[Held, int]] = []

    def hold(self, held: Held, size: int) -> bool:
        """Hold so many bytes more, if its client may have them."""
        may = held.add(self.client, size)
        if may:
            self._held.append((held, size))
        return may

    def let_go(self) -> None:
        """Hold nothing any more."""
        for held, size in self._held:
            held.remove(self.client, size)

    async def send(self, message: Message) -> None:
        """Pass on a message of the app, with our headers, and a large body in parts."""
        if message["type"] == "http.response.start":
            told = message.get("headers", ())
            size = int(dict(told).get(b"content-length", 0))
            self.is_too_much = size > PIECE and not self.hold(self._large, size)
            if not self.is_too_much:
                self.status = message["status"]
                message["headers"] = [*told, *SECURITY, self._id()]
                await self._send(message)
        elif not self.is_too_much:
            await self._send_body(message.get("body", b""), message)

    async def _send_body(self, body: bytes, message: Message) -> None:
        for start in range(0, len(body) or 1, PIECE):
            part = body[start : start + PIECE]
            more = start + PIECE < len(body) or message.get("more_body", False)
            self.sent += len(part)
            self.is_complete = not more
            await self._send({**message, "body": part, "more_body": more})

    def attributes(self, scope: Scope) -> dict[str, str | int]:
        """What of it is told to those who follow, by OpenTelemetry's names."""
        return {
            "http.request.method": scope["method"][:16], "http.route": self.route,
            "http.response.status_code": self.status, "irene.request": self.key,
        }  # fmt: skip

    def _id(self) -> tuple[bytes, bytes]:
        return (b"x-request-id", self.key.encode())

    async def give(
        self, ready: Ready, asked: dict[bytes, bytes], line: PatientProtocol | None
    ) -> None:
        """Send an answer that is ready, at once where the connection is ours."""
        status, told, body = ready.response(asked)
        if line is not None and len(body) <= PIECE:
            self.status, self.sent = status, len(body)
            # What names an answer is ours; all else about it many answers have.
            named = [pair for pair in told if pair[0] in (ETAG, LINK)]
            same = tuple(pair for pair in told if pair[0] not in (ETAG, LINK))
            own = b"".join(b"%s: %s\r\n" % pair for pair in (*named, self._id()))
            await line.give(_head(status, same), own, body)
            return
        start = {"type": "http.response.start", "status": status, "headers": told}
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body})


@lru_cache(250)
def _head(status: int, told: Headers) -> h11.Response:
    """The head of an answer; to check it takes longer than all else about it."""
    return h11.Response(
        status_code=status, headers=[*told, *SECURITY], reason=STATUS_PHRASES[status]
    )
