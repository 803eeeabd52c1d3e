"""Who may do what, how often, and how much at a time.

Requests come under a name of this server; changes need a token where there is one, and
come from no other site; every client has a bucket of tokens for its requests.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from irene.serve.http.problems import Problem
from irene.serve.http.settings import API, Settings
from irene.serve.http.tokens import OF_THE_START, Token, Tokens
from irene.serve.recent import Recent

Headers = Mapping[bytes, bytes]
READING = ("GET", "HEAD", "OPTIONS")
MOST_CLIENTS = 10_000
GUARDED = (f"{API}/jobs", f"{API}/uploads")
LONGEST_HOST = 260
GUESSES_PER_S = 0.2
GUESSES = 10
CLIENT = "irene.client"
TOKEN = "irene.token"
"""Where a request's scope has its client, and the token that it showed."""


def client_of(scope: Mapping[str, Any]) -> str:
    """Who asks: an address or a network; "" for this machine's own user."""
    return str(scope.get(CLIENT, ""))


def owner_of(scope: Mapping[str, Any]) -> str:
    """Whose a job or an upload of this request will be: a token's, or a client's."""
    token: Token | None = scope.get(TOKEN)
    return f"token {token.name}" if token else client_of(scope)


def may_all(scope: Mapping[str, Any]) -> bool:
    """Whether a request may change what is of others: its user runs the server."""
    token: Token | None = scope.get(TOKEN)
    return token.name == OF_THE_START if token else not client_of(scope)


def check_token(scope: Mapping[str, Any], needs: str) -> None:
    """Refuse what the token of a request is not for.

    Args:
        scope: Of the request; where it needed no token, it may do everything.
        needs: Of `SCOPES`.

    Raises:
        Problem: It is not.
    """
    token: Token | None = scope.get(TOKEN)
    if token is not None and needs not in token.scopes:
        raise Problem(403, f"the token of {token.name!r} is not for {needs!r}")


class Access:
    """Who may do what.

    Args:
        settings: Of the server.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tokens = Tokens(settings.tokens_path, settings.token)
        self._hosts = settings.hosts
        self._guesses = Rates(GUESSES_PER_S, GUESSES)

    def check(self, scope: MutableMapping[str, Any], headers: Headers) -> None:
        """Refuse a request that may not do what it asks for.

        Args:
            scope: Method, path and client; the token that was shown is put there.
            headers: Of the request.

        Raises:
            Problem: It may not.
        """
        method, path = scope["method"], scope["path"]
        is_change = method not in READING
        if is_change:
            self._check_origin(headers)
        is_guarded = is_change and path.startswith(GUARDED)
        if is_guarded and self._settings.read_only:
            words = "this server is read-only: it takes no jobs and no uploads"
            raise Problem(403, words)
        is_private = self._settings.private and path.startswith(f"{API}/")
        needs = "compute" if is_guarded else "read" if is_private else ""
        if needs and self._tokens.are_needed:
            scope[TOKEN] = self._shown(scope, headers)
            check_token(scope, needs)

    def check_host(self, host: bytes) -> None:
        """Refuse a name that is not ours: another site could point it at us.

        Raises:
            Problem: It is not.
        """
        if self._hosts and not _is_ours(host[:LONGEST_HOST], self._hosts):
            raise Problem(
                421,
                "this server is not known by that name: its owner can allow it "
                "(--public-url, --allowed-host)",
            )

    def _shown(self, scope: Mapping[str, Any], headers: Headers) -> Token:
        kind, _, text = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"bearer":
            client = client_of(scope)
            # Before it is looked at: a right one among many guesses opens nothing.
            wait = self._guesses.wait_s(client, takes=False)
            if wait:
                raise Problem(429, "too many wrong tokens", again_s=wait)
            found = self._tokens.find(text.strip())
            if found is not None:
                return found
            self._guesses.wait_s(client)
        raise Problem(
            401,
            "this needs a token of the server that is valid: send the header "
            "`Authorization: Bearer TOKEN`",
            {"WWW-Authenticate": 'Bearer realm="irene"'},
        )

    def _check_origin(self, headers: Headers) -> None:
        """A page of another site may not use a visitor's way to this server."""
        origin = headers.get(b"origin")
        if origin is None:  # not a browser
            return
        try:
            netloc = urlsplit(origin.decode("latin-1")).netloc.lower()
        except ValueError:  # as `http://[`
            netloc = ""
        if netloc.encode("latin-1") != headers.get(b"host", b"").lower():
            raise Problem(403, "requests of other sites are refused")


@lru_cache(1_000)
def _is_ours(host: bytes, hosts: frozenset[str]) -> bool:
    """Whether a `Host` header has one of these names, or an address."""
    text = host.decode("latin-1").lower()
    name = text[: text.find("]") + 1] if text.startswith("[") else text.split(":")[0]
    if name in hosts:
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled: float


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
        self._buckets: Recent[str, _Bucket] = Recent(MOST_CLIENTS)

    def wait_s(self, client: str, takes: bool = True) -> float:
        """Take a token, or look for one; 0, or the time until there is one, s."""
        if not self.per_s:
            return 0.0
        now = self._clock()
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = _Bucket(self.burst, now)
            self._buckets.put(client, bucket)
        bucket.tokens += (now - bucket.filled) * self.per_s
        bucket.tokens = min(self.burst, bucket.tokens)
        bucket.filled = now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self.per_s
        bucket.tokens -= takes
        return 0.0


class Held:
    """What is held for clients: bytes of bodies on their way in or out, open streams.

    Args:
        most: Of all clients.
        of_client: Of one; "", this machine's own user, has all.
    """

    def __init__(self, most: int, of_client: int) -> None:
        self._most, self._of_client = most, of_client
        self._clients: dict[str, int] = {}
        self.count = 0

    def add(self, client: str, size: int) -> bool:
        """Hold so much more for a client, if it may have it."""
        of_client = self._clients.get(client, 0) + size
        is_fair = not client or of_client <= self._of_client
        if not is_fair or self.count + size > self._most:
            return False
        self._clients[client] = of_client
        self.count += size
        return True

    def remove(self, client: str, size: int) -> None:
        """Hold so much less."""
        self.count -= size
        left = self._clients.pop(client, 0) - size
        if left:
            self._clients[client] = left


@lru_cache(MOST_CLIENTS)
def network_of(address: str) -> str:
    """Who counts as one client: an IPv4 address, or a network of 64 bits of IPv6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"  # what a proxy passed on is no address
    if parsed.version == 4:
        return address
    inner = parsed.ipv4_mapped
    if inner is not None:
        return str(inner)
    return str(ipaddress.ip_network((parsed, 64), strict=False).network_address)
