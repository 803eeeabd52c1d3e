"""The time of every op of a run, in the state that the model leaves the caches in.

An op in a loop of its own finds its weights and inputs in the caches; inside a model it
does not. So ops are timed one by one while the model runs, watched by a recorder.
Weights are not initialised as they would be for training, which takes longer than
running the model: they are filled from one small pool of usual values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from irene.arrays import Floats
from irene.measure.alone.target import check_memory
from irene.spec import RunSpec
from irene.trace.captor import Captor
from irene.trace.inputs import make_inputs
from irene.trace.limits import limits_from_environment
from irene.trace.models import build, resolve
from irene.trace.phases import PHASES, Run
from irene.trace.positions import fit_positions
from irene.trace.recorder import Recorder
from irene.trace.watchers import WatchFunctions, WatchMath
from irene.tree import ModelTree, TreeBuilder

POOL = 1 << 20
USUAL_STD = 0.02
RANDOM = frozenset({"normal_", "uniform_", "erfinv_", "random_", "bernoulli_"})
"""Initialisers that draw numbers: what they would fill is filled later."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model that can be run again and again; `restore` brings its cache back."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    spec: RunSpec
    restore: Callable[[], None]

    def run(self) -> None:
        """Run it once."""
        with torch.no_grad():
            self.model(*self.args, **self.kwargs)
        self.restore()


class _Caught(Run):
    """A run whose inputs are kept where it would be recorded."""

    __slots__ = ()

    def recorded(self) -> Any:
        return self.call(self.kwargs)


def prepare(source: Any, spec: RunSpec, device: str) -> Prepared:
    """Build a model from its name or config, and bring it to where a run begins."""
    resolved = resolve(source, limits_from_environment(), spec.model_class)
    spec = replace(spec, model=resolved.name, config_digest=resolved.digest)
    check_memory(build(resolved, spec), resolved.name, device)
    with torch.random.fork_rng(devices=[]), WatchFunctions(_not_random):
        torch.manual_seed(0)
        model = build(resolved, spec, device)
    _fill(model)
    spec = fit_positions(model, spec)
    inputs = make_inputs(model, spec, device)
    return prepare_module(model, dict(inputs), spec)


def prepare_module(model: nn.Module, kwargs: dict[str, Any], spec: RunSpec) -> Prepared:
    """Bring a model that is there to where a run begins."""
    run = _Caught(model, Recorder(model), (), kwargs, spec, {})
    with torch.no_grad():
        PHASES[spec.phase](run)
    cache = run.kwargs.get("past_key_values")
    crop = getattr(cache, "crop", None)
    grown = _grown(cache, spec)
    restore = (lambda: crop(-grown)) if crop is not None and grown else (lambda: None)
    restore()
    return Prepared(model, (), run.kwargs, spec, restore)


def _grown(cache: Any, spec: RunSpec) -> int:
    """How many tokens a run has added to a cache that was filled before it."""
    length = getattr(cache, "get_seq_length", lambda: 0)()
    return max(0, int(length) - (spec.context_len or 0))


def _not_random(func: Any, args: Any, kwargs: Any) -> Any:
    if getattr(func, "__name__", "") in RANDOM:
        return (args[0] if args else kwargs["tensor"]).data.zero_()
    return func(*args, **kwargs)


def _fill(model: nn.Module) -> None:
    """Give matrices usual values, whatever they hold."""
    pool = torch.randn(POOL) * USUAL_STD
    pools: dict[Any, torch.Tensor] = {}
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_floating_point():
                continue
            key = (parameter.device, parameter.dtype)
            values = pools.setdefault(key, pool.to(parameter.device, parameter.dtype))
            flat = parameter.data.view(-1)
            if parameter.dim() < 2 and bool((flat.abs() < 1e4).all()):
                continue
            for begin in range(0, len(flat), POOL):
                part = flat[begin : begin + POOL]
                part.copy_(values[: len(part)])


COST_RUNS = 400


class OpClock:
    """Times what is run."""

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self._wait = wait

    def begin(self) -> Any:
        """The moment before an op."""
        self._wait()
        return time.perf_counter()

    def end(self, begun: Any) -> Any:
        """What tells how long it took, once `seconds` is asked."""
        self._wait()
        return time.perf_counter() - begun

    def seconds(self, taken: Sequence[Any]) -> float:
        """Time of some ops together, s."""
        return float(sum(taken))


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
    """The clock that fits a device."""
    return _EventClock() if device.startswith("cuda") else OpClock(wait)


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
    """Run a model some times: its tree, and the median time of every op, s."""
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
    """What being watched adds to the time of an op, s."""
    captor = _Timing(clock)
    tensor = torch.zeros(8, device=device)
    with torch.no_grad(), WatchMath(captor.run):
        for _ in range(COST_RUNS):
            tensor.view(2, 4)
    return median(clock.seconds([one]) for one in captor._open)
