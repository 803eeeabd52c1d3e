"""Run: one program run under meters, and the small part of its ledger that is kept."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from irene.account.events import PYTHON
from irene.account.ledger.grouping import grouped
from irene.account.ledger.scopes import merged
from irene.account.live.session import Level, record
from irene.account.studies.program import MODES, Mode, Program, Subject, make_program
from irene.errors import FormatError, UsageError
from irene.spec import Attention, DType, RunSpec

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.meters.channel import Meter

__all__ = [
    "OWN",
    "SCHEMA",
    "Conditions",
    "Job",
    "Operation",
    "Run",
    "digest",
    "perform",
]

SCHEMA = "irene.study-run/1"
OWN = "(own)"
"""Name of what belongs to a module itself and to nothing inside it."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """How every run of a study is done.

    Attributes:
        batch_size: Sequences per step.
        seq_len: Tokens per sequence.
        steps: Steps that are recorded.
        warmup: Steps before these that are not recorded.
        runs: How often everything is run.
        level: `op` for every op, `module` for modules alone.
        meters: Names of meters, or open ones.
        period_s: Period of the power samples, s.
        dtype: Floating-point type of weights and activations.
        attention: Attention implementation.
        device: Where to run, as torch names it.
        threads: Threads of torch on the CPU; None for as many as it takes.
    """

    batch_size: int = 8
    seq_len: int = 128
    steps: int = 3
    warmup: int = 1
    runs: int = 3
    level: Level = "op"
    meters: Sequence[str] | Sequence[Meter] = ("auto",)
    period_s: float = 0.01
    dtype: DType = "fp32"
    attention: Attention = "eager"
    device: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for name in ("steps", "runs"):
            if getattr(self, name) < 1:
                value = getattr(self, name)
                raise UsageError(f"{name} must be at least 1, got {value}")
        if not 0 < self.period_s < math.inf:
            raise UsageError(f"the period must be more than 0 s, got {self.period_s}")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; open meters by name."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {"meters": [_meter_name(meter) for meter in self.meters]}


def _meter_name(meter: str | Meter) -> str:
    return meter if isinstance(meter, str) else meter.name


@dataclass(frozen=True, slots=True)
class Job:
    """One run that a study wants.

    Attributes:
        subject: The model.
        mode: What its steps are.
        conditions: How it is run.
        number: Which of the repeated runs, from 1.
    """

    subject: Subject
    mode: Mode
    conditions: Conditions
    number: int = 1

    def __post_init__(self) -> None:
        """Refuse a mode that there is not."""
        if self.mode not in MODES:
            raise UsageError(f"mode is one of {', '.join(MODES)}, got {self.mode!r}")

    @property
    def words(self) -> str:
        """For progress."""
        return f"{self.subject.name}, {self.mode}, run {self.number}"

    def key(self, machine: Mapping[str, str]) -> dict[str, Any]:
        """All that decides what the run gives, JSON-ready.

        Args:
            machine: Where it is run.
        """
        import torch

        conditions = self.conditions.to_dict()
        del conditions["runs"]  # how many others there are changes nothing
        conditions["threads"] = conditions["threads"] or torch.get_num_threads()
        return {
            "schema": SCHEMA,
            "model": self.subject.digest,
            "mode": self.mode,
            "number": self.number,
            "torch": torch.__version__,
            "machine": dict(machine),
            **conditions,
        }


@dataclass(frozen=True, slots=True)
class Operation:
    """An op in a module and a phase, all layers together.

    Attributes:
        scope: Path of the module below the model's body, `#` for any number.
        op: The op.
        phase: `forward`, `backward`, `optimizer`, …
        in_body: Whether it is part of the model itself, not of its head or optimizer.
        step_j: Own energy in every step, J.
    """

    scope: str
    op: str
    phase: str
    in_body: bool
    step_j: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """What is kept of a run.

    Attributes:
        operations: Every operation.
        measured_j: All energy of the steps, J.
        attributed_j: What of it was charged to ops, J.
        window_s: How long the steps took, s.
        parameters: Weights of the model, with its head.
        source: `measured` or `estimated`.
        produced_by: The channels of the meter.
        notes: What a reader should know.
    """

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

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Run:
        """The opposite of `to_dict`.

        Raises:
            FormatError: It is something else.
        """
        try:
            operations = tuple(
                Operation(**{**row, "step_j": tuple(map(float, row["step_j"]))})
                for row in fields["operations"]
            )
            rest = {**fields, "operations": operations, "notes": tuple(fields["notes"])}
            return cls(**rest)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"not a run of a study: {error}") from error


def perform(job: Job) -> Run:
    """Build the model, warm up, run its steps under the meters.

    Raises:
        UsageError: It cannot be built or run, or no power was sampled meanwhile.
        MeterError: There is no meter.
    """
    from irene.measure.alone.device import choose_device, synchroniser, using_threads

    conditions = job.conditions
    device = choose_device(conditions.device)
    wait = synchroniser(device)
    with using_threads(conditions.threads):
        program = make_program(job.subject, job.mode, _spec(job), device)
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


def _spec(job: Job) -> RunSpec:
    conditions = job.conditions
    return RunSpec(
        job.subject.name,
        conditions.batch_size,
        conditions.seq_len,
        dtype=conditions.dtype,
        attention=conditions.attention,
        phase="forward" if job.mode == "prediction" else "train",
    )


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
    """Own energies by module, op and phase, layers merged.

    Args:
        ledger: The ledger.
        body: Path of the model below its head; "" if it has none.
    """
    events = ledger.events
    number: dict[tuple[str, str, str], int] = {}
    codes = np.empty(len(events), np.int64)
    scopes = [merged(name) for name in events.scope.names]
    # What a module does between its ops.
    ops = [OWN if name == PYTHON else name for name in events.op.names]
    columns = (events.scope.codes, events.op.codes, events.phase.codes)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for row, (scope, op, phase) in enumerate(rows):
        key = (scopes[scope], ops[op], events.phase.names[phase])
        codes[row] = number.setdefault(key, len(number))
    groups = grouped(ledger, codes, ["\t".join(key) for key in number])
    found = []
    for (scope, op, phase), group in number.items():
        if groups.count[group]:
            place, in_body = _below(scope, body)
            in_body = in_body and phase in ("forward", "backward")
            step_j = tuple(groups.step_j[group].tolist())
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


def digest(key: Mapping[str, Any]) -> str:
    """16 hex digits that stand for a key."""
    text = json.dumps(key, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
