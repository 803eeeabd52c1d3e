"""trace(): a model and a size in, a ModelTree with costs out."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import PretrainedConfig

from irene.errors import IreneError, SpecError, TraceError
from irene.spec import Attention, DType, Phase, RunSpec
from irene.trace.costs.call import tensors_in
from irene.trace.inputs import make_inputs
from irene.trace.limits import Limits, limits_from_environment
from irene.trace.models import Resolved, build, resolve
from irene.trace.positions import check_positions
from irene.trace.recorder import Recorder
from irene.trace.values import DataDependentError
from irene.tree import ModelTree

__all__ = ["trace", "trace_spec"]

SMALL_ENOUGH_TO_RUN = 500_000_000
"""Parameters up to which a model that looks at its data is run for real instead."""


def trace(
    model: str | Path | PretrainedConfig | nn.Module,
    inputs: Mapping[str, Any] | tuple[Any, ...] | torch.Tensor | None = None,
    *,
    batch_size: int = 1,
    seq_len: int = 128,
    decoder_len: int | None = None,
    context_len: int | None = None,
    dtype: DType = "fp32",
    attention: Attention = "eager",
    phase: Phase = "forward",
    model_class: str | None = None,
    device: str = "meta",
    limits: Limits | None = None,
) -> ModelTree:
    """Trace a model into a tree of modules, ML primitives and math ops with costs.

    Args:
        model: Catalogue name, Hugging Face id, path of a config.json, transformers
            config, or any nn.Module.
        inputs: For an nn.Module: its inputs, as keyword arguments, a tuple or a single
            tensor; its own device decides where it runs. A transformers model may do
            without, and gets inputs of the size asked for.
        batch_size: Sequences (images, clips) per run.
        seq_len: Tokens per sequence.
        decoder_len: Tokens of the decoder of an encoder-decoder model.
        context_len: Tokens already in the KV cache (`prefill`, `decode`).
        dtype: Floating-point type of weights and activations.
        attention: Attention implementation.
        phase: `forward`, `prefill`, `decode` or `train`.
        model_class: A class of transformers to build instead of the usual one.
        device: `meta` for shapes alone; `cpu` or `cuda` runs the model for real.
        limits: What is refused; by default `DEFAULT_LIMITS`.

    Returns:
        The tree, unfolded, down to math ops.

    Raises:
        UsageError: The model is unknown, its config is bad, a size is impossible, or
            the model's own code fails. The message says which.
    """
    limits = limits or limits_from_environment()
    sizes: dict[str, Any] = {
        "batch_size": batch_size,
        "seq_len": seq_len,
        "decoder_len": decoder_len,
        "context_len": context_len,
        "dtype": dtype,
        "attention": attention,
        "phase": phase,
    }
    if isinstance(model, nn.Module):
        spec = RunSpec(type(model).__name__, **sizes)
        limits.check_spec(spec)
        return _trace_module(model, inputs, spec)
    spec = RunSpec(str(getattr(model, "model_type", model)), **sizes)
    return trace_spec(
        spec, limits=limits, source=model, model_class=model_class, device=device
    )


def trace_spec(
    spec: RunSpec,
    *,
    limits: Limits,
    source: str | Path | PretrainedConfig | None = None,
    model_class: str | None = None,
    device: str = "meta",
) -> ModelTree:
    """Trace the run that a spec describes.

    Args:
        spec: The run.
        limits: What is refused.
        source: The config, where the spec's model is only its name.
        model_class: A class of transformers to build instead of the usual one.
        device: Where to run.
    """
    limits.check_spec(spec)
    resolved = resolve(
        source if source is not None else spec.model, limits, model_class
    )
    spec = replace(spec, model=resolved.name, config_digest=resolved.digest)
    notes: tuple[str, ...] = ()
    try:
        return _build_and_trace(resolved, spec, device, notes)
    except _NeedsDataError as error:
        if error.params > SMALL_ENOUGH_TO_RUN:
            raise TraceError(
                f"{resolved.name} looks at its data while it runs ({error}), and with "
                f"{error.params:,} parameters it is too large to be run here for that; "
                "on a machine with enough memory use device='cpu' (--device cpu)",
                error.path,
            ) from error
        note = f"run for real on the CPU, as it looks at its data: {error}"
        return _build_and_trace(resolved, spec, "cpu", (note,))


class _NeedsDataError(Exception):
    """The model cannot be traced on the meta device."""

    def __init__(self, message: str, path: str, params: int) -> None:
        super().__init__(message)
        self.path = path
        self.params = params


def _build_and_trace(
    resolved: Resolved, spec: RunSpec, device: str, notes: tuple[str, ...]
) -> ModelTree:
    model = build(resolved, spec, device)
    check_positions(model, spec)
    provenance = {"config": resolved.origin, "device": device}
    return _run(model, make_inputs(model, spec, device), spec, provenance, notes)


def _trace_module(model: nn.Module, inputs: Any, spec: RunSpec) -> ModelTree:
    first = next(model.parameters(), None)
    device = first.device.type if first is not None else "cpu"
    if inputs is None:
        if not hasattr(model, "config"):
            raise SpecError(
                f"{type(model).__name__} is not a transformers model: give its inputs, "
                "irene.trace(model, inputs)"
            )
        inputs = make_inputs(model, spec, device)
    return _run(model, inputs, spec, {"device": device}, ())


def _run(
    model: nn.Module,
    inputs: Any,
    spec: RunSpec,
    provenance: dict[str, str],
    notes: tuple[str, ...],
) -> ModelTree:
    """Run one phase of a model under a recorder."""
    args, kwargs = _arguments(inputs)
    recorder = Recorder(model)
    try:
        _PHASES[spec.phase](recorder, args, kwargs, spec)
    except IreneError:
        raise
    except Exception as error:
        raise _explain(error, recorder) from error
    provenance |= {
        "class": type(model).__name__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    notes += tuple(recorder.notes())
    return recorder.builder.build(
        spec=spec, provenance=provenance, notes=notes, unsupported=recorder.unsupported
    )


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, tuple | list):
        return tuple(inputs), {}
    return (inputs,), {}


def _explain(error: Exception, recorder: Recorder) -> Exception:
    path = recorder.running
    where = f"in {path}" if path else "in the model's forward"
    lines = str(error).strip().splitlines() or [""]
    short = f"{type(error).__name__}: {lines[0]}"[:400]
    on_meta = any(p.device.type == "meta" for p in recorder.model.parameters())
    if on_meta and _asks_for_data(error):
        params = sum(p.numel() for p in recorder.model.parameters())
        return _NeedsDataError(f"{short} ({where})", path, params)
    return TraceError(f"{recorder.model_name} failed {where}: {short}", path)


def _asks_for_data(error: Exception) -> bool:
    words = ("meta", "data-dependent", "Meta")
    return isinstance(error, DataDependentError | NotImplementedError) or any(
        word in str(error) for word in words
    )


# Phases -----------------------------------------------------------------------


def _forward(recorder: Recorder, args: Any, kwargs: Any, spec: RunSpec) -> None:
    if _accepts(recorder.model, "use_cache"):
        kwargs.setdefault("use_cache", False)
    with torch.no_grad(), recorder.watching():
        recorder.model(*args, **kwargs)


def _train(recorder: Recorder, args: Any, kwargs: Any, spec: RunSpec) -> None:
    """Forward, then backward from the outputs; the loss itself is not part of it."""
    if _accepts(recorder.model, "use_cache"):
        kwargs.setdefault("use_cache", False)
    recorder.gradients.enabled = True
    with torch.enable_grad(), recorder.watching():
        outputs = tensors_in((recorder.model(*args, **kwargs),))
        outputs = [t for t in outputs if t.requires_grad]
        if not outputs:
            raise TraceError(
                "no output of the model needs a gradient: nothing to train"
            )
        seeds = [torch.ones_like(t) for t in outputs]
        recorder.gradients.running = True
        torch.autograd.backward(outputs, seeds)
    recorder.gradients.attach()


def _prefill(recorder: Recorder, args: Any, kwargs: Any, spec: RunSpec) -> None:
    """Read the prompt into a KV cache; only the last token's logits are needed."""
    with torch.no_grad():
        if spec.context_len:
            kwargs |= _cached(recorder.model, kwargs, spec.context_len)
        _for_generation(recorder.model, kwargs)
        with recorder.watching():
            out = recorder.model(*args, **kwargs)
        _cache_of(recorder.model, out)


