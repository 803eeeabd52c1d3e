"""Target: a model that can be run, with its inputs, and what it is a run of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig

from irene.errors import UsageError
from irene.measure.alone.capture import Capture, DistinctNode, distinct_nodes
from irene.measure.alone.device import check_memory, choose_device, home_of
from irene.spec import RunOptions, RunSpec
from irene.trace.inputs import make_inputs
from irene.trace.limits import Limits
from irene.trace.models import build, resolve
from irene.trace.positions import fit_positions
from irene.trace.tracer import run_recorded, spec_of_module
from irene.tree import ModelTree

Model = str | Path | PretrainedConfig | nn.Module
SEED = 0
USUAL_STD = 0.02
"""Standard deviation of the weights of most transformers when training begins."""
LARGEST_WEIGHT = 1e4
SMALLEST_NORMAL = 1e-30


@dataclass(frozen=True, slots=True)
class Target:
    """A model with inputs, where it is run; on `meta` it is only looked at."""

    model: nn.Module
    inputs: Any
    spec: RunSpec
    device: str
    provenance: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def capture(self) -> tuple[ModelTree, list[DistinctNode]]:
        """Run it once, watched: its tree down to primitives, and its distinct nodes."""
        capture = Capture()
        tree = run_recorded(
            self.model,
            self.inputs,
            self.spec,
            dict(self.provenance),
            self.notes,
            self.device,
            capture,
        )
        return distinct_nodes(tree, capture)


def _check_run(spec: RunSpec, limits: Limits) -> None:
    """Refuse what cannot be run node by node."""
    if spec.phase == "train":
        raise UsageError(
            "nodes of a backward pass cannot be run alone: measure phase forward, "
            "prefill or decode; `irene account` follows a whole training step"
        )
    spec.refuse_serving("a measurement")
    limits.check_spec(spec)


def named_target(
    source: str | Path | PretrainedConfig,
    spec: RunSpec,
    device: str,
    limits: Limits,
) -> Target:
    """A model from its name or config, with random weights; on `meta` without any."""
    _check_run(spec, limits)
    resolved = resolve(source, limits, spec.model_class)
    spec = replace(spec, model=resolved.name, config_digest=resolved.digest)
    if device != "meta":
        check_memory(build(resolved, spec), resolved.name, device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = build(resolved, spec, device)
        make_sane(model)
        spec = fit_positions(model, spec)
        inputs = make_inputs(model, spec, device)
    provenance = {"config": resolved.origin, "device": device}
    return Target(model, inputs, spec, device, provenance, tuple(inputs.notes))


def own_target(
    model: nn.Module, inputs: Any, run: RunOptions, device: str, limits: Limits
) -> Target:
    """A model that is there already, with its own weights.

    Args:
        model: On a device that runs things.
        inputs: Its inputs; a transformers model may do without.
        run: Fields of the spec.
        device: Must be where the model is; `auto` for that.
        limits: What is refused.
    """
    spec = spec_of_module(model, inputs, run)
    _check_run(spec, limits)
    home = home_of(model)
    if home == "meta":
        raise UsageError("the model is on the meta device: it has no weights to run")
    if device != "auto" and choose_device(device) != choose_device(home):
        raise UsageError(f"the model is on {home}: move it with model.to({device!r})")
    notes: tuple[str, ...] = ()
    if inputs is None:
        if not hasattr(model, "config"):
            raise UsageError(f"{type(model).__name__} needs inputs=")
        inputs = make_inputs(model, spec, home)
        notes = tuple(inputs.notes)
    device = choose_device(home)
    return Target(model, inputs, spec, device, {"device": device}, notes)


def make_sane(model: nn.Module) -> None:
    """Give weights that no initialiser has touched usual values.

    Memory as it was found can hold numbers that are not finite, or so small that a CPU
    takes a hundred times as long for them.
    """
    for parameter in model.parameters():
        if parameter.device.type == "meta" or not parameter.is_floating_point():
            continue
        size = parameter.detach().abs()
        tiny = (size > 0) & (size < SMALLEST_NORMAL)
        if not bool((size < LARGEST_WEIGHT).all()) or bool(tiny.any()):
            nn.init.normal_(parameter, std=USUAL_STD)
