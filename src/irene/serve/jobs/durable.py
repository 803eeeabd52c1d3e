"""The queue of jobs that survives `kill -9`; the only module that knows DBOS.

DBOS writes down which step of which job was reached, in the server's own store, and
goes on from there when it is started again. What a job is, and how it ends, is in the
job's record; here a job is but an id.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from irene.errors import MissingExtraError

__all__ = ["DurableQueue", "Steps"]

APPLICATION = "irene"
VERSION = "irene.jobs/1"
"""Of the steps below: jobs of another version are left to servers of that version."""
POLL_S = 0.25
STOP_S = 10.0
LIVE = ("PENDING", "ENQUEUED", "DELAYED")
_one_at_a_time = threading.Lock()
"""DBOS has one instance per process."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done with a job.

    Attributes:
        execute: Runs it; may be called again after a crash.
        announce: Says that it has ended.
    """

    execute: Callable[[str], None]
    announce: Callable[[str], None]


_steps: Steps | None = None


class DurableQueue:
    """Jobs by their ids, run once each.

    Args:
        database_url: SQLAlchemy URL of the store.
        executor: Name of this data folder: what it began, it ends.
        steps: What is done with a job.
        at_once: How many jobs of a kind may run at a time.
    """

    def __init__(
        self, database_url: str, executor: str, steps: Steps, at_once: dict[str, int]
    ) -> None:
        self._database_url = database_url
        self._executor = executor
        self._steps = steps
        self._at_once = at_once
        self._workflow: Any = None

    def open(self) -> bool:
        """Go on with what was begun; False if this process has such a queue already.

        Raises:
            MissingExtraError: DBOS is not installed.
        """
        global _steps
        if not _one_at_a_time.acquire(blocking=False):
            return False
        try:
            _steps = self._steps
            self._launch()
        except BaseException:
            _one_at_a_time.release()
            raise
        return True

    def _launch(self) -> None:
        try:
            from dbos import DBOS
        except ImportError as error:
            raise MissingExtraError(
                "jobs need DBOS: pip install 'irene-energy[serve]'"
            ) from error
        _quieten()
        self._workflow = _workflow()
        DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": self._database_url,
                "application_version": VERSION,
                "executor_id": self._executor,
                "serializer": _serializer(),
                "log_level": "WARNING",
                "notification_listener_polling_interval_sec": POLL_S,
                "enable_otlp": False,
            }
        )
        DBOS.launch()
        for kind, most in self._at_once.items():
            DBOS.register_queue(
                self._queue(kind),
                worker_concurrency=most,
                polling_interval_sec=POLL_S,
                on_conflict="always_update",
            )

    def _queue(self, kind: str) -> str:
        """Name of a kind's queue; what is measured is measured on this machine."""
        return f"{kind}-{self._executor}"

    def put(self, job: str, kind: str) -> None:
        """Have a job run, unless it is about to be run already."""
        from dbos import DBOS, SetWorkflowID

        known = DBOS.list_workflows(workflow_id_prefix=f"{job}.", load_output=False)
        if any(workflow.status in LIVE for workflow in known):
            return
        with SetWorkflowID(f"{job}.{len(known)}"):
            DBOS.enqueue_workflow(self._queue(kind), self._workflow, job)

    def close(self) -> None:
        """Stop; what has not ended goes on when a queue is opened again."""
        from dbos import DBOS

        limit = time.monotonic() + STOP_S
        try:
            while self._runs_something() and time.monotonic() < limit:
                time.sleep(0.05)
            DBOS.destroy()
        finally:
            _one_at_a_time.release()

    def _runs_something(self) -> bool:
        from dbos import DBOS

        running = DBOS.list_workflows(
            status="PENDING",
            executor_id=self._executor,
            load_input=False,
            load_output=False,
        )
        return bool(running)


_registered: Any = None


def _workflow() -> Any:
    """The two steps of a job, registered once per process."""
    global _registered
    if _registered is not None:
        return _registered
    from dbos import DBOS

    @DBOS.step(name="execute")
    def execute(job: str) -> None:
        assert _steps is not None
        _steps.execute(job)

    @DBOS.step(name="announce")
    def announce(job: str) -> None:
        assert _steps is not None
        _steps.announce(job)

    @DBOS.workflow(name="job")
    def run(job: str) -> None:
        execute(job)
        announce(job)

    _registered = run
    return run


def _serializer() -> Any:
    """Ids as JSON: DBOS would pickle them, and nothing here is ever unpickled."""
    from dbos import Serializer

    class JsonSerializer(Serializer):
        def serialize(self, data: Any) -> str:
            return json.dumps(data, default=str)

        def deserialize(self, serialized_data: str) -> Any:
            return json.loads(serialized_data)

        def name(self) -> str:
            return "irene_json"

    return JsonSerializer()


def _quieten() -> None:
    logging.getLogger("dbos").setLevel(logging.WARNING)
