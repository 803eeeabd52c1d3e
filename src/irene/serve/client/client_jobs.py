"""Jobs: work of a server that takes longer than a request.

They are followed by their event stream (`text/event-stream`), across restarts of the
server.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from irene.analyse.subject import Progress
from irene.errors import FormatError, IreneError
from irene.serve.client.documents import read_fields, read_tree
from irene.serve.client.refusals import UnreachableError, error_of
from irene.serve.client.transport import Transport
from irene.serve.http.problems import Problem
from irene.serve.jobs.document import FINAL, State
from irene.tree import ModelTree

QUIET_S = 60.0
"""A server says something every 15 s; one that says nothing for so long is gone."""
AGAIN_S = 1.0
LAST = "done"


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How far a job is; progress has `done`, `total` and `text`, times are ISO 8601."""

    id: str
    kind: str
    state: State
    progress: Mapping[str, Any]
    request: Mapping[str, Any]
    created: str
    started: str | None
    finished: str | None
    result: Mapping[str, Any] | None
    error: Mapping[str, Any] | None
    attempts: int = 0

    @property
    def is_final(self) -> bool:
        """Whether nothing changes any more."""
        return self.state in FINAL

    @property
    def key(self) -> str | None:
        """The key of its answer's permalink."""
        return self.result["key"] if self.result else None


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A change of a job, `state`, `progress` or `done`, and the whole job after it."""

    name: str
    status: JobStatus


class Job:
    """A job of a server, to be followed, cancelled or waited for."""

    def __init__(self, transport: Transport, status: JobStatus) -> None:
        self._transport = transport
        self.status = status

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.status.state}>"

    @property
    def id(self) -> str:
        """Its name: `Server.job` finds it again."""
        return self.status.id

    @property
    def page(self) -> str:
        """Address of its page on the dashboard."""
        return f"{self._transport.base_url}/jobs/{self.id}"

    def refresh(self) -> JobStatus:
        """Ask how far it is."""
        reply = self._transport.get(f"/jobs/{self.id}")
        self.status = read_fields(JobStatus, reply.document)
        return self.status

    def cancel(self) -> JobStatus:
        """End it.

        Raises:
            UsageError: It has ended already.
        """
        reply = self._transport.send("DELETE", f"/jobs/{self.id}")
        self.status = read_fields(JobStatus, reply.document)
        return self.status

    def events(self) -> Iterator[JobEvent]:
        """Its changes from now to its end, also across a restart of the server."""
        for event in _follow(self._transport, f"/jobs/{self.id}/events"):
            try:
                document = json.loads(event.data)
            except ValueError as error:
                raise FormatError(f"an event of job {self.id} is not JSON") from error
            self.status = read_fields(JobStatus, document)
            yield JobEvent(event.name, self.status)

    def wait(self, progress: Progress | None = None) -> JobStatus:
        """Follow it to its end.

        Args:
            progress: Told steps done, steps in all, and what is being done.

        Raises:
            UnreachableError: The server does not come back.
        """
        if self.status.is_final:
            return self.status
        for event in self.events():
            told = event.status.progress
            if progress and "total" in told:
                progress(told.get("done", 0), told["total"], str(told.get("text", "")))
        return self.status

    def result(self, progress: Progress | None = None) -> ModelTree:
        """The tree that it gives, when it has ended.

        Args:
            progress: As for `wait`.

        Raises:
            IreneError: It failed or was cancelled; the message says why.
        """
        status = self.wait(progress)
        if status.state == "cancelled":
            raise IreneError(f"job {self.id} was cancelled")
        if status.key is None:
            problem = status.error or {}
            detail = str(problem.get("detail", f"job {self.id} has no result"))
            raise error_of(int(problem.get("status", 500)), detail)
        return read_tree(self._transport.get(f"/answers/{status.key}"))


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream; an id names it for a client that comes back."""

    name: str
    data: str
    id: str | None


def parse_events(lines: Iterable[bytes]) -> Iterator[ServerEvent | None]:
    """The events of a stream; None for a sign of life."""
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


def _follow(transport: Transport, path: str) -> Iterator[ServerEvent]:
    """The events of a stream until the one called `done`.

    A stream that is lost is taken up again where it ended: jobs outlive a restart of
    their server. One that has not answered for the transport's `timeout_s` is given up.
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
