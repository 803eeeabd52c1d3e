"""A server inside this process, and real ones that can be killed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from fastapi import FastAPI

from irene.serve.http.app import create_app
from irene.serve.http.settings import Limits, Settings
from irene.serve.jobs import execution

from ..jobs.programs import QUICK, call
from ..patience import until
from ..real_server import RealServer

T = TypeVar("T")
BASE = "http://127.0.0.1:8000"


class InProcess:
    """The app in an event loop of its own; requests come without a network."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._leave = asyncio.Event()
        up = threading.Event()
        self._life = asyncio.run_coroutine_threadsafe(self._live(up), self._loop)
        until(lambda: up.wait(0.1) or self._life.done(), "the app is up", 120)
        if self._life.done():
            self._life.result()

    async def _live(self, up: threading.Event) -> None:
        self.app: FastAPI = create_app(self.settings)
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with (
            self.app.router.lifespan_context(self.app),
            httpx.AsyncClient(
                transport=transport, base_url=BASE, timeout=240
            ) as client,
        ):
            self.client = client
            up.set()
            await self._leave.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(280)

    def ask(self, method: str, path: str, **rest: Any) -> httpx.Response:
        return self.run(self.client.request(method, path, **rest))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._leave.set)
        self._life.result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture(scope="package")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    folder = tmp_path_factory.mktemp("hostile")
    limits = Limits(jobs=10_000)
    server = InProcess(
        Settings(data_dir=folder / "data", computing=1, limits=limits, access_log=False)
    )
    with pytest.MonkeyPatch.context() as patch:
        for kind in execution.WORK:
            patch.setitem(execution.WORK, kind, call(QUICK))  # the machine has no time
        yield server
        server.close()


class Attacked(RealServer):
    """A server with a client, and its jobs."""

    client: httpx.Client

    def begin(self) -> Attacked:
        self.start(ready=False)
        self.client = httpx.Client(base_url=self.url, timeout=240, trust_env=False)
        return self

    def job(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/api/v1/jobs/{key}").json()
        return found

    def until(
        self, key: str, is_there: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            job = self.job(key)
            return job if is_there(job) else None

        return until(found, f"job {key}; {self.log}", 150)


Serve = Callable[..., Attacked]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers on one data folder."""
    servers: list[Attacked] = []

    def begin(*options: str) -> Attacked:
        log = tmp_path / f"log-{len(servers)}.txt"
        servers.append(Attacked(tmp_path / "data", log, ("--computing", "1", *options)))
        return servers[-1].begin()

    yield begin
    for server in servers:
        server.client.close()
        server.stop()
