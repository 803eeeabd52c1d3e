"""Run: one program run under meters, and the small part of its ledger that is kept.

Every finished run is a small file, so that a study goes on where it was stopped. A file
is named after all that decides what the run gives, so a run of other sizes, of another
model or on another machine is never taken for it.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from irene.account.events import PYTHON
from irene.account.ledger.grouping import grouped
from irene.account.live.session import record
from irene.account.studies.program import Conditions, Job, Program, make_program
from irene.errors import UsageError
from irene.saved import Saved, digest_of
from irene.whole_file import whole_file

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger

OWN = "(own)"
"""Name of what belongs to a module itself and to nothing inside it."""
Progress = Callable[[int, int, str], None]
"""Told runs done, runs in all, and what is being done."""
LOG = logging.getLogger(__name__)


class OperationKey(NamedTuple):
    """What makes operations of several runs the same one."""

    scope: str
    op: str
    phase: str
    in_body: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """An op in a module below the body (`#` for any number), all layers together."""

    scope: str
    op: str
    phase: str
    in_body: bool
    step_j: tuple[float, ...]

    @property
    def key(self) -> OperationKey:
        """What it is, whatever it used."""
        return OperationKey(self.scope, self.op, self.phase, self.in_body)


@dataclass(frozen=True, slots=True)
class Run(Saved):
    """What is kept of a run; operations are those of the model with its head."""

    operations: tuple[Operation, ...]
    measured_j: float
    attributed_j: float
    window_s: float
    parameters: int
    source: str
    produced_by: str
    notes: tuple[str, ...] = ()

    @property
    def step_j(self) -> tuple[float, ...]:
        """Energy of every step, J."""
        columns = zip(*(each.step_j for each in self.operations), strict=True)
        return tuple(math.fsum(column) for column in columns)


def perform(job: Job) -> Run:
    """Build the model, warm up, run its steps under the meters."""
    from irene.measure.alone.target import choose_device, synchroniser, using_threads

    conditions = job.conditions
    device = choose_device(conditions.device)
    wait = synchroniser(device)
    with using_threads(conditions.threads):
        program = make_program(job, device)
        _warm_up(program, conditions)
        wait()
        live = record(
            program.model,
            level=conditions.level,
            meters=conditions.meters,
            period_s=conditions.period_s,
        )
        with live:
            for _ in range(conditions.steps):
                program.step()
                wait()
                live.step()
    ledger = live.ledger
    if ledger is None or not ledger.attributed_j > 0:
        raise UsageError(
            f"{job.words}: no energy was seen in {conditions.steps} steps at a period "
            f"of {conditions.period_s} s: take more steps or a shorter period"
        )
    return _kept(ledger, program.model, program.notes)


def _warm_up(program: Program, conditions: Conditions) -> None:
    """Run steps that nobody records: the first ones allocate, and so does a profiler.

    The schedule of `record` may stop a profiler inside an optimizer's step, where the
    profiler does not expect it; so the steps are run before the recording.
    """
    import torch

    # Kineto reports its own doings on standard error unless told not to.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")

    for _ in range(conditions.warmup):
        program.step()
    if conditions.level == "op":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            program.step()


def _kept(ledger: Ledger, model: Any, notes: tuple[str, ...]) -> Run:
    prefix = getattr(model, "base_model_prefix", "")
    body = prefix if prefix and hasattr(model, prefix) else ""
    return Run(
        _operations(ledger, body),
        ledger.measured_j,
        ledger.attributed_j,
        ledger.window_s,
        sum(weights.numel() for weights in model.parameters()),
        ledger.source,
        ledger.produced_by,
        (*notes, *ledger.notes),
    )


def _operations(ledger: Ledger, body: str) -> tuple[Operation, ...]:
    """Own energies by module, op and phase, layers merged, in the order they ran."""
    names, codes = ledger.operation_codes()
    groups = grouped(ledger, codes, [""] * len(names))
    _, first = np.unique(codes, return_index=True)
    found = []
    for group in np.argsort(first).tolist():
        if groups.count[group]:
            scope, op, phase = names[group]
            place, in_body = _below(scope, body)
            in_body = in_body and phase in ("forward", "backward")
            step_j = tuple(groups.step_j[group].tolist())
            # A module's mark is what it does between its ops.
            op = OWN if op == PYTHON else op
            found.append(Operation(place, op, phase, in_body, step_j))
    return tuple(found)


def _below(scope: str, body: str) -> tuple[str, bool]:
    """A path without that of the body, and whether it is in the body."""
    if not body:
        return scope, True
    if scope == body:
        return "", True
    inside = scope.startswith(f"{body}.")
    return (scope[len(body) + 1 :], True) if inside else (scope, False)


@dataclass
class Store:
    """Runs that are finished, by what they are runs of; in a folder, or nowhere."""

    folder: Path | None = None
    fresh: bool = field(default=False, kw_only=True)
    progress: Progress | None = field(default=None, kw_only=True)
    performed: int = field(default=0, init=False)
    _machine: Mapping[str, str] = field(default_factory=lambda: _machine(), init=False)

    def runs(self, jobs: Sequence[Job]) -> list[Run]:
        """The runs of some jobs: those that are kept, and the others made now."""
        found = []
        for done, job in enumerate(jobs):
            self._tell(done, len(jobs), job.words)
            found.append(self._run(job))
        self._tell(len(jobs), len(jobs), "done")
        return found

    def _tell(self, done: int, total: int, words: str) -> None:
        if self.progress is not None:
            self.progress(done, total, words)

    def _run(self, job: Job) -> Run:
        key = job.key(self._machine)
        path = self.folder and self.folder / f"{digest_of(key)[:16]}.json"
        kept = None if path is None or self.fresh else _read(path)
        if kept is not None:
            return kept
        run = perform(job)
        self.performed += 1
        if path is not None:
            words = {"model": job.subject.name, "fields": dict(job.subject.fields)}
            fields = {"key": key, "subject": words, "run": run.to_dict()}
            with whole_file(path) as file:
                file.write(json.dumps(fields, allow_nan=False, default=str).encode())
        return run


def _machine() -> dict[str, str]:
    """What tells machines apart; a new kernel makes no new machine."""
    from irene.meters.machine import describe_machine

    described = describe_machine()
    return {n: described[n] for n in ("cpu", "cpus", "gpu") if n in described}


def _read(path: Path) -> Run | None:
    """The run of a file; None if there is none, or it is damaged."""
    try:
        return Run.from_dict(json.loads(path.read_text(encoding="utf-8"))["run"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        LOG.warning("%s is damaged: its run is made again", path)
        return None
