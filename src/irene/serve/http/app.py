"""create_app: all parts of the server put together."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from irene import __version__
from irene.errors import IreneError
from irene.serve.answers.answering import Answering
from irene.serve.answers.filling import Filling
from irene.serve.answers.memory import Memory
from irene.serve.answers.question import warm_up
from irene.serve.answers.sizes import Sizes
from irene.serve.answers.storage import Answers
from irene.serve.computing.pool import Pool
from irene.serve.http.front import Front
from irene.serve.http.gate import problem_response
from irene.serve.http.logs import AccessLog
from irene.serve.http.metrics import Metrics
from irene.serve.http.problems import (
    CLIENT_LEFT,
    Problem,
    problem_of,
    wrong_parameters,
)
from irene.serve.http.rooms import InsideLoop
from irene.serve.http.routes import health, jobs, pages, questions, reference
from irene.serve.http.routes.asking import give_document
from irene.serve.http.routes.openapi import describe
from irene.serve.http.settings import API, Settings
from irene.serve.http.tracing import Tracing
from irene.serve.jobs.runner import JobRunner
from irene.serve.store import Store, open_store
from irene.serve.uploads import endpoints as uploads
from irene.serve.uploads.storage import Uploads
from irene.work.bounds import return_memory

logger = logging.getLogger(__name__)
GARBAGE_S = 15.0
"""How often all garbage is looked for, s; the longer, the longer that takes."""
YOUNG = 1_000, 5, 1_000_000_000
"""What came since the last look is small: to look through it holds up nobody for long.
Most of it has gone with its request; what has not is looked at with all the rest."""
GROUPS = (reference, questions, uploads, jobs)
DESCRIPTION = (
    "How much energy a transformer uses, and where inside it. Documents are those of "
    "the command line's `--json`; errors are `application/problem+json`."
)


class _App(FastAPI):
    """FastAPI behind `Front`, which sees a request before all else does."""

    front: Front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what comes."""
        if scope["type"] == "http":
            await self.front(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(settings: Settings) -> FastAPI:
    """The server as an ASGI application.

    Args:
        settings: Everything it is told.

    Raises:
        UsageError: The store cannot be opened.
    """
    store = open_store(settings.database_url)
    app = _App(
        title="irene", version=__version__, description=DESCRIPTION,
        lifespan=_lifespan, docs_url=None, redoc_url=None, openapi_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    _fill_state(app, settings, store)
    _add_handlers(app)
    for group in GROUPS:
        app.include_router(group.router, prefix=API)
    app.include_router(health.router)
    app.include_router(pages.router)
    _add_description(app)
    state = app.state
    parts = (state.answering.memory, state.sizes, state.metrics, state.access_log)
    app.front = Front(partial(FastAPI.__call__, app), settings, *parts, state.tracing)
    if pages.WEB.is_dir():
        app.mount("/static", StaticFiles(directory=pages.WEB), name="static")
        app.add_api_route("/{rest:path}", pages.elsewhere, include_in_schema=False)
    return app


def _fill_state(app: FastAPI, settings: Settings, store: Store) -> None:
    state = app.state
    state.settings = settings
    state.store = store
    state.metrics = Metrics()
    state.answers = Answers(store, settings.limits.stored_bytes)
    state.uploads = Uploads(store.engine)
    state.pool = Pool(
        settings.computing, settings.limits, hub=settings.hub,
        on_end=state.metrics.process_ended,
    )  # fmt: skip
    state.metrics.follow(state.pool)
    memory = Memory(settings.limits.memory_answers_bytes)
    state.answering = Answering(state.pool, state.answers, memory, state.metrics.answer)
    state.sizes = Sizes(state.answering)
    state.filling = Filling(settings.data_dir / "energies", state.pool)
    url = settings.otlp_url
    state.tracing = None if url is None else Tracing(url)
    state.access_log = AccessLog()
    state.stopping = asyncio.Event()
    state.upload_places = asyncio.Semaphore(uploads.AT_ONCE)
    state.store_seen, state.store_lock = (0.0, ""), asyncio.Lock()


@asynccontextmanager
async def _lifespan(app: _App) -> AsyncIterator[dict[str, Any]]:
    """Start the processes; end them when the last request is answered."""
    state, loop = app.state, asyncio.get_running_loop()
    if isinstance(loop, InsideLoop):
        loop.front = app.front
    state.pool.start()
    state.jobs = JobRunner(state.settings, state.store)
    state.jobs.start()
    tidying = asyncio.create_task(_tidy(app))
    try:
        # The protocol sets it when the server begins to stop, for open streams.
        yield {"stopping": state.stopping}
    finally:
        state.stopping.set()
        tidying.cancel()
        await state.jobs.stop()
        await state.answering.stop()
        await state.pool.stop()
        if state.tracing is not None:
            await asyncio.to_thread(state.tracing.stop)
        state.store.close()
        state.access_log.write()


async def _tidy(app: FastAPI) -> None:
    """Read what requests need while the first process starts; then look for garbage.

    To look through all that is there holds up everybody: what was read stays, and the
    rest is looked through now and then, not whenever it has grown.
    """
    await asyncio.to_thread(warm_up)
    await asyncio.to_thread(describe, app)
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*YOUNG)
    try:
        while True:
            await asyncio.sleep(GARBAGE_S)
            gc.collect()
            await asyncio.to_thread(return_memory)
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)


def _add_handlers(app: FastAPI) -> None:
    async def refuse(request: Request, error: Exception) -> Response:
        return problem_response(_problem(error), request.url.path)

    ours = (IreneError, RequestValidationError, HTTPException, ClientDisconnect)
    for kind in (*ours, Exception):
        app.add_exception_handler(kind, refuse)


def _problem(error: Exception) -> Problem:
    """What any error is to a client."""
    if isinstance(error, RequestValidationError):
        return wrong_parameters(error.errors())
    if isinstance(error, HTTPException):
        return Problem(error.status_code, str(error.detail), error.headers)
    if isinstance(error, IreneError):
        return problem_of(error)
    if isinstance(error, ClientDisconnect):
        return Problem(CLIENT_LEFT, "the client has left")
    return Problem(500, "this is a bug in irene; see its log")


def _add_description(app: FastAPI) -> None:
    async def openapi(request: Request) -> Response:
        return await give_document(request, lambda: describe(app))

    for path in ("/openapi.json", f"{API}/openapi.json"):
        app.add_api_route(path, openapi, include_in_schema=False)
