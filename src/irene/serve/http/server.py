"""Running the app: one process or several, slow clients cut off, a graceful stop."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from irene.errors import UsageError
from irene.serve.http.connections import LARGEST_HEAD, PatientProtocol
from irene.serve.http.logs import set_up_log
from irene.serve.http.rooms import InsideLoop
from irene.serve.http.settings import METRICS_FOLDER, Settings
from irene.work.bounds import keep_little_memory
from irene.work.lock import Lock, take

if TYPE_CHECKING:
    from fastapi import FastAPI

logger = logging.getLogger(__name__)
KEEP_ALIVE_S = 15
STOP_S = 5
"""How long a stop waits for answers that are under way, s; with all else 10 s."""
END_S = 9.0
"""Time after which a process that was told to stop ends as it is, s."""
LOOK_S = 0.2
"""How often a process looks whether the one that started it is still there, s."""
SILENT_S = 60
"""Time after which an HTTP process that says nothing is replaced, s."""
BACKLOG = 2048
METRICS, IN_MEMORY = "irene-metrics-", Path("/dev/shm")
"""Numbers are kept in files that are mapped into memory: on a disk that is full, the
system would kill whoever counts."""
NEW_S = 10.0
"""A folder may be so new that its server has no lock on it yet, s."""
SWITCH_S = 0.0001
"""How long a thread may keep the event loop waiting, s; Python's own is 5 ms."""


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
    options: dict[str, Any] = {
        "ws": "none",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "forwarded_allow_ips": list(settings.proxies),
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": STOP_S,
        "backlog": BACKLOG,
        "h11_max_incomplete_event_size": LARGEST_HEAD,
    }
    config = _Config(
        partial(_make_app, settings, os.getpid()),
        factory=True,
        workers=settings.workers,
        http=PatientProtocol,
        timeout_worker_healthcheck=SILENT_S,
        **options,
    )
    config.loop_factory = partial(InsideLoop, settings, options, sock)
    # A server that was told to stop, and did, has not failed.
    signal.signal(signal.SIGTERM, _leave)
    folder, lock = _metrics_folder(settings)
    try:
        if settings.workers == 1:
            uvicorn.Server(config).run([sock])
            return
        parent = _Parent(config, [sock])
        _end_in_time(END_S + LOOK_S)  # the others go first
        parent.run()
    finally:
        del os.environ[METRICS_FOLDER]
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)


class _Config(uvicorn.Config):
    """Has each process serve on a loop of ours."""

    loop_factory: Callable[[], InsideLoop]

    def get_loop_factory(self) -> Callable[[], InsideLoop]:
        """What makes the loop."""
        return self.loop_factory


class _Parent(Multiprocess):
    """Replaces an HTTP process that has died at once, also while it waits for it."""

    def keep_subprocess_alive(self) -> None:
        """Look after them."""
        for each in self.processes:
            each.child_conn.close()  # theirs alone: so its end is heard here
        super().keep_subprocess_alive()


def _make_app(settings: Settings, parent: int) -> FastAPI:
    """The app, in whichever process serves it; of several, each ends with `parent`."""
    set_up_log(settings.json_log)
    sys.setswitchinterval(SWITCH_S)
    keep_little_memory()
    _end_in_time(END_S)
    os.umask(0o077)  # what a server writes is nobody else's business
    from irene.serve.http.app import create_app  # a parent of several needs none of it

    if settings.workers > 1:
        watch = threading.Thread(target=_end_with, args=(parent,), daemon=True)
        watch.start()
    return create_app(settings)


def _end_with(parent: int) -> None:
    """End this process when the one that started it has gone, however it went."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)


def _end_in_time(seconds: float) -> None:
    """Have this process end so long after it is told to, whatever it waits for then.

    What it has accepted is not lost by that: nor is it when it is killed.
    """
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, partial(_stop, seconds, signal.getsignal(each)))


def _stop(seconds: float, stop: object, number: int, frame: FrameType | None) -> None:
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()
    if callable(stop):
        stop(number, frame)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _metrics_folder(settings: Settings) -> tuple[Path, Lock]:
    """A folder in which the processes keep their numbers together, and its lock."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    has_memory = os.access(IN_MEMORY, os.W_OK)
    place = IN_MEMORY if has_memory else settings.data_dir
    folder = Path(mkdtemp(prefix=METRICS, dir=place))
    lock = take(folder / "lock")
    assert lock is not None
    for old in (*place.glob(f"{METRICS}*"), *settings.data_dir.glob("metrics-*")):
        _clean_up(old, folder)
    os.environ[METRICS_FOLDER] = str(folder)
    return folder, lock


def _clean_up(old: Path, ours: Path) -> None:
    """Delete a folder of numbers if its server has ended."""
    try:
        is_mine = old.lstat().st_uid == ours.stat().st_uid and not old.is_symlink()
        is_new = time.time() - old.stat().st_mtime < NEW_S
    except FileNotFoundError:  # its own server, or another, was quicker
        return
    if is_mine and not is_new and (lock := take(old / "lock")) is not None:
        lock.release()
        shutil.rmtree(old, ignore_errors=True)
