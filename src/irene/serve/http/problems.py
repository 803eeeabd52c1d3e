"""Errors as clients see them: `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from irene.errors import (
    IreneError,
    MeterError,
    MissingExtraError,
    UnknownModelError,
    UsageError,
)

CLIENT_LEFT = 499
"""Nobody reads this answer any more; for the log."""
MEDIA_TYPE = "application/problem+json"
STATUS: Mapping[type[IreneError], int] = {
    UnknownModelError: 404,
    MeterError: 501,
    MissingExtraError: 501,
}
"""Of errors that are neither a wrong question nor a fault of the server."""
LONGEST_DETAIL = 2_000
MOST_TOLD = 5


class Problem(IreneError):  # noqa: N818  as RFC 9457 calls it
    """What a request ends with when it cannot be answered.

    Attributes:
        status: HTTP status.
        detail: What happened, and what to do.
        headers: To be sent along; with `again_s` they say when to ask again, s.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        headers: Mapping[str, str] | None = None,
        again_s: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        if again_s is not None:
            self.headers["Retry-After"] = str(math.ceil(again_s))


def problem_of(error: IreneError) -> Problem:
    """The problem that an error of ours is to a client."""
    if isinstance(error, Problem):
        return error
    for kind, status in STATUS.items():
        if isinstance(error, kind):
            return Problem(status, str(error))
    is_usage = error.exit_code == UsageError.exit_code
    return Problem(400 if is_usage else 500, str(error))


def wrong_parameters(errors: Sequence[Mapping[str, Any]]) -> Problem:
    """The problem of a request whose parameters are not of the right form.

    Args:
        errors: As pydantic tells them.
    """
    told = []
    for error in errors[:MOST_TOLD]:
        where = ".".join(str(part) for part in error.get("loc", ())[1:])
        told.append(f"{where}: {error.get('msg', 'wrong')}" if where else error["msg"])
    more = len(errors) - MOST_TOLD
    return Problem(422, "; ".join(told) + (f"; and {more} more" if more > 0 else ""))


def problem_document(problem: Problem, instance: str) -> dict[str, Any]:
    """A problem as JSON-ready values.

    Args:
        problem: What happened.
        instance: Path that was asked for.
    """
    return {
        "type": "about:blank",
        "title": _title(problem.status),
        "status": problem.status,
        "detail": problem.detail[:LONGEST_DETAIL],
        "instance": instance,
    }


def _title(status: int) -> str:
    """What a status is called; 499, a client that has left, is in no list."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Client Closed Request" if status == CLIENT_LEFT else "Error"
