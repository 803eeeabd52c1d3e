"""`with irene.account(model) as ledger:` — a ledger of whatever runs in the block."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, get_args

from irene.account.attribution import Split, account
from irene.account.events import Events
from irene.account.ledger import Ledger
from irene.account.live.schedule import Schedule, StepCounter, StepKind
from irene.account.live.steps import StepMarks
from irene.account.power import PowerSeries
from irene.account.recorded_power import power_of_recording
from irene.errors import UsageError
from irene.meters.recording import Recording, read_recording
from irene.meters.sampler import Sampler
from irene.meters.sampler_process import SamplerProcess

if TYPE_CHECKING:
    from torch import nn

    from irene.meters.channel import Meter

PROCESS_CPU = "proc:process_cpu"

__all__ = ["Level", "LiveLedger", "record"]

Level = Literal["op", "module"]


class _Collector(Protocol):
    def begin_recording(self) -> None: ...
    def end_recording(self) -> None: ...
    def events(self) -> Events: ...
    def enter(self, path: str, module: nn.Module, inputs: Any) -> None: ...
    def leave(self, path: str, module: nn.Module, outputs: Any) -> None: ...
    def begin(self, name: str, phase: str) -> None: ...
    def end(self, name: str, phase: str) -> None: ...


def record(
    model: nn.Module | Mapping[str, nn.Module] | None = None,
    *,
    level: Level = "op",
    meters: Sequence[str] | Sequence[Meter] = ("auto",),
    period_s: float = 0.01,
    skip: int = 0,
    warmup: int = 0,
    steps: int | None = None,
    split: Split = "equal",
    idle_w: float | None = None,
    folder: str | Path | None = None,
) -> LiveLedger:
    """Account for whatever runs in a `with` block: training, inference, a pipeline.

    Args:
        model: The model, or models by name; None for whichever is called first.
        level: `op` for every op (PyTorch's profiler), `module` for modules alone.
        meters: Names of meters as in `irene doctor`, or open ones.
        period_s: Period of the power samples, s.
        skip: Steps at the start that are not recorded.
        warmup: Steps after these that are recorded and thrown away.
        steps: Steps to record; None for all.
        split: How ops that run at once share.
        idle_w: Power of the machine while nothing runs, W, if known.
        folder: Where samples and trace are kept; None for nowhere.

    Returns:
        To be used in `with`; afterwards it answers all that a `Ledger` does.
    """
    if level not in get_args(Level):
        raise UsageError(f"level is one of {', '.join(get_args(Level))}, got {level!r}")
    return LiveLedger(
        model,
        level,
        meters,
        period_s,
        Schedule(skip, warmup, steps),
        split,
        idle_w,
        None if folder is None else Path(folder),
    )


class LiveLedger:
    """Records while its block runs, and is a ledger afterwards.

    Attributes:
        ledger: The ledger, once the block is over; None before, and where nothing was
            recorded.
    """

    def __init__(
        self,
        model: nn.Module | Mapping[str, nn.Module] | None,
        level: Level,
        meters: Sequence[str] | Sequence[Meter],
        period_s: float,
        schedule: Schedule,
        split: Split,
        idle_w: float | None,
        folder: Path | None,
    ) -> None:
        from irene.account.live.hooks import Hooks
        from irene.account.live.names import ModuleNames

        self.ledger: Ledger | None = None
        self._schedule, self._split, self._idle_w = schedule, split, idle_w
        self._collector = _collector(level, folder)
        self._marks, self._counter = StepMarks(), StepCounter()
        self._state = "before"
        self._window_ns = (0, 0)
        models = model if isinstance(model, Mapping) else {"": model} if model else {}
        self._hooks = Hooks(
            self,
            ModuleNames(models),
            lambda _: self._stepped("optimizer"),
            lambda _: self._stepped("forward"),
        )
        self._meters, self._period_s, self._folder = meters, period_s, folder
        _check_meters(meters)

    def step(self) -> None:
        """Say that a step is over."""
        self._stepped("told")

    def _stepped(self, kind: StepKind) -> None:
        if self._state not in ("skip", "warmup", "record"):
            return
        if kind == "forward":
            self._marks.forward_ns.append(time.time_ns())
        elif kind == "optimizer":
            self._marks.optimizer_ns.append(time.time_ns())
        else:
            self._marks.told_ns.append(time.time_ns())
        if self._counter.happened(kind):
            self._follow(self._schedule.state(self._counter.done))

    def _follow(self, state: str) -> None:
        """Go to the next state of the schedule, if it is another."""
        if state == self._state:
            return
        if self._state == "warmup":
            self._collector.end_recording()
        if self._state == "record":
            self._stop_recording()
        self._state = state
        if state in ("warmup", "record"):
            self._collector.begin_recording()
            self._window_ns = (time.time_ns(), 0)
        if state == "over":
            self._hooks.remove()

    def _stop_recording(self) -> None:
        self._window_ns = (self._window_ns[0], time.time_ns())
        self._collector.end_recording()

    def __enter__(self) -> Self:
        """Start the meters and begin to watch."""
        if self._state != "before":
            raise UsageError("this ledger has been used; make a new one")
        self._scratch = tempfile.TemporaryDirectory(prefix="irene-")
        samples = Path(self._folder or self._scratch.name, "samples.csv")
        try:
            self._sampler = _sampler(self._meters, self._period_s, samples).start()
        except BaseException:
            self._scratch.cleanup()
            raise
        try:
            self._hooks.install()
            self._follow(self._schedule.state(0))
        except BaseException:
            self._hooks.remove()
            self._sampler.stop()
            self._scratch.cleanup()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop watching, whatever happened, and make the ledger."""
        self._hooks.remove()
        try:
            self._follow("over")
        finally:
            recording = self._finish_sampling()
        if self._window_ns[1] == 0:
            if kind is None:
                raise UsageError(
                    f"nothing was recorded: {self._counter.done} steps are over, and "
                    f"recording begins after {self._schedule.skip} skipped and "
                    f"{self._schedule.warmup} to warm up"
                )
            return
        events = self._marks.give(self._collector.events(), self._window_ns)
        if not len(events) and kind is not None:
            return
        self.ledger = account(
            events.noted(*(f"power: {note}" for note in recording.notes)),
            self._power(recording),
            split=self._split,
            window_ns=self._window_ns,
        )

    def _finish_sampling(self) -> Recording:
        try:
            self._sampler.stop()
            return read_recording(self._sampler.path)
        finally:
            self._scratch.cleanup()

    def _power(self, recording: Recording) -> tuple[PowerSeries, ...]:
        """What counts; of a CPU only this process's share, where its load is known."""
        names = {channel.name for channel in recording.channels}
        cpus = os.cpu_count() if PROCESS_CPU in names else None
        return power_of_recording(recording, self._idle_w, cpus=cpus)

    # What happens in the program ------------------------------------------------

    def enter(self, path: str, module: nn.Module, inputs: Any) -> None:
        """A module's forward begins."""
        if self._state in ("warmup", "record"):
            self._collector.enter(path, module, inputs)

    def leave(self, path: str, module: nn.Module, outputs: Any) -> None:
        """A module's forward has ended."""
        if self._state in ("warmup", "record"):
            self._collector.leave(path, module, outputs)

    def begin(self, name: str, phase: str) -> None:
        """An optimizer's step or the loading of a batch begins."""
        if self._state in ("warmup", "record"):
            self._collector.begin(name, phase)

    def end(self, name: str, phase: str) -> None:
        """It has ended."""
        if self._state in ("warmup", "record"):
            self._collector.end(name, phase)

    def __getattr__(self, name: str) -> Any:
        """What the ledger answers, once there is one."""
        if name.startswith("_"):
            raise AttributeError(name)
        if self.ledger is None:
            raise UsageError(f"{name}: there is no ledger before its block has ended")
        return getattr(self.ledger, name)


def _collector(level: Level, folder: Path | None) -> _Collector:
    if level == "module":
        import torch

        from irene.account.live.module_level import ModuleLevel

        if torch.cuda.is_available() and torch.cuda.is_initialized():
            raise UsageError(
                "level='module' sees when the host ran, not the GPU: use level='op'"
            )
        return ModuleLevel()
    from irene.account.live.op_level import OpLevel

    return OpLevel(None if folder is None else folder / "trace.json")


def _check_meters(meters: Sequence[str] | Sequence[Meter]) -> None:
    if len({isinstance(meter, str) for meter in meters}) != 1:
        raise UsageError("meters are either all names or all open meters, at least one")


def _sampler(
    meters: Sequence[str] | Sequence[Meter], period_s: float, path: Path
) -> Sampler | SamplerProcess:
    """In a process of its own for meters by name, in a thread for open ones."""
    names = [meter for meter in meters if isinstance(meter, str)]
    if names:
        return SamplerProcess(names, period_s, path, pid=os.getpid())
    opened = [meter for meter in meters if not isinstance(meter, str)]
    return Sampler(opened, period_s, path)
