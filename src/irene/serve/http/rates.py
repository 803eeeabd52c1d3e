"""How many requests a client may send: a bucket of tokens for each."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from functools import lru_cache

from irene.serve.recent import Recent

__all__ = ["Rates", "client_of"]

MOST_CLIENTS = 10_000


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
