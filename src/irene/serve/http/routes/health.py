"""For those who run the server: is it alive, is it ready, what does it do."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from irene.serve.http.metrics import Metrics
from irene.serve.http.problems import Problem
from irene.serve.store import Store

__all__ = ["healthz", "metrics", "readyz", "router"]

router = APIRouter(tags=["health"], include_in_schema=False)


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> dict[str, str]:
    """Questions can be answered: a computing process is warm, the store is there."""
    if request.app.state.stopping.is_set():
        raise Problem(503, "the server is stopping")
    if not request.app.state.pool.is_ready:
        raise Problem(503, "the computing processes are starting", {"Retry-After": "2"})
    store: Store = request.app.state.store
    try:
        await asyncio.to_thread(_touch, store)
    except SQLAlchemyError as error:
        raise Problem(503, "the store cannot be read", {"Retry-After": "5"}) from error
    return {"status": "ready"}


def _touch(store: Store) -> None:
    with store.engine.connect() as connection:
        connection.execute(text("SELECT 1"))


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    known: Metrics = request.app.state.metrics
    body, media_type = known.page()
    return Response(body, media_type=media_type)
