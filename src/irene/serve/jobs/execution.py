"""One job from beginning to end: its process, its result, its record."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from irene.errors import IreneError, UsageError
from irene.serve.answers.storage import Answers
from irene.serve.computing.pool import environment, error_of
from irene.serve.http.problems import Problem, problem_document, problem_of
from irene.serve.http.settings import Settings
from irene.serve.jobs.notify import notify
from irene.serve.jobs.request import UPLOAD
from irene.serve.store.engine import key_of
from irene.serve.store.job_records import JobRecord, JobRecords
from irene.serve.uploads.storage import Uploads
from irene.work.bounds import Bounds
from irene.work.child import Child
from irene.work.task import Outcome, Progress, Task

logger = logging.getLogger(__name__)
T = TypeVar("T")
WORK = {
    "predict": "irene.serve.computing.worker:predict_job",
    "measure": "irene.serve.computing.worker:measure_job",
    "learn": "irene.serve.computing.worker:learn_job",
}
"""What is done for a job of a kind."""
MOST_ATTEMPTS = 10
KILLED_ATTEMPTS = 3
"""After so many a job whose process is killed is too large for the machine; times that
its server was killed do not count."""
LOOK_S = 0.25
"""How often it is asked whether a job is still wanted, s."""
REPORT_S = 0.2
"""Least time between two reports of progress, s."""
LONGEST_PAUSE_S = 30.0
MEASURE_TIMES = 24
"""A measurement may take this many times as long as a prediction."""
FILE_BYTES = 200_000_000
RESULT_BYTES = 400_000_000


class StoppingError(Exception):
    """The server stops: the job goes on when it is started again."""


class _AgainError(Exception):
    """Somebody has killed the process: the job is begun again."""


class _CancelledError(Exception):
    """Nobody wants the job any more: its process was ended."""


@dataclass(slots=True)
class Execution:
    """Runs jobs."""

    _settings: Settings
    _records: JobRecords
    _uploads: Uploads
    _answers: Answers
    stopping: threading.Event = field(default_factory=threading.Event)
    _killed: Counter[str] = field(default_factory=Counter)

    def execute(self, key: str) -> None:
        """Run a job; it may have been begun before, by a server that was killed.

        Where the server stops meanwhile, the job's record stays open: the job is run
        when a server is started again.
        """
        if self.stopping.is_set():
            return
        try:
            record = self._insist(lambda: self._records.begin(key))
            if record is not None:
                self._run_to_its_end(record)
        except StoppingError:
            logger.info("job %s goes on at the next start", key)

    def announce(self, key: str) -> None:
        """Tell the owner of a job that has ended, and note that this was done."""
        try:
            record = self._insist(lambda: self._records.get_unannounced(key))
            if record is None:  # another thread has done it just now
                return
            notify(record, self._settings, self.stopping.wait)
            if not self.stopping.is_set():
                self._insist(lambda: self._records.announced(key))
        except StoppingError:
            logger.info("job %s is announced at the next start", key)

    def _run_to_its_end(self, record: JobRecord) -> None:
        key = record.id
        try:
            self._run(record)
        except _CancelledError:
            logger.info("job %s was cancelled", key)
        except _AgainError:
            logger.warning("job %s is begun again: its process was killed", key)
            return
        except IreneError as error:
            self._fail(key, problem_of(error))
        except StoppingError:
            raise
        except Exception:
            logger.exception("job %s failed unexpectedly", key)
            self._fail(key, Problem(500, "a bug in irene; see its log"))
        self._killed.pop(key, None)
        self._forget_folder(key)

    def _fail(self, key: str, problem: Problem) -> None:
        document = problem_document(problem, f"/api/v1/jobs/{key}")
        self._insist(lambda: self._records.fail(key, document))

    def _run(self, record: JobRecord) -> None:
        if record.attempts > MOST_ATTEMPTS:
            raise Problem(
                500, f"the server has ended {MOST_ATTEMPTS} times during this job"
            )
        outcome = self._outcome(record)
        body = outcome.payload
        if body is None:
            if outcome.fault == "killed":
                self._killed[record.id] += 1
                if self._killed[record.id] < KILLED_ATTEMPTS:
                    raise _AgainError
            if outcome.fault != "refused":
                words = (record.id, outcome.fault, outcome.last_words)
                logger.error("job %s %s: %s", *words)
            raise error_of(outcome, self._settings.limits)
        result_key = key_of(body)
        question = json.dumps({"job": record.id}, separators=(",", ":"))
        # First the answer, then the record that points to it.
        self._insist(lambda: self._answers.put(result_key, body, question=question))
        self._insist(lambda: self._records.succeed(record.id, result_key))

    def _outcome(self, record: JobRecord) -> Outcome:
        """What the job's process makes of it.

        Raises:
            StoppingError: The server stops.
            _CancelledError: The job is not wanted any more.
        """
        task = Task(
            *(record.id, WORK[record.kind], self._argument(record)),
            self._bounds(record.kind),
        )
        folder = self._make_folder(record.id)
        try:
            child = Child(
                environment=_environment(folder, self._settings.hub),
                folder=folder,
                on_progress=self._reporter(record.id),
            )
        except OSError as error:
            raise UsageError(f"cannot start the job: {error.strerror}") from error
        try:
            child.begin(task)
            while (outcome := child.wait(LOOK_S)) is None:
                if self.stopping.is_set():
                    raise StoppingError
                if not self._is_wanted(record.id):
                    raise _CancelledError
        finally:
            child.end(0.0)
        return outcome

    def _argument(self, record: JobRecord) -> dict[str, Any]:
        """What the process is told; see `irene.serve.computing.worker`."""
        request = record.request
        if record.kind == "learn":
            return {"plan": request["plan"]}
        model = request["model"]
        return {
            "protocol": request.get("protocol"),
            "memory_bytes": self._settings.limits.memory_bytes,
            "arguments": {
                "model": model,
                "run": request["run"],
                "hardware": request.get("hardware"),
                "configs": self._configs(model),
                "hub": self._settings.hub,
            },
        }

    def _bounds(self, kind: str) -> Bounds:
        """The bounds of a job of a kind.

        A measurement has real weights, and a GPU's driver reserves far more addresses
        than it uses: `irene.measure` looks itself whether a model fits, so its memory
        is not bounded.
        """
        wall_s = cpu_s = self._settings.limits.job_seconds
        if kind != "predict":
            wall_s *= MEASURE_TIMES
            cpu_s = wall_s * (os.cpu_count() or 1)
        return Bounds(wall_s, cpu_s, FILE_BYTES, RESULT_BYTES)

    def _configs(self, model: str) -> Mapping[str, Any]:
        if not model.startswith(UPLOAD):
            return {}
        upload = self._uploads.get(model.removeprefix(UPLOAD))
        if upload is None:
            raise UsageError(f"{model} is not there any more: upload it again")
        return {model: json.loads(upload.body)}

    def _reporter(self, key: str) -> Callable[[Progress], None]:
        last = 0.0

        def tell(step: Progress) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < REPORT_S:
                return
            last = now
            try:
                self._records.report(key, step.done, step.total, step.text)
            except SQLAlchemyError as error:  # the next report will do
                logger.warning("progress of job %s not written: %s", key, error)

        return tell

    def _is_wanted(self, key: str) -> bool:
        try:
            return self._records.state(key) == "running"
        except SQLAlchemyError:  # nobody can have cancelled it either
            return True

    def _insist(self, write: Callable[[], T]) -> T:
        """Write to the store, again and again while the disk is full.

        Raises:
            StoppingError: The server stops meanwhile.
        """
        pause_s = 0.5
        while True:
            try:
                return write()
            except SQLAlchemyError as error:
                logger.error("cannot write to the store, trying again: %s", error)
            if self.stopping.wait(pause_s):
                raise StoppingError
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _make_folder(self, key: str) -> Path:
        """The folder of a job, under the data folder and nowhere else."""
        scratch = self._settings.data_dir / "scratch"
        folder = scratch / key
        try:
            for place in (scratch, folder):
                place.mkdir(mode=0o700, exist_ok=True)
                if place.is_symlink():
                    raise UsageError(
                        f"{place.name} in the data folder is a symbolic link: "
                        "the server's owner must remove it"
                    )
        except OSError as error:
            raise UsageError(
                f"cannot make a folder for the job: {error.strerror}"
            ) from error
        return folder

    def _forget_folder(self, key: str) -> None:
        scratch = self._settings.data_dir / "scratch"
        if not scratch.is_symlink():
            shutil.rmtree(scratch / key, ignore_errors=True)


def _environment(folder: Path, hub: bool) -> dict[str, str]:
    """As for computing; a measurement uses the threads it is told to."""
    kept = environment(hub)
    for name in ("OMP_NUM_THREADS", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        kept.pop(name, None)
    # What it keeps goes with its folder; machines are found where the server's user
    # has them.
    settings = Path(kept.get("HOME", folder)) / ".config"
    return {"XDG_CONFIG_HOME": str(settings)} | kept | {"HOME": str(folder)}
