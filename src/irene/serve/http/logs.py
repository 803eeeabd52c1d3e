"""The log: lines of text, or a JSON document in each line, with the request's id."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

__all__ = ["REQUEST", "AccessLog", "Exchanged", "new_request", "set_up_log"]

REQUEST: ContextVar[str] = ContextVar("request", default="")
"""Id of the request that is being answered."""
TEXT = "%(asctime)s %(name)s %(levelname)s %(message)s"
LONGEST = 8_000
TOGETHER_S = 0.2
"""For how long lines of the access log are gathered before they are written, s."""
HIDDEN = bytes.maketrans(bytes(range(33)) + b'"\\\x7f', b"?" * 36)
access_logger = logging.getLogger("irene.serve.http.access")
_START = secrets.token_hex(6)
_numbers = count(1)


def new_request() -> str:
    """An id for a request, and for all lines that are written while it is answered."""
    key = f"{_START}-{next(_numbers):x}"
    REQUEST.set(key)
    return key


class Exchanged(NamedTuple):
    """A request and its answer, for the access log.

    Attributes:
        at: When it ended, s since 1970.
        request: Its id.
        client: Who asked.
        method: As it came.
        path: As it came.
        query: As it came.
        status: What was answered.
        sent: Bytes of the body.
        seconds: How long it took, s.
    """

    at: float
    request: str
    client: str
    method: str
    path: bytes
    query: bytes
    status: int
    sent: int
    seconds: float

    @property
    def target(self) -> str:
        """Path and query; nothing in it can begin another line."""
        whole = self.path + b"?" + self.query if self.query else self.path
        return whole.translate(HIDDEN).decode("latin-1")

    def __str__(self) -> str:
        """The line for people."""
        return (
            f'{self.client} "{self.method[:16]} {self.target}" {self.status} '
            f"{self.sent} {self.seconds * 1000:.1f} ms {self.request}"
        )

    def fields(self) -> dict[str, Any]:
        """The line for programs."""
        return {
            "message": str(self), "request": self.request, "client": self.client,
            "method": self.method[:16], "target": self.target, "status": self.status,
            "bytes": self.sent, "ms": round(self.seconds * 1000, 1),
        }  # fmt: skip


class AccessLog:
    """A line for each request, written some at a time: one by one costs far more."""

    def __init__(self) -> None:
        self._lines: list[Exchanged] = []

    def note(self, line: Exchanged) -> None:
        """Have a line written soon."""
        if not self._lines:
            asyncio.get_running_loop().call_later(TOGETHER_S, self.write)
        self._lines.append(line)

    def write(self) -> None:
        """Write what there is."""
        lines, self._lines = self._lines, []
        if lines:
            access_logger.info("%d requests", len(lines), extra={"lines": lines})


def set_up_log(as_json: bool) -> None:
    """Write the log of this process to standard error.

    Args:
        as_json: Whether each line is a JSON document.
    """
    logging.basicConfig(level=logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_JsonLines() if as_json else _TextLines(TEXT))


class _TextLines(logging.Formatter):
    """Lines as people read them."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record, or those of its requests."""
        lines: list[Exchanged] = getattr(record, "lines", [])
        if not lines:
            return super().format(record)
        about = f"{record.name} {record.levelname}"
        return "\n".join(f"{_time(each.at)} {about} {each}" for each in lines)


def _time(at: float) -> str:
    return f"{_second(int(at))},{int(at % 1 * 1000):03}"


@lru_cache(10)
def _second(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


class _JsonLines(logging.Formatter):
    """One JSON document per line: what happened, and for which request."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record, or those of its requests."""
        lines: list[Exchanged] = getattr(record, "lines", [])
        if lines:
            return "\n".join(
                _document(record, each.at, each.fields()) for each in lines
            )
        fields = {"message": record.getMessage()[:LONGEST]}
        if key := REQUEST.get():
            fields["request"] = key
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)[-LONGEST:]
        return _document(record, record.created, fields)


def _document(record: logging.LogRecord, at: float, fields: dict[str, Any]) -> str:
    """A line; nothing in it can begin another one."""
    when = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    about = {"time": when, "level": record.levelname, "logger": record.name}
    return json.dumps({**about, **fields})
