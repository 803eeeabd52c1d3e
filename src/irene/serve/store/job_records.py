"""Job records: what was asked, how far it is, and how it ended.

A record only moves forward (queued, running, then one of three ends), and each move
names the states it may start from: of two processes that end the same job, one does.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    Integer,
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

from irene.serve.answers.storage import ANSWERS
from irene.serve.http.problems import Problem
from irene.serve.jobs.document import FINAL, OPEN, State
from irene.serve.store.engine import METADATA, is_key

MOST_IDS = 500
JOBS = Table(
    "jobs",
    METADATA,
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
    Column("owner", String(100), nullable=False, server_default=""),
)
NOTICES = Table(
    "job_notices",
    METADATA,
    Column("job", String(32), primary_key=True),
    Column("server", String(32), nullable=False),
)
"""Jobs that have ended, and whose owners have not been told yet."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job as it is now, its version counts its changes; times are s since 1970."""

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
    owner: str = ""

    @property
    def is_final(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in FINAL


class JobRecords:
    """The job records of a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(
        self,
        key: str,
        server: str,
        request: Mapping[str, Any],
        most_open: int,
        *,
        owner: str = "",
        most_of_owner: int | None = None,
    ) -> JobRecord:
        """Accept a job: when this returns, it is on disk."""
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
            "owner": owner,
        }
        with self._engine.begin() as connection:
            for most, whose in ((most_open, None), (most_of_owner, owner)):
                if most is not None and _count_open(connection, whose) >= most:
                    words = "jobs" if whose is None else "jobs of yours"
                    told = f"{most} {words} wait already: try again in a minute"
                    raise Problem(429, told, again_s=60)
            connection.execute(insert(JOBS).values(row))
        record = self.get(key)
        assert record is not None
        return record

    def get(self, key: str) -> JobRecord | None:
        """A job by its id."""
        if not is_key(key):
            return None
        with self._engine.connect() as connection:
            row = connection.execute(select(JOBS).where(JOBS.c.id == key)).first()
        return None if row is None else _record(row)

    def state(self, key: str) -> State | None:
        """Its state alone, which is quick."""
        with self._engine.connect() as connection:
            query = select(JOBS.c.state).where(JOBS.c.id == key)
            found: State | None = connection.execute(query).scalar()
            return found

    def count(self) -> dict[str, int]:
        """How many there are of each state."""
        query = select(JOBS.c.state, func.count()).group_by(JOBS.c.state)
        with self._engine.connect() as connection:
            found = {row[0]: int(row[1]) for row in connection.execute(query)}
        return dict.fromkeys((*OPEN, *FINAL), 0) | found

    def open_jobs(self, server: str) -> list[tuple[str, str]]:
        """Ids and kinds of a server's jobs that wait or run.

        The oldest first of every owner, then the second of each, and so on.
        """
        query = (
            select(JOBS.c.id, JOBS.c.kind, JOBS.c.owner)
            .where(JOBS.c.state.in_(OPEN), JOBS.c.server == server)
            .order_by(JOBS.c.created)
        )
        with self._engine.connect() as connection:
            rows = list(connection.execute(query))
        return [(row.id, row.kind) for row in _in_turn(rows)]

    def forget(self, *keys: str) -> set[str]:
        """Delete jobs, whatever their states, and results that no other job has.

        Returns:
            Keys of the results that went: equal jobs have one.
        """
        mine, results = JOBS.c.id.in_(keys), select(JOBS.c.result_key)
        with self._engine.begin() as connection:
            found = {*connection.execute(results.where(mine)).scalars()} - {None}
            connection.execute(delete(NOTICES).where(NOTICES.c.job.in_(keys)))
            connection.execute(delete(JOBS).where(mine))
            shared = results.where(JOBS.c.result_key.in_(found))
            gone = found - {*connection.execute(shared).scalars()}
            connection.execute(delete(ANSWERS).where(ANSWERS.c.key.in_(gone)))
        return gone

    def unannounced(self, server: str) -> list[str]:
        """Ids of a server's jobs that have ended and whose owners do not know it."""
        query = (
            select(JOBS.c.id, JOBS.c.kind, JOBS.c.owner)
            .join(NOTICES, NOTICES.c.job == JOBS.c.id)
            .where(NOTICES.c.server == server)
            .order_by(JOBS.c.finished)
        )
        with self._engine.connect() as connection:
            return [row.id for row in _in_turn(list(connection.execute(query)))]

    def get_unannounced(self, key: str) -> JobRecord | None:
        """A job whose owner does not know that it has ended."""
        query = select(JOBS).join(NOTICES, NOTICES.c.job == JOBS.c.id)
        with self._engine.connect() as connection:
            row = connection.execute(query.where(JOBS.c.id == key)).first()
        return None if row is None else _record(row)

    def announced(self, key: str) -> None:
        """Note that the owner of a job has been told of its end."""
        with self._engine.begin() as connection:
            connection.execute(delete(NOTICES).where(NOTICES.c.job == key))

    def versions(self, keys: Collection[str]) -> dict[str, int]:
        """Version of each of these jobs."""
        found: dict[str, int] = {}
        waiting = list(keys)
        with self._engine.connect() as connection:
            while waiting:
                some, waiting = waiting[:MOST_IDS], waiting[MOST_IDS:]
                query = select(JOBS.c.id, JOBS.c.version).where(JOBS.c.id.in_(some))
                found |= {row.id: row.version for row in connection.execute(query)}
        return found

    def begin(self, key: str) -> JobRecord | None:
        """Mark a job as running; None if it has ended already or is unknown."""
        now = time.time()
        moved = self._move(
            key,
            OPEN,
            state="running",
            attempts=JOBS.c.attempts + 1,
            started=func.coalesce(JOBS.c.started, now),
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
            update(JOBS)
            .where(JOBS.c.id == key, JOBS.c.state.in_(tuple(states)))
            .values(version=JOBS.c.version + 1, **values)
        )
        with self._engine.begin() as connection:
            has_moved = bool(connection.execute(change).rowcount)
            if has_moved and values.get("state") in ("succeeded", "failed"):
                ended = select(JOBS.c.id, JOBS.c.server).where(JOBS.c.id == key)
                notice = insert(NOTICES).from_select(["job", "server"], ended)
                connection.execute(notice)
            return has_moved


def _in_turn(rows: Iterable[Any]) -> list[Any]:
    """The first of every owner, then the second of each, and so on."""
    before: Counter[tuple[str, str]] = Counter()
    ranked = []
    for row in rows:
        ranked.append((before[row.owner, row.kind], row))
        before[row.owner, row.kind] += 1
    return [row for _, row in sorted(ranked, key=lambda each: each[0])]


def _count_open(connection: Connection, owner: str | None = None) -> int:
    query = select(func.count()).select_from(JOBS).where(JOBS.c.state.in_(OPEN))
    if owner is not None:
        query = query.where(JOBS.c.owner == owner)
    return int(connection.execute(query).scalar_one())


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _record(row: Row[Any]) -> JobRecord:
    fields = dict(row._mapping)
    for name in ("request", "progress", "error"):
        fields[name] = None if fields[name] is None else json.loads(fields[name])
    return JobRecord(**fields)
