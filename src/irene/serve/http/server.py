"""Running the app: one process or several, slow clients cut off, a graceful stop."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from irene.errors import UsageError
from irene.serve.http.app import create_app
from irene.serve.http.metrics import FOLDER
from irene.serve.http.settings import Settings

__all__ = ["PatientProtocol", "listen", "run", "set_up_log"]

logger = logging.getLogger(__name__)
KEEP_ALIVE_S = 15
STOP_S = 10
"""How much longer than the longest computation a stop may take, s."""
SILENT_S = 60
"""Time after which an HTTP process that says nothing is replaced, s."""
STALLED_MS = 60_000
"""Time after which a client that takes nothing more is given up, ms."""
BACKLOG = 2048
LOG_FORMAT = "%(asctime)s %(name)s %(levelname)s %(message)s"
LARGEST_HEAD = 32_768


def listen(settings: Settings) -> socket.socket:
    """The socket that the server listens on.

    Raises:
        UsageError: The address cannot be had.
    """
    host = settings.host.strip("[]")
    made: socket.socket | None = None
    try:
        found = socket.getaddrinfo(
            host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With its protocol named: only then asyncio sends small answers at once.
        made = socket.socket(found[0], found[1], found[2] or socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(found[4])
    except OSError as error:
        if made is not None:
            made.close()
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
            "another server may be there: choose another --port"
        ) from error
    made.set_inheritable(True)
    return made


def run(settings: Settings, sock: socket.socket) -> None:
    """Serve until a signal says to stop.

    Args:
        settings: Everything the server is told.
        sock: Of `listen`.
    """
    config = uvicorn.Config(
        partial(_make_app, settings),
        factory=True,
        workers=settings.workers,
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=settings.limits.connections,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(settings.limits.seconds) + STOP_S,
        timeout_worker_healthcheck=SILENT_S,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )
    # A server that was told to stop, and did, has not failed.
    signal.signal(signal.SIGTERM, _leave)
    if settings.workers == 1:
        uvicorn.Server(config).run([sock])
        return
    folder = _metrics_folder(settings)
    try:
        Multiprocess(config, [sock]).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_app(settings: Settings) -> FastAPI:
    """The app, in whichever process serves it."""
    set_up_log()
    return create_app(settings)


def set_up_log() -> None:
    """Write the log of this process to standard error."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _metrics_folder(settings: Settings) -> Path:
    """A folder in which the processes keep their numbers together."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(prefix="metrics-", dir=settings.data_dir))
    os.environ[FOLDER] = str(folder)
    return folder


class PatientProtocol(H11Protocol):
    """Waits for a head only so long, and tells open streams when the server stops.

    What it needs to know is in the state that the app's lifespan gives: `headers_s`,
    the time for a head, s, and `stopping`, the event to set.
    """

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        found: Any = transport.get_extra_info("socket")
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if found is not None and option is not None and found.family != socket.AF_UNIX:
            found.setsockopt(socket.IPPROTO_TCP, option, STALLED_MS)
        self._begin_head()

    def data_received(self, data: bytes) -> None:
        """Read on; a head that has begun must be whole in time."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._end_head()
        elif self._head_timer is None and not self.transport.is_closing():
            self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._end_head()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Finish what is under way; streams without an end are told to end."""
        self.app_state["stopping"].set()
        super().shutdown()

    def _begin_head(self) -> None:
        seconds = self.app_state["headers_s"]
        self._head_timer = self.loop.call_later(seconds, self._too_slow)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()
