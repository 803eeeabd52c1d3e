"""Who may do what, and how often.

Changes need a token where there is one, and come from no other site; every client has a
bucket of tokens for its requests.
"""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from irene.serve.http.problems import Problem
from irene.serve.http.settings import LOCAL_NAMES, Settings
from irene.serve.recent import Recent

__all__ = ["Rates", "check_access", "client_of"]

READING = ("GET", "HEAD", "OPTIONS")
MOST_CLIENTS = 10_000
GUARDED = ("/api/v1/jobs", "/api/v1/uploads")


def check_access(
    settings: Settings, method: str, path: str, headers: Mapping[bytes, bytes]
) -> None:
    """Refuse a request that may not do what it asks for.

    Args:
        settings: Of the server.
        method: Of the request.
        path: Of the request.
        headers: Of the request.

    Raises:
        Problem: It may not.
    """
    if method in READING:
        return
    _check_origin(settings, headers)
    if not path.startswith(GUARDED):
        return
    if settings.read_only:
        raise Problem(403, "this server is read-only: it takes no jobs and no uploads")
    if settings.token is None:
        return
    kind, _, shown = headers.get(b"authorization", b"").partition(b" ")
    is_right = hmac.compare_digest(shown.strip(), settings.token.encode())
    if kind.lower() != b"bearer" or not is_right:
        raise Problem(
            401,
            "jobs and uploads need the token of this server: send the header "
            "`Authorization: Bearer TOKEN`",
            {"WWW-Authenticate": 'Bearer realm="irene"'},
        )


def _check_origin(settings: Settings, headers: Mapping[bytes, bytes]) -> None:
    """A page of another site may not use a visitor's way to this server."""
    origin = headers.get(b"origin")
    if origin is None:  # not a browser
        return
    name = (urlsplit(origin.decode("latin-1")).hostname or "").lower()
    host = headers.get(b"host", b"").decode("latin-1").lower()
    same = urlsplit(origin.decode("latin-1")).netloc.lower() == host
    # On a local address another site could point its own name at this machine.
    local = (*LOCAL_NAMES, "127.0.0.1", "::1", settings.host.lower())
    public = urlsplit(settings.public_url or "").netloc.lower()
    if not same or (settings.is_local and name not in local and host != public):
        raise Problem(403, "requests of other sites are refused")


class Rates:
    """Buckets that fill at a rate, up to a burst; a request takes one token.

    Args:
        per_s: Tokens per second; 0: no limit.
        burst: Tokens of a full bucket.
        clock: Gives the time, s.
    """

    def __init__(
        self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.per_s = per_s
        self.burst = float(max(burst, 1))
        self._clock = clock
        self._buckets: Recent[str, tuple[float, float]] = Recent(MOST_CLIENTS)

    def wait_s(self, client: str) -> float:
        """Take a token; 0, or the time until there is one, s."""
        if not self.per_s:
            return 0.0
        now = self._clock()
        tokens, last = self._buckets.get(client) or (self.burst, now)
        tokens = min(self.burst, tokens + (now - last) * self.per_s)
        wait = 0.0
        if tokens >= 1:
            tokens -= 1
        else:
            wait = (1 - tokens) / self.per_s
        self._buckets.put(client, (tokens, now))
        return wait


@lru_cache(MOST_CLIENTS)
def client_of(address: str) -> str:
    """Who counts as one client: an IPv4 address, or a network of 64 bits of IPv6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False).network_address)
