"""Starts and stops the jobs of a server.

Several processes may serve one data folder. All of them accept jobs, by a row in the
store. One of them, the holder of a lock in the folder, runs them; when it ends, however
it ends, another one takes over.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from irene.serve.answers.storage import Answers
from irene.serve.http.settings import Settings
from irene.serve.jobs.execution import Execution
from irene.serve.jobs.watch import JobWatch
from irene.serve.store.engine import Store
from irene.serve.store.job_records import JobRecord, JobRecords
from irene.serve.store.retention import prune
from irene.serve.uploads.storage import Uploads
from irene.work.bounds import allow_files
from irene.work.lock import Lock, kept_name, take

logger = logging.getLogger(__name__)
LOOK_S = 0.5
"""How often the store is asked for jobs that other processes have accepted, s."""
STOP_S = 2.0
"""How long a stop waits for a message that is being sent, s."""
PRUNE_S = 3_600.0
"""How often what is too old or too much is deleted, s."""
AT_ONCE = {"predict": 2, "measure": 1}
SHARED = {"learn": "measure"}
"""Kinds that wait for each other: one measurement at a time."""
ANNOUNCED_AT_ONCE = 2


class JobRunner:
    """The jobs of a server: accepted, and run if no other process of its folder does.

    Attributes:
        records: Of the jobs.
        uploads: What clients brought.
        watch: Tells those who follow a job.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self._store = store
        self.records = JobRecords(store.engine)
        self.uploads = Uploads(store.engine)
        limits = settings.limits
        self.watch = JobWatch(self.records, limits.streams, limits.client_streams)
        self._server = kept_name(settings.data_dir / "server-id")
        answers = Answers(store, limits.stored_bytes)
        self._execution = Execution(settings, self.records, self.uploads, answers)
        self._lock_path = settings.data_dir / "jobs.lock"
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin in the background."""
        allow_files(self.settings.limits.connections)
        if (lock := take(self._lock_path)) is not None:
            lock.release()  # it can be used: else this fails now, not in the background
        self._thread.start()

    def submit(self, request: Mapping[str, Any], owner: str = "") -> JobRecord:
        """Accept a job: it will be run, whatever happens to this process.

        Args:
            request: What is asked for.
            owner: Who asks; "", this machine's own user, may have all places.
        """
        limits = self.settings.limits
        record = self.records.add(
            uuid.uuid4().hex, self._server, request, limits.jobs,
            owner=owner, most_of_owner=limits.client_jobs if owner else None,
        )  # fmt: skip
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
        await asyncio.to_thread(self._thread.join, STOP_S + 1.0)

    @property
    def _stopping(self) -> bool:
        return self._execution.stopping.is_set()

    def _serve(self) -> None:
        """Wait until it is this process's turn, then run jobs."""
        lock = self._wait_for_turn()
        if lock is None:
            return
        do, announce = self._execution.execute, self._execution.announce
        crews = {kind: _Crew(do, most, self._wake) for kind, most in AT_ONCE.items()}
        announcers = _Crew(announce, ANNOUNCED_AT_ONCE, self._wake)
        keepers = _Crew(self._prune, 1, self._wake)
        due = 0.0
        try:
            while not self._stopping:
                self._wake.clear()
                self._hand_over(crews, announcers)
                if time.monotonic() >= due:
                    keepers.put("what is kept")
                    due = time.monotonic() + PRUNE_S
                self._wake.wait(LOOK_S)
        finally:
            until = time.monotonic() + STOP_S
            for crew in (*crews.values(), announcers, keepers):
                crew.stop(until)
            lock.release()

    def _prune(self, _: str) -> None:
        """Delete what is too old or too much."""
        told = self.settings
        prune(self._store, told.data_dir, told.limits, told.retain_s)

    def _wait_for_turn(self) -> Lock | None:
        while not self._stopping:
            if (lock := take(self._lock_path)) is not None:
                return lock
            self._execution.stopping.wait(LOOK_S)
        return None

    def _hand_over(self, crews: Mapping[str, _Crew], announcers: _Crew) -> None:
        """Have done what is to be done, also what a killed server has left."""
        try:
            for key, kind in self.records.open_jobs(self._server):
                crews[SHARED.get(kind, kind)].put(key)
            for key in self.records.unannounced(self._server):
                announcers.put(key)
        except Exception:
            # Whatever it was, the records are safe: look again.
            logger.exception("jobs are not handed over, trying again")


class _Crew:
    """A few threads that do one thing with jobs, each job by one of them at a time.

    It takes no more jobs than it has threads: who is next is decided when one is free.
    """

    def __init__(
        self, do: Callable[[str], None], size: int, on_end: threading.Event
    ) -> None:
        self._do, self._size, self._on_end = do, size, on_end
        self._taken: dict[str, threading.Thread] = {}

    def put(self, key: str) -> None:
        """Have it done, if a thread is free and it is not being done already."""
        if key not in self._taken and len(self._taken) < self._size:
            thread = threading.Thread(target=self._work, args=(key,), daemon=True)
            self._taken[key] = thread
            thread.start()

    def stop(self, until: float) -> None:
        """Wait for what is being done; the rest is left.

        Args:
            until: Not longer than this, s of `time.monotonic`; what is being done
                then ends with the process, and is begun again at the next start.
        """
        for thread in list(self._taken.values()):
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self, key: str) -> None:
        try:
            self._do(key)
        except Exception:
            logger.exception("job %s is tried again", key)
        finally:
            del self._taken[key]
            self._on_end.set()
