"""The phases of a run: what is called, and which part of it is recorded."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from irene.errors import SpecError, TraceError
from irene.spec import RunSpec
from irene.trace.costs.call import tensors_in
from irene.trace.recorder import Recorder
from irene.trace.values import carrying_values, give_value


@dataclass(frozen=True, slots=True)
class Run:
    """A model, its inputs, and who writes down what it does.

    Attributes:
        model: The model, on any device; it is left as it is.
        recorder: Writes down the tree.
        args: Positional inputs.
        kwargs: Inputs by name; a phase adds to them.
        spec: Sizes and phase.
        weights: By name, what to run on in place of the model's own weights.
    """

    model: nn.Module
    recorder: Recorder
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    spec: RunSpec
    weights: dict[str, torch.Tensor]

    def call(self, kwargs: dict[str, Any]) -> Any:
        """Call the model."""
        if not self.weights:
            return self.model(*self.args, **kwargs)
        return functional_call(self.model, self.weights, self.args, kwargs)

    def recorded(self) -> Any:
        """Call the model under the recorder."""
        with self.recorder.watching():
            return self.call(self.kwargs)

    def parameters(self) -> list[torch.Tensor]:
        """The parameters that take part in the run and want a gradient."""
        found = dict(self.model.named_parameters()) | self.weights
        return [tensor for tensor in found.values() if tensor.requires_grad]

    def accepts(self, name: str) -> bool:
        """Whether the model's forward has an argument of that name."""
        return name in inspect.signature(self.model.forward).parameters

    def without_cache(self) -> None:
        """Ask for no KV cache."""
        if self.accepts("use_cache"):
            self.kwargs.setdefault("use_cache", False)

    def for_generation(self, kwargs: dict[str, Any]) -> None:
        """Ask for a KV cache, and for no more logits than generation needs."""
        if not self.accepts("use_cache"):
            raise self.no_cache()
        kwargs["use_cache"] = True
        if self.accepts("logits_to_keep"):
            kwargs["logits_to_keep"] = 1

    def no_cache(self) -> SpecError:
        """The error of a model that has no such phase."""
        name = type(self.model).__name__
        return SpecError(f"{name} has no KV cache: use phase 'forward' or 'train'")

    def token_input(self, kwargs: Mapping[str, Any]) -> str:
        """Name of the input that grows token by token."""
        for key in ("decoder_input_ids", "input_ids"):
            if key in kwargs:
                return key
        raise self.no_cache()

    def cache_of(self, out: Any) -> Any:
        """The KV cache that the model returned; an encoder returns none."""
        for name in ("past_key_values", "cache_params"):
            cache = getattr(out, name, None)
            if cache is not None:
                return cache
        raise self.no_cache()


def meta_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Meta copies of weights that are on another device; none for a meta model."""
    if all(p.device.type == "meta" for p in model.parameters()):
        return {}
    copies = {}
    for name, parameter in model.named_parameters():
        copies[name] = _meta_copy(parameter).requires_grad_(parameter.requires_grad)
    for name, buffer in model.named_buffers():
        copies[name] = give_value(buffer)
    return copies


def _meta_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without content; one made of others, as torchao's, of such ones."""
    if not hasattr(tensor, "__tensor_flatten__"):
        return torch.empty_like(tensor, device="meta")
    whole: Any = tensor
    names, context = whole.__tensor_flatten__()
    inner = {
        name: None if getattr(whole, name) is None else _meta_copy(getattr(whole, name))
        for name in names
    }
    made: torch.Tensor = whole.__tensor_unflatten__(
        inner, context, whole.size(), whole.stride()
    )
    return made


def _forward(run: Run) -> None:
    """One pass without a cache."""
    run.without_cache()
    with torch.no_grad():
        run.recorded()


LAYERDROP = "layerdrop"
"""How modules and configs call the chance that a step of training skips a layer."""


@contextmanager
def without_chance(model: nn.Module) -> Iterator[tuple[str, ...]]:
    """Within it every step of training is the same; gives notes of what it would skip.

    No layer is skipped, and what is masked at random is always the same.
    """
    if not model.training:
        yield ()
        return
    modules = [*model.modules()]
    owners: list[Any] = [*modules, *(getattr(m, "config", None) for m in modules)]
    chances = {
        (id(owner), name): (owner, name, value)
        for owner in owners
        for name, value in getattr(owner, "__dict__", {}).items()
        if name.endswith(LAYERDROP) and isinstance(value, int | float) and value > 0
    }
    for owner, name, _ in chances.values():
        setattr(owner, name, 0.0)
    try:
        with _random_numbers_alike():
            most = max((value for _, _, value in chances.values()), default=0)
            note = f"all layers run; a step skips up to {most:.0%} of some"
            yield (note,) if chances else ()
    finally:
        for owner, name, value in chances.values():
            setattr(owner, name, value)


@contextmanager
def _random_numbers_alike() -> Iterator[None]:
    """Within it they are always the same; after it they go on as if none were drawn."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def _train(run: Run) -> None:
    """Forward, then backward from the outputs; the loss itself is not part of it."""
    run.without_cache()
    gradients = run.recorder.gradients
    gradients.enabled = True
    with torch.enable_grad(), run.recorder.watching():
        outputs = tensors_in((run.call(run.kwargs),))
        outputs = [tensor for tensor in outputs if tensor.requires_grad]
        if not outputs:
            raise TraceError("no output needs a gradient: there is nothing to train")
        seeds = [torch.ones_like(tensor) for tensor in outputs]
        gradients.running = True
        wanted = run.parameters()
        torch.autograd.grad(outputs, wanted, seeds, allow_unused=True)
    gradients.attach()


def _prefill(run: Run) -> None:
    """Read the prompt into a KV cache; only the last token's logits are needed."""
    with torch.no_grad():
        run.kwargs.update(_continued(run, run.spec.context_len or 0))
        run.for_generation(run.kwargs)
        run.cache_of(run.recorded())


def _decode(run: Run) -> None:
    """One new token per sequence against a filled KV cache."""
    with torch.no_grad():
        run.kwargs.update(_continued(run, run.spec.context_len or 0))
        key = run.token_input(run.kwargs)
        run.kwargs[key] = run.kwargs[key][:, :1]
        run.for_generation(run.kwargs)
        run.cache_of(run.recorded())


def _continued(run: Run, length: int) -> dict[str, Any]:
    """Inputs that go on after `length` tokens; reading those is not recorded."""
    if not length:
        return {}
    before = dict(run.kwargs)
    run.for_generation(before)
    key = run.token_input(before)
    ids = before[key]
    before[key] = ids.repeat(1, -(-length // ids.shape[1]))[:, :length]
    with carrying_values():  # ops whose shapes on meta need a rule have one there
        out = run.call(before)
    name = "past_key_values" if run.accepts("past_key_values") else "cache_params"
    inputs = {name: run.cache_of(out)}
    if key == "decoder_input_ids":
        inputs["encoder_outputs"] = (out.encoder_last_hidden_state,)
    return inputs


PHASES: dict[str, Callable[[Run], None]] = {
    "forward": _forward,
    "train": _train,
    "prefill": _prefill,
    "decode": _decode,
}
"""How to run and record each phase."""
