"""Levels: what is collected of a running program, modules alone or every op.

Modules alone come from hooks. Forward is what the hooks see. Backward has no module:
autograd walks a graph. The node that made a module's output, or its input, knows in
which module it was made; when the walk reaches such a node, the time from then on is
that module's, until it reaches the next. What is between is exact to one op.

Every op comes from PyTorch's own profiler (Kineto). Modules are marked with record
functions named `mod:PATH`; which forward op a gradient function belongs to, the
profiler knows by sequence number. The trace is read back from the file that the
profiler writes, as any recorded one is.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._C._profiler import _RecordFunctionFast

from irene.account.events import Events, EventsBuilder
from irene.account.live.compiled import CompiledModules
from irene.account.live.hooks import ModuleNames, is_loss
from irene.account.readers.kineto import read_kineto
from irene.errors import FormatError, UsageError
from irene.trace.costs.call import tensors_in

MADE_IN = "irene.made_in"
"""Begin of a key of a graph node's metadata; blocks in blocks have each their own."""
OTHER_PROFILER = (
    "PyTorch has one profiler at a time, and another one {}: leave that out, or use "
    "level='module', which needs none"
)
ROOM_BYTES = 1 << 30
"""Free on a disk that has room for any trace."""


class ModuleLevel:
    """Collects modules; `events` gives what it saw."""

    def __init__(self) -> None:
        self._is_recording = False
        self._done = EventsBuilder()
        self._open: dict[int, list[tuple[str, str, str, int]]] = {}
        self._walks: dict[int, list[tuple[str, str, int]]] = {}

    def begin_recording(self) -> None:
        """Forget what was before, and record from now on."""
        self._is_recording = True
        self._done = EventsBuilder()
        self._open.clear()
        self._walks.clear()

    def end_recording(self) -> None:
        """Close what is still open."""
        self._is_recording = False
        now_ns = time.time_ns()
        for lane, calls in list(self._open.items()):
            while calls:
                self._close(lane, now_ns)

    def enter(self, path: str, module: nn.Module, inputs: Any) -> None:
        """A module's forward begins."""
        if not self._is_recording:
            return
        calls = self._open.setdefault(threading.get_ident(), [])
        if calls:
            around = calls[-1]
            for tensor in tensors_in([inputs]):
                self._tag(tensor, around[0], around[1])
        phase = _phase(module)
        calls.append((path, type(module).__name__, phase, time.time_ns()))

    def leave(self, path: str, module: nn.Module, outputs: Any) -> None:
        """A module's forward has ended."""
        if self._is_recording:
            self._close(threading.get_ident(), time.time_ns())
            for tensor in tensors_in([outputs]):
                self._tag(tensor, path, type(module).__name__)

    def begin(self, name: str, phase: str) -> None:
        """An optimizer's step or the loading of a batch begins."""
        if self._is_recording:
            calls = self._open.setdefault(threading.get_ident(), [])
            calls.append(("", name, phase, time.time_ns()))

    def end(self, name: str, phase: str) -> None:
        """It has ended."""
        if self._is_recording:
            self._close(threading.get_ident(), time.time_ns())

    def _close(self, lane: int, now_ns: int) -> None:
        """The innermost call of a thread has ended."""
        if calls := self._open.get(lane):
            path, op, phase, start_ns = calls.pop()
            self._add(path, op, phase, lane, start_ns, now_ns)

    def _add(
        self, path: str, op: str, phase: str, lane: int, start_ns: int, end_ns: int
    ) -> None:
        self._done.add(op, start_ns, end_ns, scope=path, phase=phase, lane=str(lane))

    def _tag(self, tensor: torch.Tensor, path: str, op: str) -> None:
        node = tensor.grad_fn
        if node is None:
            return
        facts: Any = node.metadata
        key = f"{MADE_IN}.{id(self)}"
        if key in facts:
            return
        facts[key] = path
        node.register_prehook(self._reached(path, op))

    def _reached(self, path: str, op: str) -> Callable[[Any], None]:
        def reached(gradients: Any) -> None:
            now_ns = time.time_ns()
            task = torch._C._current_graph_task_id()
            walk = self._walks.get(task)
            if walk is None:
                walk = self._walks[task] = []
                lane = threading.get_ident()
                engine = torch.autograd.Variable._execution_engine
                engine.queue_callback(lambda: self._walked(task, lane))
            walk.append((path, op, now_ns))

        return reached

    def _walked(self, task: int, lane: int) -> None:
        """A walk through the graph has ended: its stretches are known."""
        now_ns = time.time_ns()
        walk = self._walks.pop(task, [])
        ends = [start_ns for _, _, start_ns in walk[1:]] + [now_ns]
        for (path, op, start_ns), end_ns in zip(walk, ends, strict=True):
            self._add(path, op, "backward", lane, start_ns, end_ns)

    def events(self) -> Events:
        """What ran since recording began."""
        return self._done.build()


