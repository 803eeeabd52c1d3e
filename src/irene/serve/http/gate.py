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
    client_of,
    network_of,
)
from irene.serve.http.connections import LARGEST_HEAD, LINE, PatientProtocol
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
        if self.tracing is None:
            await self._exchange(scope, receive, Exchange(send, self.large))
        else:
            headers = dict(scope["headers"])
            with self.tracing.request(scope["method"], headers) as span:
                exchange = Exchange(send, self.large)
                await self._exchange(scope, receive, exchange)
                span.update_name(f"{scope['method']} {exchange.route}")
                span.set_attributes(exchange.attributes(scope))

    @abstractmethod
    async def _go_on(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        receive: Receive,
        exchange: Exchange,
    ) -> None:
        """Answer what is not in memory."""

    async def _exchange(
        self, scope: Scope, receive: Receive, exchange: Exchange
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
            if not exchange.is_passed:
                self._note(scope, exchange)

    async def _refuse(
        self, problem: Problem, scope: Scope, receive: Receive, exchange: Exchange
    ) -> None:
        exchange.is_too_much = False
        response = problem_response(problem, scope["path"])
        await response(scope, receive, exchange.send)

    async def _answer(self, scope: Scope, receive: Receive, exchange: Exchange) -> None:
        headers = dict(scope["headers"])
        self._check_form(scope, headers)
        self._check_rate(scope)
        if self.settings.private:
            self.access.check(scope, headers)
        ready = self._known(scope, headers)
        if ready is not None:
            await self._give(ready, scope, headers, exchange)
            return
        self.access.check(scope, headers)
        await self._go_on(scope, headers, receive, exchange)

    def _known(self, scope: Scope, headers: dict[bytes, bytes]) -> Ready | None:
        """The answer to a request that was answered before."""
        ready = None
        if scope["method"] == "GET":
            ready = self.memory.request(*as_it_came(scope, headers))
        if ready is not None:
            self.metrics.answer("memory", 0.0)
        return ready

    async def _give(
        self,
        ready: Ready,
        scope: Scope,
        headers: dict[bytes, bytes],
        exchange: Exchange,
    ) -> None:
        exchange.route = scope["path"]
        await exchange.give(ready, headers, line_of(scope))

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

    def _check_rate(self, scope: Scope) -> None:
        client = client_of(scope)
        if scope["path"] in UNLIMITED or not (client or self.is_own_limited):
            return
        wait = self.rates.wait_s(client)
        if wait:
            words = f"too many requests: wait {math.ceil(wait)} s"
            raise Problem(429, words, again_s=wait)

    def _note(self, scope: Scope, exchange: Exchange) -> None:
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


def as_it_came(scope: Scope, headers: dict[bytes, bytes]) -> tuple[str, bytes, bytes]:
    """Path, query and `Accept` header of a request."""
    return scope["path"], scope["query_string"], headers.get(b"accept", b"")


def line_of(scope: Scope) -> PatientProtocol | None:
    """The connection of a request, where it is ours."""
    found: PatientProtocol | None = scope.get("state", {}).get(LINE)
    return found


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
