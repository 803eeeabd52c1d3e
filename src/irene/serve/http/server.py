"""Running the app: one process or several, slow clients cut off, a graceful stop."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from irene.errors import UsageError
from irene.serve.http.app import create_app
from irene.serve.http.metrics import FOLDER
from irene.serve.http.protocol import PatientProtocol
from irene.serve.http.settings import Settings

__all__ = ["listen", "run", "set_up_log"]

logger = logging.getLogger(__name__)
KEEP_ALIVE_S = 15
STOP_S = 10
"""How much longer than the longest computation a stop may take, s."""
SILENT_S = 60
"""Time after which an HTTP process that says nothing is replaced, s."""
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
