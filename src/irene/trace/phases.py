"""The phases of a run: what is called, and which part of it is recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from irene.errors import SpecError, TraceError
from irene.spec import RunSpec
from irene.trace.costs.call import tensors_in
from irene.trace.recorder import Recorder
from irene.trace.runner import ModelRunner

__all__ = ["PHASES", "Run"]


@dataclass(frozen=True, slots=True)
class Run:
    """A model, its inputs, and who writes down what it does.

    Attributes:
        runner: Calls the model.
        recorder: Writes down the tree.
        args: Positional inputs.
        kwargs: Inputs by name; a phase adds to them.
        spec: Sizes and phase.
    """

    runner: ModelRunner
    recorder: Recorder
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    spec: RunSpec

    def recorded(self) -> Any:
        """Call the model under the recorder."""
        with self.recorder.watching():
            return self.runner.run(*self.args, **self.kwargs)

    def accepts(self, name: str) -> bool:
        """Whether the model's forward has an argument of that name."""
        return name in inspect.signature(self.runner.model.forward).parameters

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
        name = type(self.runner.model).__name__
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


def _forward(run: Run) -> None:
    """One pass without a cache."""
    run.without_cache()
    with torch.no_grad():
        run.recorded()


def _train(run: Run) -> None:
    """Forward, then backward from the outputs; the loss itself is not part of it."""
    run.without_cache()
    gradients = run.recorder.gradients
    gradients.enabled = True
    with torch.enable_grad(), run.recorder.watching():
        outputs = tensors_in((run.runner.run(*run.args, **run.kwargs),))
        outputs = [tensor for tensor in outputs if tensor.requires_grad]
        if not outputs:
            raise TraceError("no output needs a gradient: there is nothing to train")
        seeds = [torch.ones_like(tensor) for tensor in outputs]
        gradients.running = True
        wanted = run.runner.parameters()
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
    out = run.runner.run(*run.args, **before)
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
