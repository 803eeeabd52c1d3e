"""The phases of a run: what is called, and which part of it is recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from irene.errors import SpecError, TraceError
from irene.spec import RunSpec
from irene.trace.costs.call import tensors_in
from irene.trace.recorder import Recorder

__all__ = ["PHASES"]


def _forward(recorder: Recorder, args: Any, kwargs: Any, spec: RunSpec) -> None:
    """One pass without a cache."""
    _without_cache(recorder.model, kwargs)
    with torch.no_grad(), recorder.watching():
        recorder.run(*args, **kwargs)


def _train(recorder: Recorder, args: Any, kwargs: Any, spec: RunSpec) -> None:
    """Forward, then backward from the outputs; the loss itself is not part of it."""
    _without_cache(recorder.model, kwargs)
    recorder.gradients.enabled = True
    with torch.enable_grad(), recorder.watching():
        outputs = tensors_in((recorder.run(*args, **kwargs),))
        outputs = [tensor for tensor in outputs if tensor.requires_grad]
        if not outputs:
            raise TraceError(
                "no output of the model needs a gradient: nothing to train"
            )
        seeds = [torch.ones_like(tensor) for tensor in outputs]
        recorder.gradients.running = True
        torch.autograd.grad(outputs, recorder.parameters(), seeds, allow_unused=True)
    recorder.gradients.attach()


def _prefill(recorder: Recorder, args: Any, kwargs: Any, spec: RunSpec) -> None:
    """Read the prompt into a KV cache; only the last token's logits are needed."""
    with torch.no_grad():
        kwargs |= _cached(recorder, kwargs, spec.context_len or 0)
        _for_generation(recorder.model, kwargs)
        with recorder.watching():
            out = recorder.run(*args, **kwargs)
        _cache_of(recorder.model, out)


def _decode(recorder: Recorder, args: Any, kwargs: Any, spec: RunSpec) -> None:
    """One new token per sequence against a filled KV cache."""
    with torch.no_grad():
        kwargs |= _cached(recorder, kwargs, spec.context_len or 0)
        key = _token_input(recorder.model, kwargs)
        kwargs[key] = kwargs[key][:, :1]
        _for_generation(recorder.model, kwargs)
        with recorder.watching():
            out = recorder.run(*args, **kwargs)
        _cache_of(recorder.model, out)


PHASES: dict[str, Callable[[Recorder, Any, Any, RunSpec], None]] = {
    "forward": _forward,
    "train": _train,
    "prefill": _prefill,
    "decode": _decode,
}
"""How to run and record each phase."""


def _accepts(model: nn.Module, name: str) -> bool:
    return name in inspect.signature(model.forward).parameters


def _without_cache(model: nn.Module, kwargs: dict[str, Any]) -> None:
    if _accepts(model, "use_cache"):
        kwargs.setdefault("use_cache", False)


def _token_input(model: nn.Module, kwargs: Mapping[str, Any]) -> str:
    for key in ("decoder_input_ids", "input_ids"):
        if key in kwargs:
            return key
    raise SpecError(f"{type(model).__name__} reads no tokens: it has no such phase")


def _for_generation(model: nn.Module, kwargs: dict[str, Any]) -> None:
    if not _accepts(model, "use_cache"):
        raise _no_cache(model)
    kwargs["use_cache"] = True
    if _accepts(model, "logits_to_keep"):
        kwargs["logits_to_keep"] = 1


def _cache_of(model: nn.Module, out: Any) -> Any:
    """The KV cache that a model returned; an encoder returns none."""
    for name in ("past_key_values", "cache_params"):
        cache = getattr(out, name, None)
        if cache is not None:
            return cache
    raise _no_cache(model)


def _no_cache(model: nn.Module) -> SpecError:
    name = type(model).__name__
    return SpecError(f"{name} has no KV cache: use phase 'forward' or 'train'")


def _cached(
    recorder: Recorder, kwargs: Mapping[str, Any], length: int
) -> dict[str, Any]:
    """Arguments that continue after `length` tokens; reading those is not recorded."""
    if not length:
        return {}
    before = dict(kwargs)
    _for_generation(recorder.model, before)
    key = _token_input(recorder.model, before)
    ids = before[key]
    before[key] = ids.repeat(1, -(-length // ids.shape[1]))[:, :length]
    out = recorder.run(**before)
    name = "past_key_values" if _accepts(recorder.model, "past_key_values") else None
    continued = {name or "cache_params": _cache_of(recorder.model, out)}
    if key == "decoder_input_ids":
        continued["encoder_outputs"] = (out.encoder_last_hidden_state,)
    return continued