def _phase(module: nn.Module) -> str:
    """Forward, also of what checkpointing computes again: that is backward."""
    if torch._C._current_graph_task_id() != -1:
        return "backward"
    return "loss" if is_loss(module) else "forward"


def _all_threads() -> Any:
    """Ops of threads that the program starts, or has started, count as well.

    A torch that cannot do that records the thread of the block, as it always did.
    """
    try:
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return None


@cache
def _let_children_end() -> None:
    """Have processes that are forked from now on end as they would without a profiler.

    At its end a process waits for a thread of Kineto's; a forked one has no such thread
    and would wait for ever. It leaves before that, with the exit code it has.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "on_exit"):  # of glibc; calls what it is given with the code
            leave = partial(libc.on_exit, libc._exit, None)
            os.register_at_fork(after_in_child=leave)


def _with_room() -> str:
    """Where a trace can be for a moment: in memory, where the disk is nearly full."""
    usual, memory = tempfile.gettempdir(), "/dev/shm"
    if shutil.disk_usage(usual).free > ROOM_BYTES or not os.access(memory, os.W_OK):
        return usual
    return max(usual, memory, key=lambda place: shutil.disk_usage(place).free)


class OpLevel:
    """Collects modules and has ops profiled; `events` gives what ran."""

    def __init__(
        self,
        trace: Path | None = None,
        shapes: bool = False,
        names: ModuleNames | None = None,
    ) -> None:
        # Kineto reports its own doings on standard error unless told not to.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self._trace, self._shapes, self._names = trace, shapes, names or ModuleNames()
        self._profile: torch.profiler.profile | None = None
        self._marks: dict[int, list[_RecordFunctionFast]] = {}
        self._events: Events | None = None

    def begin_recording(self) -> None:
        """Start the profiler."""
        if torch.autograd.profiler._is_profiler_enabled:
            raise UsageError(OTHER_PROFILER.format("runs already"))
        _let_children_end()
        activities = [torch.profiler.ProfilerActivity.CPU]
        # Counting devices does not start CUDA: the program may yet choose or fork.
        if torch.cuda.device_count():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(
            activities=activities,
            record_shapes=self._shapes,
            experimental_config=_all_threads(),
        )
        self._profile.start()

    def end_recording(self) -> None:
        """Stop the profiler and read what it wrote."""
        self._marks.clear()
        if self._profile is None:
            return
        profile, self._profile = self._profile, None
        taken = not torch.autograd.profiler._is_profiler_enabled
        profile.stop()
        if taken:
            raise UsageError(OTHER_PROFILER.format("ran inside the block"))
        with tempfile.TemporaryDirectory(prefix="irene-", dir=_with_room()) as folder:
            path = self._trace or Path(folder, "trace.json")
            path.unlink(missing_ok=True)
            # The profiler's own results: its Python events, which nobody needs here,
            # would take ten times as long to make as the file.
            profile.profiler.kineto_results.save(str(path))  # type: ignore[union-attr]
            if not path.exists():
                raise UsageError(
                    f"PyTorch could not write its trace to {path.parent}: is there no "
                    "room? TMPDIR names another place, and level='module' needs none"
                )
            modules = CompiledModules(self._names.known())
            try:
                events = read_kineto(path, self._shapes, modules).events
                self._events = events.noted(*modules.notes)
            except FormatError as error:
                raise UsageError(
                    "nothing was recorded: no op of PyTorch ran while it was"
                ) from error

    def enter(self, path: str, module: nn.Module, inputs: Any) -> None:
        """A module's forward begins."""
        if self._profile is None:
            return
        mark = _RecordFunctionFast(f"mod:{path}")
        mark.__enter__()
        self._marks.setdefault(threading.get_ident(), []).append(mark)

    def leave(self, path: str, module: nn.Module, outputs: Any) -> None:
        """A module's forward has ended."""
        marks = self._marks.get(threading.get_ident())
        if marks:
            marks.pop().__exit__(None, None, None)

    def begin(self, name: str, phase: str) -> None:
        """PyTorch marks optimizers and loaders itself."""

    def end(self, name: str, phase: str) -> None:
        """PyTorch marks optimizers and loaders itself."""

    def events(self) -> Events:
        """What ran while it recorded."""
        assert self._events is not None
        return self._events
