"""One job from beginning to end: its process, its result, its record."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from irene.errors import IreneError, UsageError
from irene.serve.answers.storage import Answers
from irene.serve.http.settings import Settings
from irene.serve.jobs.bounds import bounds_of
from irene.serve.jobs.limited_process import (
    LimitedProcess,
    ProcessError,
    UnwantedError,
)
from irene.serve.jobs.notify import notify
from irene.serve.jobs.request import UPLOAD
from irene.serve.store.jobs import JobRecord, JobRecords
from irene.serve.uploads.storage import Uploads

__all__ = ["Execution", "StoppingError"]

logger = logging.getLogger(__name__)
T = TypeVar("T")
MOST_ATTEMPTS = 10
REPORT_S = 0.2
"""Least time between two reports of progress, s."""
LONGEST_PAUSE_S = 30.0
STATUS = {
    "timeout": HTTPStatus.GATEWAY_TIMEOUT,
    "memory": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "crash": HTTPStatus.INTERNAL_SERVER_ERROR,
    "UnknownModelError": HTTPStatus.NOT_FOUND,
    "MeterError": HTTPStatus.NOT_IMPLEMENTED,
    "MissingExtraError": HTTPStatus.NOT_IMPLEMENTED,
}


class StoppingError(Exception):
    """The server stops: the job goes on when it is started again."""


class Execution:
    """Runs jobs.

    Args:
        settings: Limits, and how to send messages.
        records: Of the jobs.
        uploads: Configs that jobs are about.
        answers: Where results go.
    """

    def __init__(
        self,
        settings: Settings,
        records: JobRecords,
        uploads: Uploads,
        answers: Answers,
    ) -> None:
        self._settings = settings
        self._records = records
        self._uploads = uploads
        self._answers = answers
        self.stopping = threading.Event()

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
        """Tell the job's owner, if the job has ended."""
        try:
            record = self._insist(lambda: self._records.get(key))
        except StoppingError:
            return
        if record is not None and record.state in ("succeeded", "failed"):
            notify(record, self._settings, self.stopping.wait)

    def _run_to_its_end(self, record: JobRecord) -> None:
        key = record.id
        try:
            self._run(record)
        except UnwantedError:
            if self.stopping.is_set():
                raise StoppingError from None
            logger.info("job %s was cancelled", key)
        except IreneError as error:
            problem = _problem(error, key)
            self._insist(lambda: self._records.fail(key, problem))
        except StoppingError:
            raise
        except Exception:
            logger.exception("job %s failed unexpectedly", key)
            bug = _problem(ProcessError("crash", "a bug in irene; see its log"), key)
            self._insist(lambda: self._records.fail(key, bug))
        self._forget_folder(key)

    def _run(self, record: JobRecord) -> None:
        if record.attempts > MOST_ATTEMPTS:
            raise ProcessError(
                "crash", f"the server has ended {MOST_ATTEMPTS} times during this job"
            )
        bounds = bounds_of(self._settings, record.kind)
        folder = self._make_folder(record.id)
        process = LimitedProcess(self._order(record), bounds, folder)
        try:
            body = process.run(self._reporter(record.id), self._is_wanted(record.id))
        except OSError as error:
            raise UsageError(f"cannot start the job: {error.strerror}") from error
        result_key = hashlib.sha256(body).hexdigest()[:32]
        question = json.dumps({"job": record.id}, separators=(",", ":"))
        # First the answer, then the record that points to it.
        self._insist(
            lambda: self._answers.put(result_key, body, question=question, keep=True)
        )
        self._insist(lambda: self._records.succeed(record.id, result_key))

    def _order(self, record: JobRecord) -> dict[str, Any]:
        """What the process is told; see `work`."""
        request = record.request
        model = request["model"]
        return {
            "kind": record.kind,
            "hub": self._settings.hub,
            "protocol": request.get("protocol"),
            "arguments": {
                "model": model,
                "run": request["run"],
                "hardware": request.get("hardware"),
                "configs": self._configs(model),
                "hub": self._settings.hub,
            },
        }

    def _configs(self, model: str) -> Mapping[str, Any]:
        if not model.startswith(UPLOAD):
            return {}
        upload = self._uploads.get(model.removeprefix(UPLOAD))
        if upload is None:
            raise UsageError(f"{model} is not there any more: upload it again")
        return {model: json.loads(upload.body)}

    def _reporter(self, key: str) -> Callable[[int, int, str], None]:
        last = 0.0

        def report(done: int, total: int, text: str) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < REPORT_S:
                return
            last = now
            try:
                self._records.report(key, done, total, text)
            except SQLAlchemyError as error:  # the next report will do
                logger.warning("progress of job %s not written: %s", key, error)

        return report

    def _is_wanted(self, key: str) -> Callable[[], bool]:
        def is_wanted() -> bool:
            if self.stopping.is_set():
                return False
            try:
                return self._records.state(key) == "running"
            except SQLAlchemyError:  # nobody can have cancelled it either
                return True

        return is_wanted

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


def _problem(error: IreneError, key: str) -> dict[str, Any]:
    """A failure as the document that HTTP would show."""
    name = error.error if isinstance(error, ProcessError) else type(error).__name__
    status = HTTPStatus(STATUS.get(name, HTTPStatus.BAD_REQUEST))
    return {
        "type": "about:blank",
        "title": status.phrase,
        "status": int(status),
        "detail": str(error)[:2_000],
        "instance": f"/api/v1/jobs/{key}",
    }
