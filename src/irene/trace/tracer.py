"""trace(): a model and a size in, a ModelTree with costs out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack, get_args

import torch
import transformers
from torch import nn
from torch.jit._fuser import optimized_execution
from torch.utils._pytree import tree_map_only
from transformers import PretrainedConfig

from irene.errors import (
    IreneError,
    NoAttentionError,
    SpecError,
    TraceError,
    UsageError,
)
from irene.spec import Attention, DType, RunOptions, RunSpec, shows_run_options
from irene.trace.captor import Captor
from irene.trace.costs.call import dtype_name, tensors_in
from irene.trace.inputs import make_inputs
from irene.trace.limits import Limits, checked_run
from irene.trace.model_files import onnx_path
from irene.trace.models import Resolved, build, resolve
from irene.trace.onnx_graph import trace_onnx
from irene.trace.phases import PHASES, Run, meta_weights, without_chance
from irene.trace.pipelines import counted, models_in, rehearsed
from irene.trace.positions import reach_of
from irene.trace.recorder import Recorder
from irene.trace.sources import short
from irene.trace.values import DataDependentError, give_value
from irene.trace.wrapped import inputs_of_module, module_of, quantized_as_run
from irene.tree import ModelTree

SMALL_ENOUGH_TO_RUN = 500_000_000
"""Parameters up to which a model that looks at its data is run for real instead."""
WRONG_DTYPE = ("same dtype", "expected scalar type", "Unsupported dtype")
"""Words of torch where an op does not take the dtypes it is given."""


@shows_run_options
def trace(
    model: str | Path | PretrainedConfig | nn.Module,
    inputs: Mapping[str, Any] | tuple[Any, ...] | torch.Tensor | None = None,
    *,
    device: str = "meta",
    limits: Limits | None = None,
    **run: Unpack[RunOptions],
) -> ModelTree:
    """Trace a model into a tree of modules, ML primitives and math ops with costs.

    Args:
        model: Catalogue name, Hugging Face id, path of a config.json, transformers
            config, any nn.Module, or a pipeline of transformers or diffusers.
        inputs: For an nn.Module: its inputs, as keyword arguments, a tuple or a single
            tensor. A transformers model may do without, and gets inputs of the size
            asked for. For a pipeline of diffusers: what it is called with, by name.
        device: `meta` for shapes alone, whatever device an nn.Module is on; `cpu` or
            `cuda` runs the model for real.
        limits: What is refused; by default `DEFAULT_LIMITS`.
        **run: How it is run: `batch_size`, `seq_len`, `dtype`, `attention`, `phase`, …,
            the fields of `RunSpec`. An nn.Module has its own dtype and attention, its
            inputs their own sizes.

    Returns:
        The tree, unfolded, down to math ops.

    Raises:
        UsageError: The model is unknown, its config is bad, a size is impossible, or
            the model's own code fails. The message says which.
    """
    if models_in(model):
        played = rehearsed(model, inputs, run.get("batch_size") or 1)
        tree = trace_module(played, (), run, device=device, limits=limits)
        return counted(tree, played.counts)
    found: Any = module_of(model)
    if isinstance(found, nn.Module):
        return trace_module(found, inputs, run, device=device, limits=limits)
    spec = RunSpec.asked(name_of(found), run)
    return trace_spec(spec, limits=limits, source=found, device=device)


def name_of(model: object) -> str:
    """What to call a model until its config says more.

    Raises:
        UsageError: It is nothing that could be a model.
    """
    if isinstance(model, str | Path):
        return str(model)
    if isinstance(model, nn.Module):
        return type(model).__name__
    if not isinstance(model, PretrainedConfig):
        raise UsageError(
            "a model is a name, the path of a config.json, a transformers config, an "
            f"nn.Module or a tree, got {type(model).__name__}"
        )
    return str(model.model_type)


def trace_spec(
    spec: RunSpec,
    *,
    limits: Limits | None = None,
    source: str | Path | PretrainedConfig | None = None,
    device: str = "meta",
) -> ModelTree:
    """Trace the run that a spec describes."""
    limits = checked_run(spec, limits)
    if (path := onnx_path(spec.model if source is None else source)) is not None:
        return trace_onnx(path, spec)
    resolved = resolve(
        source if source is not None else spec.model, limits, spec.model_class
    )
    spec = replace(spec, model=resolved.name, config_digest=resolved.digest)
    try:
        return _build_and_trace(resolved, spec, device, ())
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
    try:
        model = build(resolved, spec, device)
    except NoAttentionError:
        if spec.given("attention"):
            raise
        spec = spec.chosen_as(attention="eager")
        model = build(resolved, spec, device)
    return trace_built(model, resolved, spec, device, notes)


def trace_built(
    model: nn.Module,
    resolved: Resolved,
    spec: RunSpec,
    device: str = "meta",
    notes: tuple[str, ...] = (),
) -> ModelTree:
    """Trace a model that was built from a config, with inputs of the size asked for."""
    reach = reach_of(model)
    spec = reach.fit(spec)
    notes += reach.notes(spec)
    provenance = {"config": resolved.origin, "device": device}
    inputs = make_inputs(model, spec, device)
    return run_recorded(model, inputs, spec, provenance, notes + inputs.notes, device)


def trace_module(
    model: nn.Module,
    inputs: Any,
    run: Mapping[str, Any],
    *,
    device: str = "meta",
    limits: Limits | None = None,
) -> ModelTree:
    """Trace a model that is there, on meta copies of its weights or as it is.

    Options of the run are by the names of the fields of `RunSpec`.
    """
    spec = spec_of_module(model, inputs, run)
    checked_run(spec, limits)
    notes: tuple[str, ...] = ()
    home = next((p.device.type for p in model.parameters()), "cpu")
    if inputs is None:
        made = inputs_of_module(model, spec, home)
        inputs, notes = made, made.notes
    was_training = model.training
    model.train(spec.phase == "train")
    try:
        return run_recorded(model, inputs, spec, {"device": device}, notes, device)
    except _NeedsDataError as error:
        if home == "meta":
            raise TraceError(str(error), error.path) from error
        note = f"run for real on its own device, as it looks at its data: {error}"
        notes = (note, *notes)
        return run_recorded(model, inputs, spec, {"device": home}, notes, home)
    finally:
        model.train(was_training)


def spec_of_module(model: nn.Module, inputs: Any, run: Mapping[str, Any]) -> RunSpec:
    """The run of a model that is there: its own dtype, the sizes of its inputs.

    Raises:
        SpecError: Something else was given.
    """
    spec = RunSpec.asked(name_of(model), run)
    own: dict[str, Any] = {}
    dtypes = [dtype_name(p.dtype) for p in model.parameters()]
    known = [name for name in dtypes if name in get_args(DType)]
    own["dtype"] = known[0] if known else "fp32"
    chosen = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if chosen in get_args(Attention):
        own["attention"] = chosen
    given = tensors_in(_flat(inputs))
    if given and given[0].dim() > 0:
        own["batch_size"] = max(given[0].shape[0], 1)
        if _is_tokens(given[0]):
            own["seq_len"] = max(given[0].shape[1], 1)
    for name, value in own.items():
        if spec.given(name) and getattr(spec, name) != value:
            raise SpecError(
                f"{name}={getattr(spec, name)} was given, but this {spec.model} "
                f"has {value}: leave {name} out, or change the model or its inputs"
            )
    made = spec.changed(**own)
    return made if made.given("seq_len") else made.chosen_as(seq_len=1)


def _is_tokens(given: torch.Tensor) -> bool:
    """Rows of ids, or of vectors; not images, nor rows of features."""
    return given.dim() == 3 or (given.dim() == 2 and not given.is_floating_point())


def _flat(inputs: Any) -> tuple[Any, ...]:
    args, kwargs = _arguments(inputs)
    return (*args, *kwargs.values())


def run_recorded(
    model: nn.Module,
    inputs: Any,
    spec: RunSpec,
    provenance: dict[str, str],
    notes: tuple[str, ...],
    device: str,
    captor: Captor | None = None,
) -> ModelTree:
    """Run one phase of a model under a recorder.

    Returns:
        The tree, unfolded. Its rows are in the order of the builder that the captor
        has seen.

    Raises:
        TraceError: The model's own code failed.
    """
    args, kwargs = _arguments(inputs)
    weights: dict[str, torch.Tensor] = {}
    if device == "meta":
        args, kwargs = tree_map_only(torch.Tensor, give_value, (args, kwargs))
        weights = meta_weights(model)
    recorder = Recorder(model, captor)
    _forget_runs_before(model)
    try:
        with (
            optimized_execution(False),  # a scripted function that ran is rewritten
            quantized_as_run(model, weights) if weights else nullcontext(()) as told,
            without_chance(model) as of_layers,
        ):
            PHASES[spec.phase](Run(model, recorder, args, kwargs, spec, weights))
        notes += told + of_layers
    except IreneError:
        raise
    except Exception as error:
        raise _explain(error, model, spec, device, recorder.running) from error
    provenance |= {
        "class": type(model).__name__,
        "torch": str(torch.__version__),  # it is of a class of torch's own
        "transformers": transformers.__version__,
    }
    notes += tuple(recorder.notes())
    return recorder.builder.build(
        spec=spec, provenance=provenance, notes=notes, unsupported=recorder.unsupported
    )


def _forget_runs_before(model: nn.Module) -> None:
    """Clear what classes remember: a trace is the same whatever was traced before."""
    classes = {type(module) for module in model.modules()}
    owners = {sys.modules[each.__module__] for each in classes}
    for owner in classes | owners:
        for attribute in vars(owner).values():
            if isinstance(attribute, torch.jit.ScriptFunction):
                attribute._debug_flush_compilation_cache()  # type: ignore[attr-defined]
            function = getattr(attribute, "__func__", attribute)
            if (
                owner in owners
                and getattr(function, "__module__", "") != owner.__name__
            ):
                continue  # what it imports is no memory of runs
            cells = getattr(function, "__closure__", None) or ()
            for held in (function, *(cell.cell_contents for cell in cells)):
                if hasattr(held, "cache_clear"):
                    held.cache_clear()


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, tuple | list):
        return tuple(inputs), {}
    return (inputs,), {}


def _explain(
    error: Exception, model: nn.Module, spec: RunSpec, device: str, path: str
) -> Exception:
    """The model's own error, short, with the module it happened in."""
    where = f"in {path}" if path else "in the model's forward"
    if device == "meta" and _asks_for_data(error):
        params = sum(p.numel() for p in model.parameters())
        return _NeedsDataError(f"{short(error)} ({where})", path, params)
    name = type(model).__name__
    message = f"{name} failed {where}: {short(error)}"
    if spec.dtype != "fp32" and any(words in str(error) for words in WRONG_DTYPE):
        message = (
            f"{name} of transformers {transformers.__version__} does not run in "
            f"{spec.dtype}, {where}: {short(error)}; use dtype fp32 (--dtype fp32)"
        )
    return TraceError(message, path)


def _asks_for_data(error: Exception) -> bool:
    words = ("meta", "data-dependent", "Meta")
    return isinstance(error, DataDependentError | NotImplementedError) or any(
        word in str(error) for word in words
    )
