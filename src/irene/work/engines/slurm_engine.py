"""SlurmEngine: a Slurm cluster, one job per task, through submitit."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from irene.errors import IreneError, library
from irene.work.child import run_task
from irene.work.engines.engine import Engine
from irene.work.task import Outcome, Task

POLL_S = 0.2
QUEUE_S = 5.0
"""Time between two looks at the queue, s."""
SLOW_FILES_S = 30.0
"""How long a result may take to be seen after its job has left the queue, s."""


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """What a job needs.

    Attributes:
        cluster: `slurm`, or `local` for processes of this machine; None for Slurm if it
            is here, else local.
        folder: Where submitit keeps its scripts and logs; all machines must see it.
        partition: Partition of the jobs.
        constraint: Features a machine must have, as `sbatch --constraint` takes them.
        gpus: GPUs of a job.
        cpus: CPUs of a job.
        minutes: Time limit of a job, min.
        exclusive: Whether a job has its machine for itself.
        retries: How often a job is submitted again when its machine went away.
        parallel: How many jobs are submitted at a time.
        options: Other options of `sbatch`, by their long names.
    """

    cluster: str | None = None
    folder: str = "irene-slurm"
    partition: str | None = None
    constraint: str | None = None
    gpus: int = 0
    cpus: int = 1
    minutes: int = 120
    exclusive: bool = True
    retries: int = 3
    parallel: int = 64
    options: Mapping[str, Any] = field(default_factory=dict)


class SlurmEngine(Engine):
    """Submits every task as a job, and looks now and then whether it has ended."""

    name = "slurm"

    def __init__(self, settings: SlurmSettings | None = None) -> None:
        self.settings = settings or SlurmSettings()
        self._submitit = _submitit()
        self._jobs: list[_Job] = []
        self._executor: Any = None
        self._left_s: dict[str, float] = {}  # when a job was first not in the queue
        self._looked_s = 0.0

    @property
    def window(self) -> int:
        """How many tasks it is good to have submitted at a time.

        Processes of this machine run one at a time, like those of the local engine.
        """
        local = self._executor is not None and self._executor.cluster == "local"
        return 1 if local else self.settings.parallel

    def __enter__(self) -> Self:
        """Find the cluster.

        Raises:
            IreneError: There is none, or it does not take these settings.
        """
        wanted = self.settings
        try:
            self._executor = self._submitit.AutoExecutor(
                Path(wanted.folder), cluster=wanted.cluster
            )
            self._executor.update_parameters(**self._parameters())
        except (RuntimeError, ValueError, TypeError, NameError, OSError) as error:
            raise IreneError(f"cannot use Slurm: {error}") from error
        # Without accounting it warns, twice, at every look at every job.
        logging.getLogger("submitit").setLevel(logging.ERROR)
        return self

    def _parameters(self) -> dict[str, Any]:
        wanted = self.settings
        parameters: dict[str, Any] = {
            "name": "irene",
            "timeout_min": wanted.minutes,
            "cpus_per_task": wanted.cpus,
            "gpus_per_node": wanted.gpus,
        }
        if self._executor.cluster != "slurm":
            return parameters
        only_slurm = {
            "partition": wanted.partition,
            "constraint": wanted.constraint,
            "exclusive": wanted.exclusive or None,
        }
        known = {f"slurm_{k}": v for k, v in only_slurm.items() if v is not None}
        extra = {"slurm_additional_parameters": dict(wanted.options)}
        return parameters | known | (extra if wanted.options else {})

    def submit(self, task: Task) -> None:
        """Submit a job."""
        self._jobs.append(_Job(task, self._executor.submit(run_task, task)))

    def wait(self, timeout_s: float) -> list[Outcome]:
        """Outcomes of the jobs that have ended."""
        until_s = time.monotonic() + timeout_s
        while True:
            self._look_at_queue()
            ended = [job for job in self._jobs if job.handle.done() or self._gone(job)]
            found = [o for job in ended if (o := self._outcome(job)) is not None]
            if found or time.monotonic() >= until_s:
                return found
            time.sleep(min(POLL_S, max(0.0, until_s - time.monotonic())))

    def _look_at_queue(self) -> None:
        """Note which jobs are in the queue no more.

        A job that dies hard writes no result, and where Slurm keeps no accounts,
        `sacct` has nothing to say of it: the queue is what is left to ask.
        """
        now_s = time.monotonic()
        if self._executor.cluster != "slurm" or now_s < self._looked_s + QUEUE_S:
            return
        self._looked_s = now_s
        queued = _queued()
        if queued is not None:
            gone = {str(job.handle.job_id) for job in self._jobs} - queued
            self._left_s = {name: self._left_s.get(name, now_s) for name in gone}

    def _gone(self, job: _Job) -> bool:
        left_s = self._left_s.get(str(job.handle.job_id))
        return left_s is not None and time.monotonic() >= left_s + SLOW_FILES_S

    def _outcome(self, job: _Job) -> Outcome | None:
        """What became of a job; None if it was submitted again."""
        self._jobs.remove(job)
        faults = self._submitit.core.utils
        try:
            if not job.handle.done():
                raise faults.UncompletedJobError("it left the queue without a result")
            outcome: Outcome = job.handle.result()
        except (faults.UncompletedJobError, faults.FailedJobError) as error:
            if job.lost < self.settings.retries:
                again = self._executor.submit(run_task, job.task)
                self._jobs.append(_Job(job.task, again, job.lost + 1))
                return None
            words = str(error).strip().splitlines()[0]
            return Outcome(
                job.task.name,
                fault="lost",
                problem=f"its job ended without a result {job.lost + 1} times: {words}",
            )
        return outcome

    def cancel(self) -> None:
        """Cancel all jobs."""
        for job in self._jobs:
            job.handle.cancel(check=False)
        self._jobs.clear()


def _queued() -> set[str] | None:
    """Jobs of this user that wait or run; None if Slurm does not say."""
    command = ["squeue", "--me", "--noheader", "--format", "%A"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return set(done.stdout.split()) if done.returncode == 0 else None


@dataclass(frozen=True, slots=True)
class _Job:
    task: Task
    handle: Any
    lost: int = 0


def _submitit() -> Any:
    missing = "the engine slurm needs submitit: pip install 'irene-energy[slurm]'"
    library("submitit.core.utils", missing)
    return library("submitit", missing)
