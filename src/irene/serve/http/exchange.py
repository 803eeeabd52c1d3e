"""One request and what is sent to answer it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES

from irene.serve.answers.memory import ETAG, LINK, Asked, Headers
from irene.serve.http.access import Held
from irene.serve.http.connections import LINE, PatientProtocol
from irene.serve.http.logs import new_request

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
PIECE = 262_144
"""Bytes of an answer that go out together: the rest waits for who takes it slowly."""
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


class Exchange:
    """One request, what was sent to answer it, and what is held in memory for it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, large: Held) -> None:
        self.scope, self.receive = scope, receive
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.started = time.perf_counter()
        self.status = 0
        self.sent = 0
        self.is_complete = False
        self.route = ""
        self.key = new_request()
        self.client = ""
        self.is_too_much = False
        self.is_passed = False
        self._send = send
        self._large = large
        self._held: list[tuple[Held, int]] = []

    @property
    def asked(self) -> Asked:
        """What decides its answer."""
        return as_it_came(self.scope, self.headers)

    @property
    def line(self) -> PatientProtocol | None:
        """Its connection, where that is ours."""
        found: PatientProtocol | None = self.scope.get("state", {}).get(LINE)
        return found

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

    def attributes(self) -> dict[str, str | int]:
        """What of it is told to those who follow, by OpenTelemetry's names."""
        return {
            "http.request.method": self.scope["method"][:16], "http.route": self.route,
            "http.response.status_code": self.status, "irene.request": self.key,
        }  # fmt: skip

    def _id(self) -> tuple[bytes, bytes]:
        return (b"x-request-id", self.key.encode())

    async def give(self, status: int, told: Headers, body: bytes) -> None:
        """Send an answer that is ready, at once where the connection is ours.

        Args:
            status: Of `Ready.response`, as the others are.
            told: Its headers.
            body: All of it.
        """
        self.route, line = self.scope["path"], self.line
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


def as_it_came(scope: Scope, headers: dict[bytes, bytes]) -> Asked:
    """What decides the answer to a request."""
    return scope["path"], scope["query_string"], headers.get(b"accept", b"")


@lru_cache(250)
def _head(status: int, told: Headers) -> h11.Response:
    """The head of an answer; to check it takes longer than all else about it."""
    return h11.Response(
        status_code=status, headers=[*told, *SECURITY], reason=STATUS_PHRASES[status]
    )
