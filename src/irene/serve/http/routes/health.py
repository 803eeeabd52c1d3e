"""For those who run the server: is it alive, is it ready, what does it do."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import State

from irene.serve.http.metrics import Metrics
from irene.serve.http.problems import Problem
from irene.serve.store import Store
from irene.serve.store.engine import is_full
from irene.serve.store.migrations import touch

logger = logging.getLogger(__name__)
LOOK_S = 1.0
"""How long what was found of the store counts, s."""
LOW_DISK_BYTES = 200_000_000
router = APIRouter(tags=["health"], include_in_schema=False)


@router.api_route("/healthz", methods=["GET", "HEAD"])
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.api_route("/readyz", methods=["GET", "HEAD"])
async def readyz(request: Request) -> dict[str, Any]:
    """Questions can be answered: a process is warm, the store is read and written.

    What is not as it should be and keeps nobody from asking is named in `degraded`.
    """
    state = request.app.state
    if state.stopping.is_set():
        raise Problem(503, "the server is stopping")
    if not state.pool.is_ready:
        raise Problem(503, "the computing processes are starting", again_s=2)
    trouble = await _store_trouble(state)
    if trouble:
        raise Problem(503, trouble, again_s=5)
    degraded = _degraded(state)
    return {"status": "ready", **({"degraded": degraded} if degraded else {})}


async def _store_trouble(state: State) -> str:
    """What is wrong with the store; looked at now and then, however many ask."""
    async with state.store_lock:
        until, trouble = state.store_seen
        if time.monotonic() >= until:
            trouble = await asyncio.to_thread(_touch, state.store)
            state.store_seen = (time.monotonic() + LOOK_S, trouble)
        return str(trouble)


def _touch(store: Store) -> str:
    try:
        touch(store.engine)
    except SQLAlchemyError as error:
        logger.error("the store is not ready: %s", error)
        if is_full(error):
            return "the disk is full: the store cannot be written"
        return "the store cannot be read and written"
    return ""


def _degraded(state: State) -> list[str]:
    found = []
    if len(state.pool.processes) < state.pool.size:
        found.append("a computing process is being replaced")
    if state.pool.waiting >= state.settings.limits.queue:
        found.append("as many computations wait as may")
    if shutil.disk_usage(state.settings.data_dir).free < LOW_DISK_BYTES:
        found.append("the disk is nearly full")
    return found


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    state = request.app.state
    known: Metrics = state.metrics
    jobs = getattr(state, "jobs", None)
    if jobs is not None:
        known.streams.set(jobs.watch.streams)
    with suppress(SQLAlchemyError, OSError):
        await asyncio.to_thread(known.look, state.store, state.settings.data_dir)
    body, media_type = await asyncio.to_thread(known.page)
    return Response(body, media_type=media_type)
