"""The log: lines of text, or a JSON document in each line, with the request's id."""

from __future__ import annotations

import json
import logging
import secrets
from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import count
from typing import Any

__all__ = ["REQUEST", "new_request", "set_up_log"]

REQUEST: ContextVar[str] = ContextVar("request", default="")
"""Id of the request that is being answered."""
TEXT = "%(asctime)s %(name)s %(levelname)s %(message)s"
LONGEST = 8_000
_START = secrets.token_hex(6)
_numbers = count(1)


def new_request() -> str:
    """An id for a request, and for all lines that are written while it is answered."""
    key = f"{_START}-{next(_numbers):x}"
    REQUEST.set(key)
    return key


def set_up_log(as_json: bool) -> None:
    """Write the log of this process to standard error.

    Args:
        as_json: Whether each line is a JSON document.
    """
    logging.basicConfig(level=logging.INFO, format=TEXT)
    if as_json:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(_JsonLines())


class _JsonLines(logging.Formatter):
    """One JSON document per record: what happened, and for which request."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record; nothing in it can begin another one."""
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage()[:LONGEST],
        }
        if key := REQUEST.get():
            document["request"] = key
        document |= getattr(record, "fields", {})
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)[-LONGEST:]
        return json.dumps(document)
