"""Event streams (`text/event-stream`), followed across restarts of the server."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from irene.serve.client.refusals import UnreachableError
from irene.serve.client.transport import Transport
from irene.serve.http.problems import Problem

__all__ = ["ServerEvent", "follow", "parse_events"]

QUIET_S = 60.0
"""A server says something every 15 s; one that says nothing for so long is gone."""
AGAIN_S = 1.0
LAST = "done"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream.

    Attributes:
        name: What happened.
        data: The text that came along.
        id: Names it for a client that comes back; None if it has no name.
    """

    name: str
    data: str
    id: str | None


def parse_events(lines: Iterable[bytes]) -> Iterator[ServerEvent | None]:
    """The events of a stream; None for a sign of life.

    Args:
        lines: Of the stream.
    """
    name, data, last_id = "message", list[str](), None
    for line in lines:
        text = line.decode().rstrip("\r\n")
        if not text and data:
            yield ServerEvent(name, "\n".join(data), last_id)
        if not text:
            name, data = "message", []
            continue
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "":
            yield None
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            last_id = value


def follow(transport: Transport, path: str) -> Iterator[ServerEvent]:
    """The events of a stream until the one called `done`.

    A stream that is lost is taken up again where it ended: jobs outlive a restart of
    their server.

    Args:
        transport: The way to the server.
        path: Of the stream.

    Raises:
        IreneError: The server has not answered for the transport's `timeout_s`.
    """
    last_id: str | None = None
    heard = time.monotonic()
    while True:
        lost: Exception = UnreachableError(
            f"{transport.base_url} ends the stream of {path} again and again"
        )
        try:
            with transport.stream(path, last_id, QUIET_S) as lines:
                for event in parse_events(lines):
                    heard = time.monotonic()
                    if event is None:
                        continue
                    last_id = event.id
                    yield event
                    if event.name == LAST:
                        return
        except (UnreachableError, Problem) as error:
            lost = error
        if time.monotonic() - heard > transport.timeout_s:
            raise lost
        time.sleep(AGAIN_S)
