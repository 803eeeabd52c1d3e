"""Requests to a server: packed, remembered by ETag, sent again when it is busy."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.message import Message
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException
from itertools import count
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from irene import __version__
from irene.errors import FormatError, UsageError
from irene.serve.client.refusals import detail_of, error_of, foreign, unreachable
from irene.serve.http.settings import API, is_loopback
from irene.serve.recent import Recent

BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
MOST_RETRIES = 5
SHORTEST_WAIT_S = 0.1
MOST_BYTES = 64_000_000
"""Replies that are kept, so that a server need not send them again."""
LARGEST_PART = 0.25
JSON = "application/json"

Query = Sequence[tuple[str, str]]
"""Parameters of a request, in order; a name may occur more than once."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered, unpacked, with its ETag and its permalink."""

    body: bytes
    media_type: str
    etag: str | None = None
    link: str | None = None
    retry_after_s: float | None = None
    was_known: bool = False

    @property
    def key(self) -> str | None:
        """The key of its permalink, as `Server.answer` takes it."""
        return self.link.rpartition("/")[2] if self.link else None

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document."""
        try:
            found = json.loads(self.body)
        except ValueError as error:
            raise FormatError(f"the answer is {self.media_type}, not JSON") from error
        if not isinstance(found, dict):
            raise FormatError("the answer is not a JSON object")
        return found


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would take the token to another server, and turn a POST into a GET."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Transport:
    """The way to one server; threads may share it."""

    def __init__(self, base_url: str, token: str | None, timeout_s: float) -> None:
        self.base_url = _checked(base_url)
        self.timeout_s = timeout_s
        self._token = token
        self._opener = _opener(self.base_url)
        self._known: Recent[str, Reply] = Recent(
            MOST_BYTES, lambda reply: len(reply.body), LARGEST_PART
        )

    def get(self, path: str, query: Query = ()) -> Reply:
        """Ask for a document below `/api/v1`."""
        url = self.url(path, query)
        known = self._known.get(url)
        headers = {"If-None-Match": known.etag} if known and known.etag else {}
        reply = self._exchange(self._request("GET", url, None, headers))
        if reply is None:
            assert known is not None
            return replace(known, was_known=True)
        if reply.etag is not None:
            self._known.put(url, reply)
        return reply

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: Query = (),
    ) -> Reply:
        """Send something."""
        request = self._request(method, self.url(path, query), body, headers or {})
        reply = self._exchange(request)
        assert reply is not None
        return reply

    @contextmanager
    def stream(self, path: str, last_id: str | None, quiet_s: float) -> Iterator[Any]:
        """The lines of an event stream, as bytes."""
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        request = self._request("GET", self.url(path), None, headers)
        try:
            with self._open(request, quiet_s) as response:
                if response.status != HTTPStatus.OK:
                    raise self._refused(request, response, _body(response))
                yield response
        except (OSError, HTTPException) as error:
            raise unreachable(self.base_url, error, quiet_s) from error

    def url(self, path: str, query: Query = ()) -> str:
        """The whole address of something below `/api/v1`."""
        asked = f"?{urlencode(query)}" if query else ""
        return f"{self.base_url}{API}{path}{asked}"

    def _request(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Request:
        usual = {
            "Accept": JSON,
            "Accept-Encoding": "gzip",
            "User-Agent": f"irene/{__version__}",
        }
        if self._token is not None:
            usual["Authorization"] = f"Bearer {self._token}"
        return Request(url, body, {**usual, **headers}, method=method)

    def _exchange(self, request: Request) -> Reply | None:
        """Send a request until it is answered; None if the client has the answer."""
        waited_s = 0.0
        for tries in count(1):
            try:
                with self._open(request, self.timeout_s) as response:
                    body = _body(response)
            except (OSError, HTTPException, EOFError, zlib.error) as error:
                size = len(request.data) if isinstance(request.data, bytes) else 0
                raise unreachable(self.base_url, error, self.timeout_s, size) from error
            if response.status == HTTPStatus.NOT_MODIFIED:
                return None
            if 200 <= response.status < 300:
                return self._reply(request, response, body)
            wait_s = retry_after_s(response.headers)
            refused = self._refused(request, response, body)
            if response.status not in BUSY or wait_s is None or tries > MOST_RETRIES:
                raise refused
            waited_s += wait_s
            if waited_s > self.timeout_s:
                raise refused
            time.sleep(max(wait_s, SHORTEST_WAIT_S))
        raise AssertionError

    def _open(self, request: Request, timeout_s: float) -> Any:
        try:
            return self._opener.open(request, timeout=timeout_s)
        except HTTPError as error:
            return error  # a reply too

    def _reply(self, request: Request, response: Any, body: bytes) -> Reply:
        media_type = response.headers.get_content_type()
        if media_type == "text/html":
            raise foreign(request.full_url, response.status, media_type, None)
        link = response.headers.get("Content-Location")
        return Reply(
            body,
            media_type,
            response.headers.get("ETag"),
            f"{self.base_url}{link}" if link else None,
            retry_after_s(response.headers),
        )

    def _refused(self, request: Request, response: Any, body: bytes) -> Exception:
        media_type = response.headers.get_content_type()
        detail = detail_of(body, media_type)
        if detail is None:
            location = response.headers.get("Location")
            return foreign(request.full_url, response.status, media_type, location)
        return error_of(response.status, detail, dict(response.headers.items()))


def _body(response: IO[bytes]) -> bytes:
    body = response.read()
    headers: Message = response.headers  # type: ignore[attr-defined]
    return gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body


def retry_after_s(headers: Message) -> float | None:
    """When a server wants to be asked again, s; None if it does not say."""
    text = headers.get("Retry-After")
    if text is None:
        return None
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except ValueError:
        return None


def _checked(base_url: str) -> str:
    text = base_url.rstrip("/").removesuffix(API)
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        good = good and not (parts.username or parts.query or parts.fragment)
        good = good and parts.port != 0 and text.isascii() and text.isprintable()
    except ValueError:
        good = False
    if not good or " " in text:
        raise UsageError(
            f"{base_url!r} is no address of a server: write http://HOST:PORT or "
            "https://HOST"
        )
    return text


def _opener(base_url: str) -> OpenerDirector:
    """A proxy is for other machines than this one."""
    is_here = is_loopback(urlsplit(base_url).hostname or "")
    return build_opener(_NoRedirects, *([ProxyHandler({})] if is_here else []))
