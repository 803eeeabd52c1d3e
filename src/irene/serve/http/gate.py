"""What every request passes, in whichever process: its form, its rate, its token.

Answers that are ready in memory are given at once. Every response gets its headers
here, is counted and is written to the access log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from abc import ABC, abstractmethod

from starlette.responses import Response

from irene.errors import IreneError
from irene.serve.answers.memory import Memory, Ready
from irene.serve.http.access import (
    CLIENT,
    Access,
    Held,
    Rates,
    network_of,
)
from irene.serve.http.connections import LARGEST_HEAD
from irene.serve.http.exchange import Exchange, Receive, Scope, Send
from irene.serve.http.logs import AccessLog
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
UNLIMITED = ("/healthz", "/readyz")
VERSIONS = ("1.0", "1.1", "2", "3")
CLOSE = {"Connection": "close"}
LARGE_BYTES, MOST_LARGE, CLIENT_LARGE = 20_000_000, 20, 3
"""Uploads and large answers on their way are as much as so many of these."""
TOO_MUCH = "too much is on its way already, of yours or of all: ask again later"


class Gate(ABC):
    """A plain ASGI layer.

    Args:
        settings: Of the server.
        memory: Answers that are ready.
        metrics: Counts.
        log: Has a line of each request.
        tracing: Follows; None: nobody does.
    """

    def __init__(
        self,
        settings: Settings,
        memory: Memory,
        metrics: Metrics,
        log: AccessLog,
        tracing: Tracing | None = None,
    ) -> None:
        self.settings = settings
        self.memory = memory
        self.metrics = metrics
        self.log = log
        self.tracing = tracing
        self.access = Access(settings)
        rate = settings.limits.requests_per_s
        self.rates = Rates(USUAL_RATE if rate is None else rate, settings.limits.burst)
        self.is_own_limited = rate is not None
        largest = max(settings.limits.upload_bytes, LARGE_BYTES)
        self.large = Held(MOST_LARGE * largest, CLIENT_LARGE * largest)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange = Exchange(scope, receive, send, self.large)
        if self.tracing is None:
            await self._exchange(exchange)
        else:
            with self.tracing.request(scope["method"], exchange.headers) as span:
                await self._exchange(exchange)
                span.update_name(f"{scope['method']} {exchange.route}")
                span.set_attributes(exchange.attributes())

    @abstractmethod
    async def _go_on(self, exchange: Exchange) -> None:
        """Answer what is not in memory."""

    async def _exchange(self, exchange: Exchange) -> None:
        address = _address(exchange.scope)
        is_own = self.settings.is_own(address)
        exchange.client = exchange.scope[CLIENT] = "" if is_own else network_of(address)
        try:
            await self._answer(exchange)
            if exchange.is_too_much:
                raise Problem(429, TOO_MUCH, again_s=10)
        except IreneError as error:
            await self._refuse(problem_of(error), exchange)
        except asyncio.CancelledError:  # a stop waits only so long
            if not exchange.status:
                ending = Problem(503, "the server is stopping", again_s=5)
                await self._refuse(ending, exchange)
        except Exception:
            logger.exception("unexpected error")
            if exchange.status and not exchange.is_complete:
                raise  # half a response cannot be taken back
            if not exchange.status:
                bug = Problem(500, "this is a bug in irene; see its log")
                await self._refuse(bug, exchange)
        finally:
            exchange.let_go()
            if not exchange.is_passed:
                self._note(exchange)

    async def _refuse(self, problem: Problem, exchange: Exchange) -> None:
        exchange.is_too_much = False
        response = problem_response(problem, exchange.scope["path"])
        await response(exchange.scope, exchange.receive, exchange.send)

    async def _answer(self, exchange: Exchange) -> None:
        scope, headers = exchange.scope, exchange.headers
        self._check_form(scope, headers)
        self._check_rate(exchange)
        if self.settings.private:
            self.access.check(scope, headers)
        ready = None
        if scope["method"] == "GET":
            ready = self.memory.request(*exchange.asked)
        if ready is not None:
            self.metrics.answer("memory", 0.0)
            await self._give(ready, exchange)
            return
        self.access.check(scope, headers)
        await self._go_on(exchange)

    async def _give(self, ready: Ready, exchange: Exchange) -> None:
        """Answer from memory."""
        await exchange.give(*ready.response(exchange.headers))

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

    def _check_rate(self, exchange: Exchange) -> None:
        client = exchange.client
        if exchange.scope["path"] in UNLIMITED or not (client or self.is_own_limited):
            return
        wait = self.rates.wait_s(client)
        if wait:
            words = f"too many requests: wait {math.ceil(wait)} s"
            raise Problem(429, words, again_s=wait)

    def _note(self, exchange: Exchange) -> None:
        scope, seconds = exchange.scope, time.perf_counter() - exchange.started
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
