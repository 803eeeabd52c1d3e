"""Answers in memory, ready to be sent: the first place that is looked at."""

from __future__ import annotations

import gzip
import marshal
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache

from irene.predict.machines.added import added_when_ns
from irene.serve.recent import Recent

SMALLEST_GZIP = 500
CHECK_AGAIN = b"private, no-cache"
FOREVER = "private, max-age=31536000, immutable"
ETAG = b"etag"
LINK = b"content-location"
MOST_REQUESTS = 4_000
LONGEST_REQUEST = 1_000
"""Of those that are remembered as they came, bytes."""
LARGEST_PART = 0.25
"""One answer does not push out all others."""
MOST_S = 3_600.0
"""Time after which an answer is looked for in the store again, s: that notes that it is
used, and one that was deleted by another process is not given any longer."""

Headers = tuple[tuple[bytes, bytes], ...]
Asked = tuple[str, bytes, bytes]
"""What decides the answer to a request: path, query and the `Accept` header."""
Form = tuple[int, str, bytes, tuple[str, ...], bool]
"""All of that but for the sizes of the run, and when machines have changed."""
SIZES = ("batch_size", "seq_len", "decoder_len", "context_len")
SIZE = re.compile(
    rb"(?<![^&])(%s)=([1-9][0-9]{0,7})(?![^&])" % "|".join(SIZES).encode()
)
"""A size in a query, within its bounds whatever it is."""


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

    def without(self, *names: bytes) -> Ready:
        """The same answer without headers that would promise too much.

        Args:
            *names: `LINK`: it has no permalink; `ETAG`: it may be another next time.
        """

        def rest(headers: Headers) -> Headers:
            return tuple(pair for pair in headers if pair[0] not in names)

        return replace(
            self,
            headers=rest(self.headers),
            packed_headers=rest(self.packed_headers),
            not_modified=rest(self.not_modified),
        )

    def response(self, asked: Mapping[bytes, bytes]) -> tuple[int, Headers, bytes]:
        """Status, headers and body for a request.

        Args:
            asked: Headers of the request: nothing is sent to a client that has the
                answer, and it is packed for one that can unpack it.
        """
        has = asked.get(b"if-none-match", b"")
        # Tags may be weak, as a proxy that packs makes them.
        if has and (f'"{self.key}"'.encode() in has or has.strip() == b"*"):
            return 304, self.not_modified, b""
        if self.packed and _takes_gzip(asked.get(b"accept-encoding", b"")):
            return 200, self.packed_headers, self.packed
        return 200, self.headers, self.body


@lru_cache(1_000)
def _takes_gzip(accepted: bytes) -> bool:
    """Whether a client can unpack, as its `Accept-Encoding` says."""
    codings = {}
    for part in accepted.lower().split(b","):
        name, _, rest = part.partition(b";")
        quality = rest.strip().removeprefix(b"q=").strip()
        codings[name.strip()] = quality.rstrip(b"0.") != b"" if rest else True
    return codings.get(b"gzip", codings.get(b"*", False))


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
    same = (
        (ETAG, f'"{key}"'.encode()),
        (b"cache-control", CHECK_AGAIN),
        (LINK, f"/api/v1/answers/{key}".encode()),
        (b"vary", b"Accept, Accept-Encoding"),
    )
    typed = ((b"content-type", media_type.encode()), *same)
    return Ready(
        key,
        body,
        packed,
        (*typed, (b"content-length", b"%d" % len(body))),
        (
            *typed,
            (b"content-encoding", b"gzip"),
            (b"content-length", b"%d" % len(packed or b"")),
        ),
        same,
    )


class Memory:
    """The answers that were asked for last, up to a size.

    A request that was answered is remembered as it came, so that the same request again
    needs no parsing at all: that is what makes it as fast as a bare endpoint. It is
    asked anew once a machine was added, learned or chosen.

    Args:
        most_bytes: How much is kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self.answers: Recent[str, Ready] = Recent(
            most_bytes, lambda ready: ready.size, LARGEST_PART, MOST_S
        )
        self._keys: Recent[tuple[int, str, bytes, bool], str] = Recent(MOST_REQUESTS)

    def request(
        self, path: str, query: bytes, accept: bytes, when_ns: int | None = None
    ) -> Ready | None:
        """The answer to a request that was answered before, as for `remember`."""
        when_ns = added_when_ns() if when_ns is None else when_ns
        key = self._keys.get((when_ns, path, query, prefers_csv(accept)))
        return None if key is None else self.answers.get(key)

    def remember(
        self,
        path: str,
        query: bytes,
        accept: bytes,
        key: str,
        when_ns: int | None = None,
    ) -> None:
        """Note which answer a request has, with the machines of now or of a time."""
        if len(path) + len(query) <= LONGEST_REQUEST:
            when_ns = added_when_ns() if when_ns is None else when_ns
            self._keys.put((when_ns, path, query, prefers_csv(accept)), key)

    def told(self, path: str, query: bytes, accept: bytes, ready: Ready) -> bytes:
        """What another process needs to give this answer to this request, too."""
        asked = added_when_ns(), path, query, prefers_csv(accept)
        parts = tuple(getattr(ready, each.name) for each in fields(ready))
        return marshal.dumps((asked, parts))

    def learn(self, told: bytes) -> None:
        """Know what another process has told."""
        asked, parts = marshal.loads(told)
        ready = Ready(*parts)
        self.answers.put(ready.key, ready)
        self._keys.put(asked, ready.key)


def form_of(asked: Asked) -> tuple[Form, dict[str, int]]:
    """What names a request but for its sizes, and these."""
    path, query, accept = asked
    found = SIZE.findall(query)
    sizes = {name.decode(): int(value) for name, value in found}
    rest = SIZE.sub(rb"\1", query)
    return (added_when_ns(), path, rest, tuple(sizes), prefers_csv(accept)), sizes


def prefers_csv(accept: bytes) -> bool:
    """Whether a client wants a table: all that its `Accept` header decides."""
    return b"text/csv" in accept and b"json" not in accept
