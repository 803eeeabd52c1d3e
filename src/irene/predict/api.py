"""`irene.predict(model)`: a model in, a tree with predicted energy out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from irene.errors import ConfigError, UsageError
from irene.predict.machines.chosen import meant
from irene.predict.machines.finding import Machine, find_machine
from irene.predict.machines.predictor import Predictor
from irene.spec import (
    SERVING_FIELDS,
    SERVING_PHASES,
    RunOptions,
    RunSpec,
    shows_run_options,
)
from irene.trace.serving.tree import served
from irene.trace.sources import Changed
from irene.trace.templates.trees import tree_of_run
from irene.tree import ModelTree

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PretrainedConfig

    from irene.trace.limits import Limits

LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel")


@shows_run_options
def predict(
    model: str | Path | PretrainedConfig | nn.Module | ModelTree,
    inputs: Mapping[str, Any] | tuple[Any, ...] | torch.Tensor | None = None,
    *,
    on: str = "default",
    step_ms: float | None = None,
    device: str = "meta",
    limits: Limits | None = None,
    **run: Unpack[RunOptions],
) -> ModelTree:
    """Predict the energy of every node of a model, without running it.

    Args:
        model: What `irene.trace` takes, or a traced tree.
        inputs: Of an nn.Module, as `irene.trace` takes them.
        on: Name of a machine, or the file of a saved predictor; `default` for the one
            that `irene learn` has learned here, else pc1.
        step_ms: Measured time between two tokens of a stream, ms, of a serving.
        device: Where the model is traced; `meta` for shapes alone.
        limits: What is refused; by default `DEFAULT_LIMITS`.
        **run: How it is run: `batch_size`, `seq_len`, `dtype`, `attention`, `phase`, …;
            on data-centre GPUs also `prompt_len`, `output_len`, `quantization`,
            `cache_dtype` and `tensor_parallel` of a serving. What is left out is chosen
            for the machine.

    Returns:
        The tree, unfolded unless a folded one was given, with energy on every node.

    Raises:
        UsageError: The model or the machine is unknown, or a size is impossible.
    """
    if isinstance(inputs, str):
        raise UsageError(f"inputs are tensors; for a machine write on={inputs!r}")
    if isinstance(model, ModelTree) and (run or inputs is not None):
        raise UsageError("a tree has its run already: give it alone")
    source: Any = model
    is_config = not isinstance(model, ModelTree) and hasattr(model, "to_dict")
    is_named, spec = isinstance(model, str | Path) or is_config, RunSpec()
    if is_named:
        spec = RunSpec.asked(str(getattr(source, "model_type", source)), run)
    spec, on, why = meant(spec, on, device)
    machine, step_s = find_machine(on), None if step_ms is None else step_ms / 1e3
    if isinstance(model, ModelTree):
        tree = _on(machine, model, step_s)
    elif is_named:
        tree = predict_run(
            spec, machine, source=source, step_s=step_s, device=device, limits=limits
        ).unfold()
    else:
        from irene.trace.tracer import trace

        traced = trace(source, inputs, device=device, limits=limits, **run)
        tree = _on(machine, traced, step_s)
    return tree.with_notes(*why)


def predict_run(
    spec: RunSpec,
    machine: Machine,
    *,
    source: str | Path | PretrainedConfig | Changed | None = None,
    step_s: float | None = None,
    device: str = "meta",
    limits: Limits | None = None,
) -> ModelTree:
    """Predict a run on a machine: a serving where it can be one, else what is traced.

    Args:
        spec: The run; what it leaves open is chosen for the machine.
        machine: The machine.
        source: The config, where the spec's model is only its name.
        step_s: Measured time between two tokens of a stream, s.
        device: Where the model is traced.
        limits: What is refused; by default `DEFAULT_LIMITS`.

    Returns:
        The tree, folded, with energy on every node.

    Raises:
        UsageError: The model is unknown, or a size or setting is impossible.
    """
    run = spec.resolved(machine)
    tree, notes = _tree_of(run, machine, source, step_s, device, limits)
    return _on(machine, tree, step_s).with_notes(*notes)


def predict_runs(
    specs: Sequence[RunSpec], machine: Machine
) -> list[ModelTree | Exception]:
    """Predict several runs on a machine, as `predict_run` does each; or say why not.

    A machine that was fitted finds the kernels of all of them together.
    """
    found: dict[int, ModelTree | Exception] = {}
    traced: dict[int, ModelTree] = {}
    for place, spec in enumerate(specs):
        try:
            if isinstance(machine, Predictor):
                traced[place], _ = _tree_of(spec.resolved(machine), machine)
            else:
                found[place] = predict_run(spec, machine)
        except Exception as error:  # noqa: BLE001  whatever it is, it is of this one
            found[place] = error
    if isinstance(machine, Predictor):
        predicted = machine.predict_all(list(traced.values()))
        found |= zip(traced, predicted, strict=True)
    return [found[place] for place in range(len(specs))]


def _tree_of(
    spec: RunSpec,
    machine: Machine,
    source: str | Path | PretrainedConfig | Changed | None = None,
    step_s: float | None = None,
    device: str = "meta",
    limits: Limits | None = None,
) -> tuple[ModelTree, list[str]]:
    """The tree of a resolved run, and what to say of one that no engine could serve."""
    model: Any = spec.model if source is None else source
    why, notes = None, []
    if _can_be_served(spec, machine, device):
        try:
            if isinstance(model, str | Path):
                return served(model, spec, limits), []
            if isinstance(model, Changed):
                return served(model.fields(), spec, limits), []
            name = getattr(model, "_name_or_path", "") or model.model_type
            return served(model.to_dict(), spec.of(name), limits), []
        except ConfigError as error:
            why = str(error)
            notes = [f"extrapolation: traced, not as an engine would serve it: {why}"]
    _refuse_untraced(spec, machine, step_s, why)
    return tree_of_run(spec, limits=limits, source=model, device=device), notes


def _on(machine: Machine, tree: ModelTree, step_s: float | None) -> ModelTree:
    if step_s is None:
        return machine.predict(tree)
    if not machine.serves:
        raise UsageError(
            f"a step time is of a serving on a data-centre GPU, not for "
            f"{machine.hardware.name}"
        )
    return machine.predict(tree, step_s)


def _can_be_served(spec: RunSpec, machine: Machine, device: str) -> bool:
    """Whether an engine would run it; what only a trace can honour is traced."""
    of_a_trace = device != "meta" or spec.given("decoder_len")
    of_a_trace |= spec.given("attention") and spec.attention != "sdpa"
    named = spec.model_class or ""
    of_a_trace |= spec.given("model_class") and not named.endswith(LANGUAGE_MODELS)
    return machine.serves and spec.phase in SERVING_PHASES and not of_a_trace


def _refuse_untraced(
    spec: RunSpec, machine: Machine, step_s: float | None, why: str | None
) -> None:
    """Refuse what only a serving has where there is none."""
    asked = [n for n in SERVING_FIELDS if spec.given(n) and getattr(spec, n) != 1]
    if step_s is not None:
        asked.append("a step time")
    if spec.phase != "generate" and not asked:
        return
    what = "phase generate" if spec.phase == "generate" else asked[0]
    reason = why or (
        f"phase {spec.phase} with these settings is no serving on "
        f"{machine.hardware.name}"
    )
    instead = "phase forward, or prefill or decode of a decoder"
    if spec.phase == "forward":
        instead = "phase prefill, decode or generate of a decoder, or leave it out"
    raise UsageError(
        f"{what} is for language models that an engine can serve: {reason}; ask for "
        f"{instead}"
    )
