"""`with irene.account(model) as ledger:` — a ledger of whatever runs in the block."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, get_args

from irene.account.align.attribution import Split
from irene.account.events import Events
from irene.account.ledger.ledger import Ledger
from irene.account.live.ranks import KeptEvents, Rank, this_rank, write_events
from irene.account.live.sampling import Sampling
from irene.account.live.steps import Schedule, StepKind, Steps
from irene.errors import IreneError, UsageError

if TYPE_CHECKING:
    from torch import nn

    from irene.account.live.hooks import Hooks, Mark, ModuleNames
    from irene.account.live.levels import ModuleLevel, OpLevel
    from irene.meters.channel import Meter
    from irene.meters.sampling.recording import Recording

    Model = nn.Module | Mapping[str, nn.Module] | None

P = ParamSpec("P")
T = TypeVar("T")
Level = Literal["op", "module"]
TRACE, EVENTS = "trace.json", "events.npz"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be recorded, and how; `record` explains the fields."""

    level: Level = "op"
    meters: Sequence[str] | Sequence[Meter] = ("auto",)
    period_s: float | None = None
    schedule: Schedule = field(default_factory=Schedule)
    split: Split = "equal"
    idle_w: float | None = None
    idle_s: float = 0.0
    folder: Path | None = None
    shapes: bool = False

    def __post_init__(self) -> None:
        if self.shapes and self.level != "op":
            raise UsageError("shapes are of ops: leave them out, or use level='op'")
        if self.level not in get_args(Level):
            levels = ", ".join(get_args(Level))
            raise UsageError(f"level is one of {levels}, got {self.level!r}")
        if self.idle_w is not None and self.idle_s:
            raise UsageError("idle power is either known (idle_w) or measured (idle_s)")


def record(
    model: nn.Module | Mapping[str, nn.Module] | None = None,
    *,
    level: Level = "op",
    meters: Sequence[str] | Sequence[Meter] = ("auto",),
    period_s: float | None = None,
    skip: int = 0,
    warmup: int = 0,
    steps: int | None = None,
    split: Split = "equal",
    idle_w: float | None = None,
    idle_s: float = 0.0,
    folder: str | Path | None = None,
    shapes: bool = False,
) -> LiveLedger:
    """Account for whatever runs in a `with` block: training, inference, a pipeline.

    Example:
        with irene.account(model, skip=10, warmup=2, steps=20) as ledger:
            train(model)
        for row in ledger.by_op(): print(row.name, row.energy_j)

    Args:
        model: The model, models by name, or a pipeline of diffusers; None for
            whichever is called first.
        level: `op` for every op (PyTorch's profiler), `module` for modules alone.
        meters: Names of meters as in `irene doctor`, or open ones.
        period_s: Period of the power samples, s; None for 0.01 s, or as often as the
            meters have something new if that is less.
        skip: Steps at the start that are not recorded.
        warmup: Steps after these that are recorded and thrown away.
        steps: Steps to record; None for all.
        split: How ops that run at once share: `equal`, by `flops`, `threads` or `sm`.
        idle_w: Power of the machine while nothing runs, W, if known.
        idle_s: How long to watch the machine before the block to find that power, s.
        folder: Where samples, trace and events are kept; None for nowhere. Processes
            that run a program together need one, and `merge_folder` makes their ledger.
        shapes: Whether one op at different shapes of its inputs is different rows;
            recording them takes longer.

    Returns:
        To be used in `with`; afterwards it answers all that a `Ledger` does.

    Raises:
        UsageError: An option cannot be met, or two contradict each other.
    """
    kept = None if folder is None else Path(folder).absolute()
    schedule = Schedule(skip, warmup, steps)
    return LiveLedger(
        model,
        Wanted(level, meters, period_s, schedule, split, idle_w, idle_s, kept, shapes),
    )


