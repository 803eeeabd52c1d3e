"""Tells those who follow jobs of every change, with one look at the store for all.

To a browser a job is an event stream (`text/event-stream`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from irene.serve.computing.turns import Rounds
from irene.serve.http.access import Held
from irene.serve.http.problems import Problem
from irene.serve.jobs.document import State, job_document
from irene.serve.recent import Recent
from irene.serve.store.job_records import JobRecord, JobRecords

logger = logging.getLogger(__name__)
LOOK_S = 0.25
HEARTBEAT_S = 15.0
MOST_EVENTS = 200
"""That are kept as they were told, for all who follow."""
AT_ONCE = 4
"""Clients that are told something in one round of the event loop."""
RETRY_MS = 2_000
"""When a browser that lost the stream comes back, ms."""


@dataclass(slots=True)
class _Topic:
    """A job that somebody follows."""

    record: JobRecord
    followers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class JobWatch:
    """Looks at the jobs that are followed.

    Args:
        records: Of the jobs.
        most_streams: How many may follow at a time.
        of_client: How many of one client; "", this machine's own user, has all.

    Attributes:
        rounds: When one that has something to tell goes on.
        stopping: Set when the server begins to stop: all streams end.
    """

    def __init__(self, records: JobRecords, most_streams: int, of_client: int) -> None:
        self._records = records
        self._places = Held(most_streams, of_client)
        self._topics: dict[str, _Topic] = {}
        self._look: asyncio.Task[None] | None = None
        self._closed = False
        self._events: Recent[tuple[str, int, str], bytes] = Recent(MOST_EVENTS)
        self.rounds = Rounds(at_once=AT_ONCE, most=AT_ONCE)
        self.stopping: asyncio.Event | None = None

    @property
    def streams(self) -> int:
        """How many follow."""
        return self._places.count

    def reserve(self, client: str = "") -> None:
        """Take one of the places; `leave` gives it back."""
        if self._closed or not self._places.add(client, 1):
            words = "too many streams are open: ask for the job now and then"
            raise Problem(429, words, again_s=10)

    def leave(self, client: str = "") -> None:
        """Give a place back."""
        self._places.remove(client, 1)

    async def follow(
        self, record: JobRecord, beat_s: float
    ) -> AsyncIterator[JobRecord | None]:
        """Yield a job at every change until its end; None after a quiet while."""
        with self._topic(record) as topic:
            seen = -1
            while not self._closed:
                record, changed = topic.record, topic.changed
                if record.version != seen:
                    seen = record.version
                    yield record
                if record.is_final:
                    return
                if topic.record is not record:
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), beat_s)
                except TimeoutError:
                    yield None

    def event(self, record: JobRecord, before: State | None) -> bytes:
        """What all who follow a job are told of it: written once."""
        name = "progress" if record.state == before else "state"
        if record.is_final:
            name = "done"
        key = (record.id, record.version, name)
        told = self._events.get(key)
        if told is None:
            data = json.dumps(job_document(record), separators=(",", ":"))
            told = f"id: {record.version}\nevent: {name}\ndata: {data}\n\n".encode()
            self._events.put(key, told)
        return told

    async def close(self) -> None:
        """End all streams."""
        self._end_streams()
        if self._look is not None:
            self._look.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._look

    def _end_streams(self) -> None:
        self._closed = True
        for topic in self._topics.values():
            topic.changed.set()

    @contextmanager
    def _topic(self, record: JobRecord) -> Iterator[_Topic]:
        topic = self._topics.setdefault(record.id, _Topic(record))
        if record.version > topic.record.version:
            self._change(topic, record)
        topic.followers += 1
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._keep_looking())
        try:
            yield topic
        finally:
            topic.followers -= 1
            if not topic.followers:
                self._topics.pop(record.id, None)

    async def _keep_looking(self) -> None:
        while self._topics and not self._closed:
            await asyncio.sleep(LOOK_S)
            if self.stopping is not None and self.stopping.is_set():
                self._end_streams()
                return
            try:
                await self._look_once()
            except SQLAlchemyError as error:
                logger.warning("cannot look at the jobs: %s", error)

    async def _look_once(self) -> None:
        keys = list(self._topics)
        versions = await asyncio.to_thread(self._records.versions, keys)
        for key, version in versions.items():
            topic = self._topics.get(key)
            if topic is None or version <= topic.record.version:
                continue
            record = await asyncio.to_thread(self._records.get, key)
            if record is not None:
                self._change(topic, record)

    def _change(self, topic: _Topic, record: JobRecord) -> None:
        topic.record = record
        waiting, topic.changed = topic.changed, asyncio.Event()
        waiting.set()


async def event_stream(
    watch: JobWatch, record: JobRecord, last_id: str | None, client: str = ""
) -> AsyncIterator[bytes]:
    """The events of a job from now to its end.

    Every event carries the whole document, so one that was missed is not missed. A
    place was reserved with `JobWatch.reserve`; it is given back at the end.
    """
    state: State | None = None
    try:
        yield f"retry: {RETRY_MS}\n\n".encode()
        async for found in watch.follow(record, HEARTBEAT_S):
            if found is None:
                yield b": heartbeat\n\n"
                continue
            if found.is_final or str(found.version) != last_id:
                await watch.rounds.enter(client)  # a hundred do not go at once
                yield watch.event(found, state)
            state = found.state
    finally:
        watch.leave(client)
