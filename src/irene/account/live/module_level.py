"""Module level: when each module's forward and backward ran, from hooks alone.

Forward is what the hooks see. Backward has no module: autograd walks a graph. The node
that made a module's output, or its input, knows in which module it was made; when the
walk reaches such a node, the time from then on is that module's, until it reaches the
next. What is between is exact to one op.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from irene.account.events import Events, EventsBuilder
from irene.account.live.hooks import tensors_in
from irene.account.live.names import is_loss

__all__ = ["ModuleLevel"]

MADE_IN = "irene.made_in"
"""Key of a graph node's metadata."""


class _Stretch(NamedTuple):
    path: str
    op: str
    phase: str
    lane: int
    start_ns: int
    end_ns: int


class ModuleLevel:
    """Observes modules; `events` gives what it saw."""

    def __init__(self) -> None:
        self._done: list[_Stretch] = []
        self._open: dict[int, list[tuple[str, str, str, int]]] = {}
        self._walks: dict[int, list[tuple[str, str, int]]] = {}

    def begin_recording(self) -> None:
        """Forget what was before."""
        self._done.clear()
        self._open.clear()
        self._walks.clear()

    def end_recording(self) -> None:
        """Close what is still open."""
        now_ns = time.time_ns()
        for lane, calls in list(self._open.items()):
            while calls:
                self._close(lane, calls, now_ns)

    def enter(self, path: str, module: nn.Module, inputs: Any) -> None:
        """A module's forward begins."""
        lane = threading.get_ident()
        calls = self._open.setdefault(lane, [])
        if calls:
            around = calls[-1]
            for tensor in tensors_in(inputs):
                self._tag(tensor, around[0], around[1])
        phase = _phase(module)
        calls.append((path, type(module).__name__, phase, time.time_ns()))

    def leave(self, path: str, module: nn.Module, outputs: Any) -> None:
        """A module's forward has ended."""
        now_ns = time.time_ns()
        lane = threading.get_ident()
        calls = self._open.get(lane)
        if calls:
            self._close(lane, calls, now_ns)
        for tensor in tensors_in(outputs):
            self._tag(tensor, path, type(module).__name__)

    def begin(self, name: str, phase: str) -> None:
        """An optimizer's step or the loading of a batch begins."""
        calls = self._open.setdefault(threading.get_ident(), [])
        calls.append(("", name, phase, time.time_ns()))

    def end(self, name: str, phase: str) -> None:
        """It has ended."""
        lane = threading.get_ident()
        calls = self._open.get(lane)
        if calls:
            self._close(lane, calls, time.time_ns())

    def _close(
        self, lane: int, calls: list[tuple[str, str, str, int]], now_ns: int
    ) -> None:
        path, op, phase, start_ns = calls.pop()
        self._done.append(_Stretch(path, op, phase, lane, start_ns, now_ns))

    def _tag(self, tensor: torch.Tensor, path: str, op: str) -> None:
        node = tensor.grad_fn
        if node is None:
            return
        facts: Any = node.metadata
        if MADE_IN in facts:
            return
        facts[MADE_IN] = path
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
            self._done.append(_Stretch(path, op, "backward", lane, start_ns, end_ns))

    def events(self) -> Events:
        """What ran since recording began."""
        builder = EventsBuilder()
        for path, op, phase, lane, start_ns, end_ns in self._done:
            builder.add(
                op,
                start_ns,
                end_ns,
                scope=path,
                phase=phase,
                lane=str(lane),
            )
        return builder.build()


def _phase(module: nn.Module) -> str:
    """Forward, also of what checkpointing computes again: that is backward."""
    if torch._C._current_graph_task_id() != -1:
        return "backward"
    return "loss" if is_loss(module) else "forward"
