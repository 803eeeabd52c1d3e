"""Prepared: a model with its inputs, ready to run again and again.

Weights are not initialised as they would be for training, which takes longer than
running the model: they are filled from one small pool of usual values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from irene.measure.alone.device import check_memory
from irene.spec import RunSpec
from irene.trace.inputs import make_inputs
from irene.trace.limits import limits_from_environment
from irene.trace.models import build, resolve
from irene.trace.phases import PHASES, Run
from irene.trace.positions import fit_positions
from irene.trace.recorder import Recorder
from irene.trace.watchers import WatchFunctions

POOL = 1 << 20
USUAL_STD = 0.02
RANDOM = frozenset({"normal_", "uniform_", "erfinv_", "random_", "bernoulli_"})
"""Initialisers that draw numbers: what they would fill is filled later."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model that can be run again and again.

    Attributes:
        model: The model.
        args: Its inputs by position.
        kwargs: Its inputs by name, with a filled cache where the phase has one.
        spec: What it is a run of.
        restore: Brings a cache back to what it was before a run.
    """

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
        """Call the model as it is."""
        return self.call(self.kwargs)


def prepare(source: Any, spec: RunSpec, device: str) -> Prepared:
    """Build a model from its name or config, and bring it to where a run begins.

    Args:
        source: What `irene.trace` takes, except a module.
        spec: The run: forward, prefill or decode.
        device: Where, as torch names it.

    Raises:
        UsageError: It is unknown, cannot be built, or does not fit.
    """
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
    """Bring a model that is there to where a run begins.

    Args:
        model: With weights.
        kwargs: Its inputs by name.
        spec: The run.
    """
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