def _decode(recorder: Recorder, args: Any, kwargs: Any, spec: RunSpec) -> None:
    """One new token per sequence against a filled KV cache."""
    with torch.no_grad():
        kwargs |= _cached(recorder.model, kwargs, spec.context_len or 0)
        key = _token_input(recorder.model, kwargs)
        kwargs[key] = kwargs[key][:, :1]
        _for_generation(recorder.model, kwargs)
        with recorder.watching():
            recorder.model(*args, **kwargs)


_PHASES = {
    "forward": _forward,
    "train": _train,
    "prefill": _prefill,
    "decode": _decode,
}


def _accepts(model: nn.Module, name: str) -> bool:
    return name in inspect.signature(model.forward).parameters


def _token_input(model: nn.Module, kwargs: Mapping[str, Any]) -> str:
    for key in ("decoder_input_ids", "input_ids"):
        if key in kwargs:
            return key
    raise SpecError(f"{type(model).__name__} reads no tokens: it has no decode phase")


def _for_generation(model: nn.Module, kwargs: dict[str, Any]) -> None:
    if not _accepts(model, "use_cache"):
        raise _no_cache(model)
    kwargs["use_cache"] = True
    if _accepts(model, "logits_to_keep"):
        kwargs["logits_to_keep"] = 1


def _cache_of(model: nn.Module, out: Any) -> Any:
    """The KV cache that a model returned; an encoder returns none."""
    cache = getattr(out, "past_key_values", None)
    if cache is None:
        raise _no_cache(model)
    return cache


def _no_cache(model: nn.Module) -> SpecError:
    name = type(model).__name__
    return SpecError(f"{name} has no KV cache: use phase 'forward' or 'train'")


def _cached(model: nn.Module, kwargs: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Arguments that continue after `length` tokens were read, which are not traced."""
    before = dict(kwargs)
    _for_generation(model, before)
    if not length:
        return {}
    key = _token_input(model, before)
    ids = before[key]
    repeats = -(-length // ids.shape[1])
    before[key] = ids.repeat(1, repeats)[:, :length]
    out = model(**before)
    continued = {"past_key_values": _cache_of(model, out)}
    if key == "decoder_input_ids":
        state = out.encoder_last_hidden_state
        continued |= {"encoder_outputs": (state,)}
    return continued
