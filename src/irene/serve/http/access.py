"""Who may change something: token, read-only mode, and requests of other sites."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from irene.serve.http.problems import Problem
from irene.serve.http.settings import LOCAL_NAMES, Settings

__all__ = ["check_access"]

READING = ("GET", "HEAD", "OPTIONS")
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
