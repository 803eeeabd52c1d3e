"""Starts and stops the jobs of a server.

Several processes may serve one data folder. All of them accept jobs, by a row in the
store. One of them, the holder of a lock in the folder, runs them; when it ends, however
it ends, another one takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import resource
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from irene.errors import IreneError, UsageError
from irene.serve.answers.storage import Answers
from irene.serve.http.settings import Settings
from irene.serve.jobs.durable import DurableQueue, Steps
from irene.serve.jobs.execution import Execution
from irene.serve.jobs.file_lock import FileLock
from irene.serve.jobs.watch import JobWatch
from irene.serve.store.engine import Store
from irene.serve.store.jobs import JobRecord, JobRecords
from irene.serve.uploads.storage import Uploads

__all__ = ["JobRunner", "start_jobs"]

logger = logging.getLogger(__name__)
LOOK_S = 0.5
"""How often the store is asked for jobs that other processes have accepted, s."""
CHECK_AGAIN_S = 5.0
"""How often it is made sure that an open job is in the queue, s."""
STOP_S = 20.0
AT_ONCE = {"predict": 2, "measure": 1}
SPARE_FILES = 500
"""Beside connections: the store, the log, processes."""


def start_jobs(settings: Settings, store: Store) -> JobRunner:
    """Accept jobs, and run them if no other process of this data folder does.

    Args:
        settings: The server's.
        store: Its database.

    Raises:
        UsageError: The data folder cannot be used.
    """
    _allow_streams(settings.limits.connections)
    runner = JobRunner(settings, store)
    runner.start()
    return runner


def _allow_streams(connections: int) -> None:
    """Let this process have as many files open as it may have connections.

    Many systems begin with 1,024, which a thousand followers of a job use up.
    """
    wanted = connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class JobRunner:
    """The jobs of a server.

    Args:
        settings: The server's.
        store: Its database.

    Attributes:
        records: Of the jobs.
        uploads: What clients brought.
        watch: Tells those who follow a job.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.records = JobRecords(store.engine)
        self.uploads = Uploads(store.engine)
        self.watch = JobWatch(self.records, settings.limits.streams)
        self._server = _server_id(settings.data_dir)
        self._execution = Execution(
            settings,
            self.records,
            self.uploads,
            Answers(store, settings.limits.stored_bytes),
        )
        self._lock = FileLock(settings.data_dir / "jobs.lock")
        self._wake = threading.Event()
        self._handed_over: dict[str, float] = {}
        self._thread = threading.Thread(target=self._serve, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin in the background."""
        self._lock_is_usable()
        self._thread.start()

    def submit(self, request: Mapping[str, Any]) -> JobRecord:
        """Accept a job: it will be run, whatever happens to this process.

        Raises:
            QueueFullError: Too many wait.
        """
        most = self.settings.limits.jobs
        record = self.records.add(uuid.uuid4().hex, self._server, request, most)
        self._wake.set()
        return record

    def cancel(self, key: str) -> JobRecord | None:
        """End a job that waits or runs; the job as it is then."""
        self.records.cancel(key)
        return self.records.get(key)

    async def stop(self) -> None:
        """End the streams and the processes; open jobs go on at the next start."""
        await self.watch.close()
        self._execution.stopping.set()
        self._wake.set()
        await asyncio.to_thread(self._thread.join, STOP_S)

    @property
    def _stopping(self) -> bool:
        return self._execution.stopping.is_set()

    def _lock_is_usable(self) -> None:
        """Fail now rather than in the background."""
        if self._lock.take():
            self._lock.free()

    def _serve(self) -> None:
        """Wait until it is this process's turn, then run jobs."""
        queue = DurableQueue(
            self.settings.database_url,
            self._server,
            Steps(self._execution.execute, self._execution.announce),
            AT_ONCE,
        )
        try:
            if not self._lock.wait(lambda: not self._stopping, LOOK_S):
                return
            while not self._open(queue):
                if self._execution.stopping.wait(LOOK_S):
                    return
            try:
                self._hand_over_all(queue)
            finally:
                queue.close()
        except IreneError as error:
            logger.error("no jobs are run: %s", error)
        finally:
            self._lock.free()

    def _open(self, queue: DurableQueue) -> bool:
        try:
            return queue.open()
        except (SQLAlchemyError, OSError) as error:  # the disk is full, say
            logger.error("the queue cannot be opened, trying again: %s", error)
            return False

    def _hand_over_all(self, queue: DurableQueue) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                self._hand_over(queue)
            except Exception:
                # Whatever it was, the records are safe: look again.
                logger.exception("jobs are not handed over, trying again")
            self._wake.wait(LOOK_S)

    def _hand_over(self, queue: DurableQueue) -> None:
        """Put accepted jobs into the queue, also those of a server that was killed."""
        waiting = self.records.open_jobs(self._server)
        before, self._handed_over = self._handed_over, {}
        now = time.monotonic()
        for key, kind in waiting:
            last = before.get(key, -math.inf)
            if now - last > CHECK_AGAIN_S:
                queue.put(key, kind)
                last = now
            self._handed_over[key] = last


def _server_id(data_dir: Path) -> str:
    """A name for the data folder that stays; made when there is none."""
    path = data_dir / "server-id"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            raise UsageError(f"{path} is a symbolic link: remove it")
        if not path.exists():
            _make_id(path)
        return path.read_text(encoding="ascii").strip()[:32]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot use the data folder {data_dir}: {error}") from error


def _make_id(path: Path) -> None:
    """Write the file whole; where two do so at once, the first one stays."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    draft.write_text(f"{uuid.uuid4().hex}\n", encoding="ascii")
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
