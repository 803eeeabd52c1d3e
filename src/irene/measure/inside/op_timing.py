"""The time of every op of a run, in the state that the model leaves the caches in.

An op in a loop of its own finds its weights and inputs in the caches; inside a model it
does not. So ops are timed one by one while the model runs, watched by a recorder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from irene.measure.inside.prepared import Prepared
from irene.trace.captor import Captor
from irene.trace.recorder import Recorder
from irene.trace.watchers import WatchMath
from irene.tree import ModelTree, TreeBuilder

Floats = npt.NDArray[np.float64]
COST_RUNS = 400


class OpClock:
    """Times what is run on a CPU, where a call returns when its work is done."""

    def begin(self) -> Any:
        """The moment before an op."""
        return time.perf_counter()

    def end(self, begun: Any) -> Any:
        """What tells how long it took, once `seconds` is asked."""
        return time.perf_counter() - begun

    def seconds(self, taken: Sequence[Any]) -> float:
        """Time of some ops together, s."""
        return float(sum(taken))


class _WaitingClock(OpClock):
    """Waits for the device before and after an op."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait = wait

    def begin(self) -> Any:
        self._wait()
        return time.perf_counter()

    def end(self, begun: Any) -> Any:
        self._wait()
        return time.perf_counter() - begun


class _EventClock(OpClock):
    """CUDA events: the device itself says when it began and ended."""

    def begin(self) -> Any:
        return _recorded()

    def end(self, begun: Any) -> Any:
        return begun, _recorded()

    def seconds(self, taken: Sequence[Any]) -> float:
        for _, end in taken:
            end.synchronize()
        return float(sum(begin.elapsed_time(end) for begin, end in taken)) * 1e-3


def _recorded() -> Any:
    make: Any = torch.cuda.Event
    event = make(enable_timing=True)
    event.record()
    return event


def clock_of(device: str, wait: Callable[[], None]) -> OpClock:
    """The clock that fits a device.

    Args:
        device: As torch names it.
        wait: Waits until it has done all its work.
    """
    if device == "cpu":
        return OpClock()
    return _EventClock() if device.startswith("cuda") else _WaitingClock(wait)


class _Timing(Captor):
    """Keeps the time of every math op by the handle of its node."""

    def __init__(self, clock: OpClock) -> None:
        self._clock = clock
        self._open: list[Any] = []
        self._taken: dict[int, list[Any]] = {}

    def run(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        begun = self._clock.begin()
        out = func(*args, **kwargs)
        self._open.append(self._clock.end(begun))
        return out

    def math(
        self, handle: int, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self._taken[handle], self._open = self._open, []

    def leave(self, handle: int, builder: TreeBuilder) -> None:
        children = builder.rows[handle].children
        if self._open and children:  # a formula stands for all that ran inside
            self._taken[children[-1]], self._open = self._open, []

    def seconds(self, rows: int) -> Floats:
        """Time of every row, s; 0 for rows that are no math ops."""
        taken = np.zeros(rows)
        for handle, each in self._taken.items():
            taken[handle] = self._clock.seconds(each)
        return taken


def timed_ops(
    target: Prepared, passes: int, clock: OpClock, before: Callable[[], None]
) -> tuple[ModelTree, Floats]:
    """Run a model some times, and time every op of it.

    Args:
        target: The model.
        passes: How often it is run.
        clock: Fits the device.
        before: Is called before every run: to clear the caches, or not.

    Returns:
        Its tree, and the median time of every row, s; 0 for what is no math op. Rows
        are those of the tree.
    """
    every: list[Floats] = []
    for _ in range(passes):
        captor = _Timing(clock)
        recorder = Recorder(target.model, captor)
        before()
        with torch.no_grad(), recorder.watching():
            target.model(*target.args, **target.kwargs)
        target.restore()
        every.append(captor.seconds(len(recorder.builder.rows)))
    tree = recorder.builder.build(spec=target.spec)
    same = [each for each in every if len(each) == len(every[-1])]
    middle: Floats = np.median(same, axis=0)[recorder.builder.order()]
    return tree, middle


def watching_cost_s(device: str, clock: OpClock) -> float:
    """What being watched adds to the time of an op, s.

    Args:
        device: As torch names it.
        clock: Fits it.
    """
    captor = _Timing(clock)
    tensor = torch.zeros(8, device=device)
    with torch.no_grad(), WatchMath(captor.run):
        for _ in range(COST_RUNS):
            tensor.view(2, 4)
    return median(clock.seconds([one]) for one in captor._open)
