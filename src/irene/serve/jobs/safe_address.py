"""Where a webhook may go: to the internet, not into the server's own network.

The address is looked up once, judged, and connected to as it was judged; a name that
points elsewhere a moment later changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from irene.errors import UsageError

__all__ = ["Target", "check_webhook", "find_target"]

LONGEST_URL = 2_000
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook that may be called.

    Attributes:
        scheme: `http` or `https`.
        host: Its name, as it was given.
        port: Its port.
        path: Path and query.
        address: The address to connect to.
    """

    scheme: str
    host: str
    port: int
    path: str
    address: str


def check_webhook(url: object) -> str:
    """Refuse what is no URL of the web.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(url, str) or len(url) > LONGEST_URL or not url.isascii():
        raise UsageError(f"a webhook is a URL of at most {LONGEST_URL:,} characters")
    if any(c.isspace() or not c.isprintable() for c in url):
        raise UsageError("a webhook has no spaces or control characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"a webhook is a URL: {error}") from error
    if parts.scheme not in PORTS or not parts.hostname or port == 0:
        raise UsageError("a webhook begins with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise UsageError("a webhook carries no password")
    return url


def find_target(url: str, private_allowed: bool) -> Target:
    """Look a webhook's host up.

    Args:
        url: The webhook, checked.
        private_allowed: Whether it may be in a private network, or this machine.

    Raises:
        UsageError: One of its addresses is not of the internet.
        OSError: Nobody knows its name.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or PORTS[parts.scheme]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if not private_allowed:
        inside = [address for address in addresses if not _is_public(address)]
        if inside:
            raise UsageError(
                f"{host} is {inside[0]}, which is no address of the internet; "
                "the server would have to allow private webhooks"
            )
    path = parts.path or "/"
    query = f"?{parts.query}" if parts.query else ""
    return Target(parts.scheme, host, port, path + query, addresses[0])


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address.teredo is not None:
            return False
        if inner is not None:
            address = inner
        elif address in ipaddress.ip_network("64:ff9b::/96"):  # NAT64
            address = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.is_global and not address.is_multicast