class LiveLedger:
    """Records while its block runs, and is a ledger afterwards.

    `start`, `watch` and `finish` are the block in pieces, for programs that are not
    ours to put into one.

    Attributes:
        ledger: The ledger, once the block is over; None before, where nothing was
            recorded, and where this process is one of several.
        rank: Which of several processes this is, once it has started.
    """

    def __init__(self, model: Model, wanted: Wanted) -> None:
        self.ledger: Ledger | None = None
        self._model, self._wanted = model, wanted
        # A model may have no length, or one of 0: only None is none.
        if model is None or isinstance(model, Mapping):
            self._models = model or {}
        else:
            from irene.trace.pipelines import models_in

            self._models = models_in(model) or {"": model}
        self._sampling = Sampling(wanted.meters, wanted.period_s, wanted.idle_s)
        self._steps = Steps()
        self._state = "before"
        self._process = os.getpid()
        self._due: tuple[str, int] | None = None
        self._window_ns = (0, 0)
        self.rank = Rank()
        self._hooks: Hooks | None = None
        self._collector: ModuleLevel | OpLevel | None = None

    def step(self) -> None:
        """Say that a step is over."""
        self._stepped("told")

    def no_step(self) -> None:
        """Say that what ran since the last step is no step: an evaluation, say."""
        self._steps.void_ns.append(time.time_ns())

    def used_j(self) -> float:
        """Energy of the whole machine since this was first asked, J, while it records.

        NaN if it is not known, or another process reads the meters.
        """
        return self._sampling.used_j()

    def _marked(self, mark: Mark) -> None:
        """A forward begins, an optimizer's step has ended, or a batch is loaded."""
        if mark == "data":
            self._settle()
        else:
            self._stepped(mark)

    def _stepped(self, kind: StepKind) -> None:
        if self._state not in ("skip", "warmup", "record"):
            return
        counts = self._steps.happened(kind, time.time_ns())
        if kind != "optimizer":
            self._settle()
        if not counts:
            return
        # PyTorch's own mark of an optimizer's step is still open when its hook is
        # called, and a profiler that is stopped or started inside a mark crashes.
        self._due = (self._wanted.schedule.state(self._steps.done), time.time_ns())
        if kind != "optimizer":
            self._settle()

    def _settle(self) -> None:
        """Go to the state that is due, now that no mark of PyTorch is open."""
        if self._due is not None:
            state, since_ns = self._due
            self._due = None
            self._follow(state, since_ns)

    def _follow(self, state: str, since_ns: int | None = None) -> None:
        """Go to the next state of the schedule, if it is another."""
        if state == self._state or self._collector is None:
            return
        if self._state == "record":
            self._window_ns = (self._window_ns[0], since_ns or time.time_ns())
        if self._state in ("warmup", "record"):
            with self._sampling.left_out():  # reading a trace is no work of a step
                self._collector.end_recording()
        self._state = state
        if state in ("warmup", "record"):
            self._collector.begin_recording()
            self._window_ns = (time.time_ns(), 0)
        if state == "over":
            self._unhook()

    def _unhook(self) -> None:
        if self._hooks is not None:
            self._hooks.remove()

    # The block --------------------------------------------------------------------

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Account for every call of a function, whose `ledger` is of the last one."""

        @wraps(function)
        def watched(*args: P.args, **kwargs: P.kwargs) -> T:
            with LiveLedger(self._model, self._wanted) as ledger:
                watched.ledger = ledger  # type: ignore[attr-defined]
                return function(*args, **kwargs)

        return watched

    def __enter__(self) -> Self:
        self.start()
        try:
            self.watch()
        except BaseException:
            self._sampling.abandon()
            raise
        return self

    def start(self) -> None:
        """Start the meters.

        Raises:
            UsageError: It has been used, or several processes have no folder.
            MeterError: There is no meter.
        """
        if self._state != "before":
            raise UsageError("this ledger has been used; make a new one")
        # Kineto reports its own doings on standard error unless told not to.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self.rank, folder = this_rank(), self._wanted.folder
        if not self.rank.is_alone and folder is None:
            raise UsageError(
                f"this is one of {self.rank.count} processes: give all of them the "
                "same folder, and merge it when they have ended"
            )
        if folder is not None:
            # What a run before has left must not be taken for this one's.
            self.rank.file(folder, EVENTS).unlink(missing_ok=True)
        self._state, self._process = "started", os.getpid()
        self._sampling.start(self.rank, folder)

    def watch(self) -> None:
        """Begin to watch what PyTorch does."""
        from irene.account.live.hooks import Hooks, ModuleNames

        folder = self._wanted.folder
        trace = self.rank.file(folder, TRACE) if folder is not None else None
        names = ModuleNames(self._models)
        self._collector = _collector(self._wanted, trace, names)
        self._hooks = Hooks(self._collector, names, self._marked)
        try:
            self._hooks.install()
            self._follow(self._wanted.schedule.state(0))
        except BaseException:
            self._hooks.remove()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop watching, whatever happened, and make the ledger.

        An error of the block stays what it is: one of ours after it is a note on it.
        """
        if error is None:
            self.finish()
            return
        try:
            self.finish(failed=True)
        except (IreneError, ArithmeticError, OSError, RuntimeError) as ours:
            error.add_note(f"irene: there is no ledger: {ours}")

    def finish(self, failed: bool = False) -> None:
        """Stop watching and make the ledger; of what failed there may be none.

        Raises:
            UsageError: Nothing was recorded.
        """
        self._unhook()
        if os.getpid() != self._process:
            # A child that was forked in the block: profiler and meters are its
            # parent's, and waiting for them would never end.
            self._state = "over"
            return
        try:
            self._settle()
            self._follow("over")
        finally:
            recording = self._sampling.stop()
            self._state = "over"
        if self._window_ns[1] == 0 or self._collector is None:
            if failed:
                return
            if self._collector is None:
                raise UsageError("nothing was recorded: the program never used PyTorch")
            raise UsageError(self._wanted.schedule.why_nothing(self._steps.done))
        events = self._steps.give(self._collector.events(), self._window_ns)
        if len(events) or not failed:
            self._account(events, recording)

    def _account(self, events: Events, recording: Recording | None) -> None:
        """Keep the events, and make the ledger unless other processes belong to it."""
        wanted, rank = self._wanted, self.rank
        facts = {} if recording is None else self._sampling.facts(recording)
        place = rank.number, rank.local_count
        kept = KeptEvents(events, self._window_ns, *place, **facts)
        if wanted.folder is not None:
            write_events(kept, rank.file(wanted.folder, EVENTS))
        if recording is not None and rank.is_alone:
            self.ledger = kept.ledger(recording, wanted.split, wanted.idle_w)

    def __getattr__(self, name: str) -> Any:
        """What the ledger answers, once there is one."""
        if name.startswith("_"):
            raise AttributeError(name)
        if self.ledger is None:
            raise UsageError(f"{name}: {self.why_none()}")
        return getattr(self.ledger, name)

    def __repr__(self) -> str:
        return repr(self.ledger) if self.ledger else f"<{self.why_none()}>"

    def _repr_html_(self) -> str:
        return self.ledger._repr_html_() if self.ledger else f"<p>{self.why_none()}</p>"

    def why_none(self) -> str:
        """Why there is no ledger, in words."""
        if self._state != "over":
            return "there is no ledger before its block has ended"
        if os.getpid() != self._process:
            return "there is no ledger in a forked process: its parent has it"
        if self.rank.is_alone:
            return "there is no ledger: nothing was recorded"
        folder = self.rank.home(self._wanted.folder or Path())
        return (
            f"this was one of {self.rank.count} processes; `irene account --merge "
            f"{folder}` makes the ledger of all of them"
        )


def _collector(
    wanted: Wanted, trace: Path | None, names: ModuleNames
) -> ModuleLevel | OpLevel:
    if wanted.level == "module":
        import torch

        from irene.account.live.levels import ModuleLevel

        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            raise UsageError(
                "level='module' sees when the host ran, not the GPU: use level='op'"
            )
        return ModuleLevel()
    from irene.account.live.levels import OpLevel

    if trace is not None:
        trace.parent.mkdir(parents=True, exist_ok=True)
    return OpLevel(trace, wanted.shapes, names)
