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
from typing import Any

REQUEST: ContextVar[str] = ContextVar("request", default="")
"""Id of the request that is being answered."""
TEXT = "%(asctime)s %(name)s %(levelname)s %(message)s"
LONGEST = 8_000
TOGETHER_S = 0.2
"""For how long lines of the access log are gathered before they are written, s."""
MOST_TOGETHER = 40
"""Lines that are written at once: more would hold up who comes."""
HIDDEN = bytes.maketrans(bytes(range(33)) + b'"\\\x7f', b"?" * 36)
access_logger = logging.getLogger("irene.serve.http.access")
_START = secrets.token_hex(6)
_numbers = count(1)


def new_request() -> str:
    """An id for a request, and for all lines that are written while it is answered."""
    key = f"{_START}-{next(_numbers):x}"
    REQUEST.set(key)
    return key


class AccessLog:
    """A line for each request, written some at a time: one by one costs far more."""

    def __init__(self) -> None:
        self._lines: list[tuple[Any, ...]] = []
        self._timer: asyncio.TimerHandle | None = None

    def note(self, *exchanged: Any) -> None:
        """Have a line written soon.

        Args:
            *exchanged: What `_fields` takes, as it came.
        """
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(TOGETHER_S, self.write)
        self._lines.append((time.time(), *exchanged))
        if len(self._lines) >= MOST_TOGETHER:
            self.write()

    def write(self) -> None:
        """Write what there is."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            access_logger.info("%d requests", len(lines), extra={"lines": lines})


def _fields(
    key: str,
    client: str,
    method: str,
    path: bytes,
    query: bytes,
    status: int,
    sent: int,
    seconds: float,
) -> dict[str, Any]:
    """A line of the access log; nothing in it can begin another one."""
    whole = path + b"?" + query if query else path
    target = whole.translate(HIDDEN).decode("latin-1")
    method, ms = method[:16], round(seconds * 1000, 1)
    return {
        "message": f'{client} "{method} {target}" {status} {sent} {ms} ms {key}',
        "request": key, "client": client, "method": method, "target": target,
        "status": status, "bytes": sent, "ms": ms,
    }  # fmt: skip


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
        told = []
        for at, *exchanged in getattr(record, "lines", ()):
            record.created, record.msecs = at, at % 1 * 1000
            record.msg, record.args = _fields(*exchanged)["message"], ()
            told.append(super().format(record))
        return "\n".join(told) or super().format(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """As usual; a second has many requests."""
        return f"{_second(int(record.created))},{int(record.msecs):03}"


@lru_cache(10)
def _second(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


class _JsonLines(logging.Formatter):
    """One JSON document per line: what happened, and for which request."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record, or those of its requests."""
        lines = [
            _document(record, at, _fields(*exchanged))
            for at, *exchanged in getattr(record, "lines", ())
        ]
        if lines:
            return "\n".join(lines)
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
