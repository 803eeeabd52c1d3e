"""Job records: what was asked, how far it is, and how it ended.

A record only moves forward (queued, running, then one of three ends), and each move
names the states it may start from: of two processes that end the same job, one does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from irene.errors import IreneError

__all__ = [
    "FINAL",
    "JOB_TABLES",
    "OPEN",
    "JobRecord",
    "JobRecords",
    "QueueFullError",
    "State",
]

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
OPEN: tuple[State, ...] = ("queued", "running")
FINAL: tuple[State, ...] = ("succeeded", "failed", "cancelled")
MOST_IDS = 500
JOB_TABLES = MetaData()
"""For `open_store` to make."""
_JOBS = Table(
    "jobs",
    JOB_TABLES,
    Column("id", String(32), primary_key=True),
    Column("server", String(32), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("version", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("request", Text, nullable=False),
    Column("progress", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("started", Float),
    Column("finished", Float),
    Column("result_key", String(64)),
    Column("error", Text),
)
_NOTICES = Table(
    "job_notices",
    JOB_TABLES,
    Column("job", String(32), primary_key=True),
    Column("server", String(32), nullable=False),
)
"""Jobs that have ended, and whose owners have not been told yet."""


class QueueFullError(IreneError):
    """As many jobs wait as the server takes."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job as it is now.

    Attributes:
        id: 32 hex digits.
        server: Id of the data folder whose server accepted it, and runs it.
        kind: `predict` or `measure`.
        state: How far it is.
        version: Counts its changes, from 1.
        attempts: How often it was begun; more than once if a server ended meanwhile.
        request: What was asked for.
        progress: `done`, `total` and `text`.
        created: When it was accepted, s since 1970.
        started: When it was begun first, s since 1970.
        finished: When it ended, s since 1970.
        result_key: Key of its answer.
        error: Why it failed, as the problem that HTTP would show.
    """

    id: str
    server: str
    kind: str
    state: State
    version: int
    attempts: int
    request: Mapping[str, Any]
    progress: Mapping[str, Any]
    created: float
    started: float | None
    finished: float | None
    result_key: str | None
    error: Mapping[str, Any] | None

    @property
    def is_final(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in FINAL


class JobRecords:
    """The job records of a store.

    Args:
        engine: The store's database; `open_store` has made its tables.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(
        self, key: str, server: str, request: Mapping[str, Any], most_open: int
    ) -> JobRecord:
        """Accept a job: when this returns, it is on disk.

        Args:
            key: Its id.
            server: Who runs it.
            request: What is asked for; `kind` is in it.
            most_open: How many jobs may wait or run at once.

        Raises:
            QueueFullError: That many do.
        """
        row = {
            "id": key,
            "server": server,
            "kind": request["kind"],
            "state": "queued",
            "version": 1,
            "attempts": 0,
            "request": _text(request),
            "progress": _text({"done": 0, "total": 0, "text": "queued"}),
            "created": time.time(),
        }
        with self._engine.begin() as connection:
            if _count_open(connection) >= most_open:
                raise QueueFullError(
                    f"{most_open} jobs wait already: try again in a minute"
                )
            connection.execute(insert(_JOBS).values(row))
        record = self.get(key)
        assert record is not None
        return record

    def get(self, key: str) -> JobRecord | None:
        """A job by its id."""
        with self._engine.connect() as connection:
            row = connection.execute(select(_JOBS).where(_JOBS.c.id == key)).first()
        return None if row is None else _record(row)

    def state(self, key: str) -> State | None:
        """Its state alone, which is quick."""
        with self._engine.connect() as connection:
            query = select(_JOBS.c.state).where(_JOBS.c.id == key)
            found: State | None = connection.execute(query).scalar()
            return found

    def count_open(self) -> int:
        """How many wait or run."""
        with self._engine.connect() as connection:
            return _count_open(connection)

    def open_jobs(self, server: str) -> list[tuple[str, str]]:
        """Ids and kinds of a server's jobs that wait or run, the oldest first."""
        query = (
            select(_JOBS.c.id, _JOBS.c.kind)
            .where(_JOBS.c.state.in_(OPEN), _JOBS.c.server == server)
            .order_by(_JOBS.c.created)
        )
        with self._engine.connect() as connection:
            return [(row.id, row.kind) for row in connection.execute(query)]

    def unannounced(self, server: str) -> list[str]:
        """Ids of a server's jobs that have ended and whose owners do not know it."""
        query = select(_NOTICES.c.job).where(_NOTICES.c.server == server)
        with self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def get_unannounced(self, key: str) -> JobRecord | None:
        """A job whose owner does not know that it has ended."""
        query = select(_JOBS).join(_NOTICES, _NOTICES.c.job == _JOBS.c.id)
        with self._engine.connect() as connection:
            row = connection.execute(query.where(_JOBS.c.id == key)).first()
        return None if row is None else _record(row)

    def announced(self, key: str) -> None:
        """Note that the owner of a job has been told of its end."""
        with self._engine.begin() as connection:
            connection.execute(delete(_NOTICES).where(_NOTICES.c.job == key))

    def versions(self, keys: Collection[str]) -> dict[str, int]:
        """Version of each of these jobs."""
        found: dict[str, int] = {}
        waiting = list(keys)
        with self._engine.connect() as connection:
            while waiting:
                some, waiting = waiting[:MOST_IDS], waiting[MOST_IDS:]
                query = select(_JOBS.c.id, _JOBS.c.version).where(_JOBS.c.id.in_(some))
                found |= {row.id: row.version for row in connection.execute(query)}
        return found

    def begin(self, key: str) -> JobRecord | None:
        """Mark a job as running; None if it has ended already or is unknown."""
        now = time.time()
        moved = self._move(
            key,
            OPEN,
            state="running",
            attempts=_JOBS.c.attempts + 1,
            started=func.coalesce(_JOBS.c.started, now),
            progress=_text({"done": 0, "total": 0, "text": "starting"}),
        )
        return self.get(key) if moved else None

    def report(self, key: str, done: int, total: int, text: str) -> bool:
        """Say how far a running job is; False if it does not run any more."""
        progress = _text({"done": done, "total": total, "text": text})
        return self._move(key, ("running",), progress=progress)

    def succeed(self, key: str, result_key: str) -> bool:
        """Give a running job its result; False if it has ended otherwise."""
        ending = {"state": "succeeded", "finished": time.time()}
        return self._move(key, ("running",), result_key=result_key, **ending)

    def fail(self, key: str, problem: Mapping[str, Any]) -> bool:
        """End a job with a problem; False if it has ended otherwise."""
        ending = {"state": "failed", "finished": time.time()}
        return self._move(key, OPEN, error=_text(problem), **ending)

    def cancel(self, key: str) -> bool:
        """End a job that waits or runs; False if it has ended already."""
        return self._move(key, OPEN, state="cancelled", finished=time.time())

    def _move(self, key: str, states: Iterable[State], **values: Any) -> bool:
        change = (
            update(_JOBS)
            .where(_JOBS.c.id == key, _JOBS.c.state.in_(tuple(states)))
            .values(version=_JOBS.c.version + 1, **values)
        )
        with self._engine.begin() as connection:
            has_moved = bool(connection.execute(change).rowcount)
            if has_moved and values.get("state") in ("succeeded", "failed"):
                ended = select(_JOBS.c.id, _JOBS.c.server).where(_JOBS.c.id == key)
                notice = insert(_NOTICES).from_select(["job", "server"], ended)
                connection.execute(notice)
            return has_moved


def _count_open(connection: Connection) -> int:
    query = select(func.count()).select_from(_JOBS).where(_JOBS.c.state.in_(OPEN))
    return int(connection.execute(query).scalar_one())


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _record(row: Row[Any]) -> JobRecord:
    fields = dict(row._mapping)
    for name in ("request", "progress", "error"):
        fields[name] = None if fields[name] is None else json.loads(fields[name])
    return JobRecord(**fields)
