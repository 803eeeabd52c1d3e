"""A server inside this process, and real ones that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from fastapi import FastAPI

from irene.serve.http.app import create_app
from irene.serve.http.settings import Limits, Settings

T = TypeVar("T")
START_S = 120
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
        while not up.wait(0.1):
            if self._life.done():
                self._life.result()

    async def _live(self, up: threading.Event) -> None:
        self.app: FastAPI = create_app(self.settings)
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with (
            self.app.router.lifespan_context(self.app),
            httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as client,
        ):
            self.client = client
            up.set()
            await self._leave.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(600)

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
    limits = Limits(seconds=20, jobs=10_000)
    server = InProcess(
        Settings(data_dir=folder / "data", computing=1, limits=limits, access_log=False)
    )
    yield server
    server.close()


class RealServer:
    """`irene serve` in a process of its own."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.data_dir = data_dir
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = data_dir.parent / f"log-{self.port}.txt"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "irene", "serve",
                    "--port", str(self.port), "--data-dir", str(data_dir),
                    "--computing", "1", *options,
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", timeout=60, trust_env=False
        )
        self._wait_until_up()

    def _wait_until_up(self) -> None:
        limit = time.monotonic() + START_S
        while time.monotonic() < limit:
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(httpx.TransportError):
                if self.client.get("/healthz").status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError("the server does not come up")

    def job(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/api/v1/jobs/{key}").json()
        return found

    def until(
        self, key: str, is_there: Callable[[dict[str, Any]], bool], seconds: float = 150
    ) -> dict[str, Any]:
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            found = self.job(key)
            if is_there(found):
                return found
            time.sleep(0.05)
        raise AssertionError(f"{json.dumps(found)}\n{self.log.read_text()}")

    def kill(self) -> None:
        """As a power cut would, this process alone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def close(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


Serve = Callable[..., RealServer]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers, on one data folder unless another is given."""
    servers: list[RealServer] = []

    def begin(*options: str, data_dir: Path | None = None) -> RealServer:
        servers.append(RealServer(data_dir or tmp_path / "data", *options))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()
