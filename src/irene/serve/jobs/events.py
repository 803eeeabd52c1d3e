"""A job as an event stream (`text/event-stream`)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from irene.serve.jobs.document import job_document
from irene.serve.jobs.watch import JobWatch
from irene.serve.store.jobs import JobRecord, State

__all__ = ["HEARTBEAT_S", "event_stream"]

HEARTBEAT_S = 15.0
RETRY_MS = 2_000
"""When a browser that lost the stream comes back, ms."""


async def event_stream(
    watch: JobWatch, record: JobRecord, last_id: str | None
) -> AsyncIterator[bytes]:
    """The events of a job from now to its end.

    Every event carries the whole document, so one that was missed is not missed. A
    place was reserved with `JobWatch.reserve`; it is given back at the end.

    Args:
        watch: Tells of changes.
        record: The job as it is now.
        last_id: Id of the last event that the client has, if it comes back.
    """
    state: State | None = None
    try:
        yield f"retry: {RETRY_MS}\n\n".encode()
        async for found in watch.follow(record, HEARTBEAT_S):
            if found is None:
                yield b": heartbeat\n\n"
                continue
            if found.is_final or str(found.version) != last_id:
                yield _event(found, state)
            state = found.state
    finally:
        watch.leave()


def _event(record: JobRecord, before: State | None) -> bytes:
    name = "progress" if record.state == before else "state"
    if record.is_final:
        name = "done"
    data = json.dumps(job_document(record), separators=(",", ":"))
    return f"id: {record.version}\nevent: {name}\ndata: {data}\n\n".encode()
