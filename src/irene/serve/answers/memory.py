"""Answers in memory, ready to be sent: the first place that is looked at."""

from __future__ import annotations

import gzip
from collections import OrderedDict
from dataclasses import dataclass, replace

__all__ = ["Memory", "Ready", "make_ready"]

SMALLEST_GZIP = 500
CHECK_AGAIN = "no-cache"
LINK = b"content-location"

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Ready:
    """An answer and its headers, encoded once.

    Attributes:
        key: Its name.
        body: As it is.
        packed: As gzip; None where that would not be smaller.
        headers: Sent with `body`.
        packed_headers: Sent with `packed`.
        not_modified: Sent when the client has it.
    """

    key: str
    body: bytes
    packed: bytes | None
    headers: Headers
    packed_headers: Headers
    not_modified: Headers

    @property
    def size(self) -> int:
        """Bytes it takes."""
        return len(self.body) + len(self.packed or b"")

    def without_link(self) -> Ready:
        """The same answer without the promise of a permalink."""
        return replace(
            self,
            headers=_without_link(self.headers),
            packed_headers=_without_link(self.packed_headers),
            not_modified=_without_link(self.not_modified),
        )


def _without_link(headers: Headers) -> Headers:
    return [pair for pair in headers if pair[0] != LINK]


def make_ready(
    key: str, body: bytes, media_type: str, *, packed: bytes | None = None
) -> Ready:
    """Encode an answer.

    Args:
        key: Its name.
        body: As it is.
        media_type: What it is.
        packed: As gzip, if that is known.
    """
    if packed is None and len(body) >= SMALLEST_GZIP:
        packed = gzip.compress(body, 6, mtime=0)
    if packed is not None and len(packed) >= len(body):
        packed = None
    same = [
        (b"etag", f'"{key}"'.encode()),
        (b"cache-control", CHECK_AGAIN.encode()),
        (LINK, f"/api/v1/answers/{key}".encode()),
        (b"vary", b"Accept, Accept-Encoding"),
    ]
    typed = [(b"content-type", media_type.encode()), *same]
    return Ready(
        key,
        body,
        packed,
        [*typed, (b"content-length", str(len(body)).encode())],
        [
            *typed,
            (b"content-encoding", b"gzip"),
            (b"content-length", str(len(packed or b"")).encode()),
        ],
        same,
    )


class Memory:
    """The answers that were asked for last, up to a size.

    A request that was answered is remembered as it came, so that the same request again
    needs no parsing at all.

    Args:
        most_bytes: How much is kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._answers: OrderedDict[str, Ready] = OrderedDict()
        self._requests: OrderedDict[tuple[str, bytes, bytes], str] = OrderedDict()

    def get(self, key: str) -> Ready | None:
        """An answer by its name."""
        found = self._answers.get(key)
        if found is not None:
            self._answers.move_to_end(key)
        return found

    def put(self, ready: Ready) -> None:
        """Keep an answer; those that were not asked for longest make room."""
        if ready.size > self.most_bytes // 4 or ready.key in self._answers:
            return
        self._answers[ready.key] = ready
        self.bytes += ready.size
        while self.bytes > self.most_bytes:
            _, old = self._answers.popitem(last=False)
            self.bytes -= old.size

    def drop(self, key: str) -> None:
        """Forget an answer."""
        old = self._answers.pop(key, None)
        if old is not None:
            self.bytes -= old.size

    def request(self, path: str, query: bytes, accept: bytes) -> Ready | None:
        """The answer to a request that was answered before."""
        key = self._requests.get((path, query, accept))
        return None if key is None else self.get(key)

    def remember(self, path: str, query: bytes, accept: bytes, key: str) -> None:
        """Note which answer a request has."""
        self._requests[(path, query, accept)] = key
        while len(self._requests) > 10_000:
            self._requests.popitem(last=False)
