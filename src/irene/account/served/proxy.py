"""A door before a server: requests go through it, and what they took is written down.

Answers are passed on as they come, streams too. What they say of their tokens is read
on the way; an answer that says nothing (a stream of the API of OpenAI without
`stream_options: {"include_usage": true}`) is passed on and told of.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from irene.account.served.requests import Requests
from irene.errors import UsageError

OF_ONE_HOP = {
    "accept-encoding", "connection", "content-length", "host", "keep-alive",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip
"""Headers that are not passed on; answers are asked for as plain text."""
WITHOUT_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
TOLD = ("id", "model", "usage", "timings", "created_at")
MOST_AT_ONCE = 1 << 16


def counts_in(answer: bytes) -> dict[str, Any]:
    """What an answer says of itself: one document, a document per line, or events."""
    found: dict[str, Any] = {}
    whole = answer.decode("utf-8", "replace")
    for line in (whole, *whole.splitlines()):
        try:
            told = json.loads(line.removeprefix("data:"))
        except ValueError:
            continue
        if isinstance(told, dict):
            found |= {k: v for k, v in told.items() if v and (k in TOLD or "eval" in k)}
    return found


@contextmanager
def proxied(url: str, port: int) -> Iterator[tuple[Requests, int]]:
    """Open a door before a server, at a free port for 0; what passes, and the port."""
    passed = Requests()

    class Handler(_Handler):
        asked, requests = url, passed

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except (OSError, OverflowError) as error:
        raise UsageError(f"port {port} cannot be used: {error}") from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield passed, server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Passes a request on, and its answer back."""

    protocol_version = "HTTP/1.1"
    asked: str
    requests: Requests

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _forward(self) -> None:
        if self.headers.get("Transfer-Encoding"):
            self.send_error(411)
            return
        times = {"start": time.time()}
        parts = urlsplit(self.asked)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        server = kind(parts.hostname or "", parts.port)
        with closing(server):
            try:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                sent = dict(_passed_on(self.headers.items()))
                server.request(self.command, self.path, body, sent)
                answer = server.getresponse()
            except (OSError, HTTPException) as error:
                self.send_error(502, type(error).__name__)
                return
            try:
                self._pass_back(answer, times)
            except (OSError, HTTPException):  # one of both has left
                self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = _forward  # noqa: N815

    def _pass_back(self, answer: HTTPResponse, times: dict[str, float]) -> None:
        """Pass the answer on; who has the end of it finds it told."""
        length = answer.getheader("Content-Length")
        self.send_response_only(answer.status, answer.reason)
        for name, value in _passed_on(answer.getheaders()):
            self.send_header(name, value)
        has_body = self.command != "HEAD" and answer.status not in WITHOUT_BODY
        streams = length is None and has_body
        if streams:
            self.send_header("Transfer-Encoding", "chunked")
        elif length is not None or has_body:
            self.send_header("Content-Length", length or "0")
        self.end_headers()
        told = bytearray()
        while part := answer.read1(MOST_AT_ONCE):
            told += part
            if streams:
                times.setdefault("first_token", time.time())
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        times["end"] = time.time()
        if self.command == "POST" and answer.status == HTTPStatus.OK:
            where = f"an answer of {self.path}"
            self.requests.tell(counts_in(bytes(told)) | times, times["end"], where)
        self.wfile.write(b"0\r\n\r\n" if streams else told)


def _passed_on(headers: Any) -> list[tuple[str, str]]:
    return [(k, v) for k, v in headers if k.lower() not in OF_ONE_HOP]
