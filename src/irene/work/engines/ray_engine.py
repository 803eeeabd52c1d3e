"""RayEngine: a Ray cluster, where tasks go to the machines that have what they need."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from irene.errors import IreneError, library
from irene.work.child import run_task
from irene.work.engines.engine import Engine
from irene.work.task import Outcome, Task


@dataclass(frozen=True, slots=True)
class RaySettings:
    """What a task needs of a machine, and which cluster to ask.

    Attributes:
        address: Of the cluster; `auto` for the one this machine is part of; None for
            one that is started here and ends with the run.
        cpus: CPUs that Ray keeps for a task.
        gpus: GPUs of a task; Ray lets it see no others.
        accelerator: Kind of GPU, as Ray names it (`A100`).
        resources: Custom resources, by which machines of one kind are found.
        retries: How often a task is given to another machine when its own went away.
        parallel: How many tasks are handed over at a time.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0
    accelerator: str | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    retries: int = 3
    parallel: int = 64


class RayEngine(Engine):
    """Gives every task to a Ray worker, which runs it in a process of its own."""

    name = "ray"

    def __init__(self, settings: RaySettings | None = None) -> None:
        self.settings = settings or RaySettings()
        self._ray = _ray()
        self._tasks: dict[Any, Task] = {}
        self._started_here = False
        self._said = ""

    @property
    def window(self) -> int:
        """How many tasks it is good to have submitted at a time."""
        return self.settings.parallel

    def __enter__(self) -> Self:
        """Connect to the cluster, unless this process is connected already.

        Raises:
            IreneError: There is no cluster at that address.
        """
        if not self._ray.is_initialized():
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
            if self.settings.address is None:
                options["include_dashboard"] = False
            try:
                self._ray.init(self.settings.address, **options)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise IreneError(f"cannot reach the Ray cluster: {error}") from error
            self._started_here = True
        self._remote = self._ray.remote(_run_there).options(**self._needs())
        return self

    def _needs(self) -> dict[str, Any]:
        wanted = self.settings
        needs: dict[str, Any] = {
            "num_cpus": wanted.cpus,
            "num_gpus": wanted.gpus,
            "max_retries": wanted.retries,
            "retry_exceptions": False,
            "resources": dict(wanted.resources),
        }
        if wanted.accelerator is not None:
            needs["accelerator_type"] = wanted.accelerator
        return needs

    def submit(self, task: Task) -> None:
        """Hand a task over; Ray chooses the machine."""
        self._tasks[self._remote.remote(task)] = task

    def news(self) -> list[str]:
        """What tasks wait for that no machine of the cluster has, said once."""
        lacking = self._lacking() if self._tasks else ""
        new = [lacking] if lacking and lacking != self._said else []
        self._said = lacking
        return new

    def _lacking(self) -> str:
        wanted = {"CPU": self.settings.cpus, "GPU": self.settings.gpus}
        if self.settings.accelerator is not None:
            wanted[f"accelerator_type:{self.settings.accelerator}"] = 0.001
        wanted |= self.settings.resources
        for machine in self._ray.nodes():
            has = machine["Resources"] if machine["Alive"] else {}
            if all(has.get(name, 0) >= least for name, least in wanted.items()):
                return ""
        needs = ", ".join(f"{name} {n:g}" for name, n in wanted.items() if n)
        return f"waiting: no machine of the Ray cluster has {needs}"

    def wait(self, timeout_s: float) -> list[Outcome]:
        """Outcomes of the tasks that have ended, or whose machines are gone."""
        if not self._tasks:
            time.sleep(timeout_s)
            return []
        some, rest = self._ray.wait(list(self._tasks), num_returns=1, timeout=timeout_s)
        more, _ = (
            self._ray.wait(rest, num_returns=len(rest), timeout=0) if rest else ([], [])
        )
        return [self._outcome(reference) for reference in [*some, *more]]

    def _outcome(self, reference: Any) -> Outcome:
        task = self._tasks.pop(reference)
        try:
            outcome: Outcome = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            words = str(error).strip().splitlines()[0]
            return Outcome(
                task.name,
                fault="lost",
                problem=f"the machine that ran it went away, {self.settings.retries} "
                f"more did not finish it either: {words}",
            )
        return outcome

    def cancel(self) -> None:
        """End everything that was submitted."""
        for reference in self._tasks:
            self._ray.cancel(reference, force=True)
        self._tasks.clear()

    def __exit__(self, *error: object) -> None:
        """End everything, and leave the cluster if it was joined here."""
        self.cancel()
        if self._started_here:
            self._ray.shutdown()
            self._started_here = False


def _run_there(task: Task) -> Outcome:
    """What a Ray worker does with a task."""
    # Ray allows a worker as many threads as CPUs were asked for; the task decides that.
    os.environ.pop("OMP_NUM_THREADS", None)
    return run_task(task)


def _ray() -> Any:
    missing = "the engine ray needs Ray: pip install 'irene-energy[ray]'"
    library("ray.exceptions", missing)
    return library("ray", missing)
