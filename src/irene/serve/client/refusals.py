"""From what a server refuses to the errors that the same functions raise here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from irene.errors import IreneError, LimitError, UnknownModelError, UsageError
from irene.serve.http.problems import MEDIA_TYPE, Problem

UNKNOWN_MODEL = "unknown model"
"""How the message about a model that nobody knows begins, here and on a server."""
TOKEN_HINT = "irene.connect(…, token=…) sends it"
NOT_THE_REQUEST = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class UnreachableError(IreneError):
    """No server answers at an address, or it stopped in the middle of an answer."""


def error_of(
    status: int, detail: str, headers: Mapping[str, str] | None = None
) -> IreneError:
    """The error that a refused request is.

    Returns:
        A UsageError where the request has to be changed, of the class that the same
        function raises here where that is known; else a Problem with its status.
    """
    if status == HTTPStatus.UNAUTHORIZED:
        return UsageError(f"{detail}; {TOKEN_HINT}")
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return LimitError(detail)
    if detail.startswith(UNKNOWN_MODEL):
        return UnknownModelError(detail)
    if 400 <= status < 500 and status not in NOT_THE_REQUEST:
        return UsageError(detail)
    return Problem(status, detail, headers)


def foreign(
    url: str, status: int, media_type: str, location: str | None
) -> UnreachableError:
    """The error of a reply that no irene server gives."""
    if location:
        return UnreachableError(f"{url} has moved to {location}: connect to that")
    return UnreachableError(
        f"{url} does not answer like an irene server (status {status}, "
        f"{media_type or 'no media type'}): check the address"
    )


def unreachable(
    base_url: str, error: Exception, timeout_s: float, sent_bytes: int = 0
) -> UnreachableError:
    """The error of a request that got no reply."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return UnreachableError(
            f"{base_url} said nothing for {timeout_s:g} s: give irene.connect a longer "
            "timeout_s, or submit a job"
        )
    if sent_bytes and isinstance(reason, BrokenPipeError | ConnectionResetError):
        return UnreachableError(
            f"{base_url} hung up while it was sent {sent_bytes:,} bytes: that may be "
            'more than it takes; ask("server") has its limits'
        )
    words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return UnreachableError(
        f"no irene server answers at {base_url} ({words}): start one with "
        "`irene serve`, or check the address"
    )


def detail_of(body: bytes, media_type: str) -> str | None:
    """The detail of a problem+json document; None if it is none."""
    if media_type != MEDIA_TYPE:
        return None
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    detail = fields.get("detail") if isinstance(fields, dict) else None
    return detail if isinstance(detail, str) else None
