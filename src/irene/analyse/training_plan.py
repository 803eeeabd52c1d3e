"""What a training takes before it runs: steps of a data-parallel run, added up.

A step is forward and backward as they are predicted, the recomputed forward of
checkpointing, an AdamW update, and the exchange of gradients. Kernels alone would be
faster than any training that was published: where they are, a step takes the time and
the power that large trainings report. What was never measured widens the interval: at
its low end kernels alone, all exchange behind the backward pass; at its high end
nothing hides, and GPUs reach no more of their peak than the lowest share that was
published, at the limit of their power (`benchmarks/training.py`). A
model that with its gradients and moments does not fit into one GPU is sharded over all
of them: each keeps and updates its part, and weights are gathered for the forward and
again for the backward pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from irene.analyse.costs import JOULES_PER_KWH, CostTerms, Region
from irene.errors import UsageError
from irene.plain import Document
from irene.predict.api import predict_run
from irene.predict.machines.finding import find_machine
from irene.predict.machines.memory_fit import TRAINED_BYTES, USABLE, traced_fit
from irene.presented import Shown
from irene.spec import RunSpec
from irene.tree import ModelTree
from irene.tree.generation import Span
from irene.tree.headline import (
    energy_per_unit,
    energy_source,
    model_name,
    run_words,
    whole_energy,
)

ADAMW_BYTES = 28
"""Read and written per parameter by AdamW in mixed precision: the gradient in 2 bytes,
master weights and two moments in 4 each, all three written back, the weight in 2."""
SMALL_STEP = 0.1
"""Share of the optimiser in a step from which on a reader should know of it."""
BACKWARD = 2 / 3
"""Part of forward and backward that is backward: two products for each of forward."""
USUAL_MFU = 0.41
"""Share of the peak of 16-bit products that the training of Llama 3 405B reached on
8,192 to 16,384 H100, the middle of three (Grattafiori et al. 2024, Table 4)."""
LOWEST_MFU = 0.25
"""Lowest of those that KempnerForge publishes: a 70B on 32 H200."""
USUAL_POWER = 0.91
"""Share of their power limit that GPUs draw on average: 624 and 649 W of 700 in the
trainings of Olmo 3 7B and 32B (146 MWh in 234,000 hours, 681 in 1.05 million)."""
BESIDE_PUBLISHED = (
    "of eleven of these the speed is planned 1.02 times as high in the middle, of "
    "single ones 0.62 to 2.37 times"
)
"""What `python -m benchmarks.training` prints."""
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True, repr=False)
class TrainingPlan(Shown, Document):
    """What a training takes.

    Attributes:
        model: Its name.
        run: Sizes and settings of a step in words.
        energy_source: Where the energy comes from, in words.
        tokens: Tokens in all; inputs of a model that reads none.
        gpus: GPUs that each train on their own part of a batch.
        shards: GPUs that share one copy of the model, its gradients and moments.
        steps: Steps of the optimiser.
        params: Parameters.
        kwh: With the PUE.
        hours: From beginning to end; None where the machine knows no times.
        money: Of the energy and of the hours, in the currency of the prices.
        kg_co2e: kg.
        region: Whose electricity.
        pue: Energy of the building by that of its machines.
        parts: J per step and GPU: `forward_backward`, `recomputed`, `optimiser`,
            `exchange`, and what published trainings take `beyond_kernels`.
        notes: What a reader should know.
    """

    model: str
    run: str
    energy_source: str
    tokens: float
    gpus: int
    shards: int
    steps: int
    params: int
    kwh: Span
    hours: Span | None
    money: Span | None
    kg_co2e: Span
    region: Region
    pue: float
    parts: dict[str, float]
    notes: tuple[str, ...]

    schema: ClassVar = "irene.training_plan/1"


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of one GPU: its energy, J, its time, s, and the parts of its energy."""

    energy: Span
    time: Span | None
    parts: dict[str, float]


def plan_training(
    run: RunSpec,
    on: str,
    tokens: float,
    gpus: int = 1,
    *,
    checkpointing: bool = False,
    terms: CostTerms | None = None,
    price_per_gpu_hour: float | None = None,
) -> TrainingPlan:
    """What it takes to train a model on so many tokens.

    Args:
        run: The model; its batch is that of one GPU.
        on: Machine.
        tokens: Tokens in all.
        gpus: GPUs, each with a copy of the model, or with a part of it where a whole
            copy does not fit.
        checkpointing: Whether the forward pass is computed again in the backward pass.
        terms: Price of a kWh, region and PUE.
        price_per_gpu_hour: Money per GPU and hour.
    """
    terms, machine = terms or CostTerms(), find_machine(on)
    tree = predict_run(run.changed(phase="train"), machine)
    forward = None
    if checkpointing:
        forward = predict_run(run.changed(phase="forward"), machine)
    spec = tree.spec
    assert spec is not None
    if gpus > 1 and getattr(machine, "device", None) is None:
        raise UsageError(f"{on} is no GPU of which {gpus} could train together")
    in_step, step_notes = spec.tokens, []
    if len(energy_per_unit(tree)) == 1:
        in_step = spec.batch_size
        step_notes = ["it reads no tokens: inputs are counted in place of tokens"]
    steps = max(1, -(-int(tokens) // (in_step * gpus)))
    shards, fit_notes = _shards(tree, machine, gpus)
    step = _step(tree, forward, machine, gpus, shards)
    said = _unfit(tree, machine) if shards > 1 else []
    passes = getattr(machine, "passes", None)
    said += [passes.note()] if passes else []
    kwh = step.energy.scaled(steps * gpus * terms.pue / JOULES_PER_KWH)
    hours = step.time.scaled(steps / SECONDS_PER_HOUR) if step.time else None
    return TrainingPlan(
        model_name(tree), run_words(tree), energy_source(tree), tokens, gpus, shards,
        steps, int(tree.root.params), kwh, hours,
        _money(kwh, hours, gpus, terms.price_per_kwh, price_per_gpu_hour),
        kwh.scaled(terms.place.gco2e_per_kwh / 1000), terms.place, terms.pue,
        step.parts,
        (
            *step_notes, *fit_notes, *_notes(step, in_step),
            *(note for note in tree.notes if note not in said),
        ),
    )  # fmt: skip


def _shards(tree: ModelTree, machine: Any, gpus: int) -> tuple[int, list[str]]:
    """GPUs that share a copy of the model, and why."""
    device = getattr(machine, "device", None)
    if device is None:
        return 1, []
    size_bytes, kept_bytes = device.sheet.memory_bytes, TRAINED_BYTES * tree.root.params
    room_bytes = size_bytes * USABLE
    if kept_bytes <= room_bytes:
        copies = f"data parallel on {gpus:,} GPUs, each with a whole copy of the model"
        return 1, [copies] if gpus > 1 else []
    what = (
        f"{kept_bytes / 1e9:,.0f} GB of weights, gradients and moments "
        f"({TRAINED_BYTES} bytes per parameter)"
    )
    one = f"{size_bytes / 1e9:.0f} GB"
    if kept_bytes <= room_bytes * gpus:
        shared = f"{what} do not fit into {one}: they are sharded over {gpus:,} GPUs"
        return gpus, [f"{shared}; activations come on top"]
    least = math.ceil(kept_bytes / room_bytes)
    told = f"the fewest GPUs that hold them, sharded, are --gpus {least:,}"
    return gpus, [f"warning: {what} do not fit into {gpus:,} × {one}: {told}"]


def _unfit(tree: ModelTree, machine: Any) -> list[str]:
    """Why a step does not fit into one GPU, as a note of it says."""
    return traced_fit(tree, machine.device.sheet.memory_bytes, USABLE).notes()


def _step(
    tree: ModelTree, forward: ModelTree | None, machine: Any, gpus: int, shards: int
) -> _Step:
    energy = whole_energy(tree)
    again = forward.energy_of(0) if forward else None
    ends = [
        value + (getattr(again, name) if again else 0.0)
        for name, value in (
            ("joules", energy.joules), ("low", energy.low), ("high", energy.high)
        )
    ]  # fmt: skip
    parts = {
        "forward_backward": energy.joules,
        "recomputed": again.joules if again else 0.0, "optimiser": 0.0, "exchange": 0.0,
        "beyond_kernels": 0.0,
    }  # fmt: skip
    device, seconds = getattr(machine, "device", None), _seconds(tree)
    if device is None or seconds is None:
        return _Step(Span(*ends), None, parts)
    seconds += (_seconds(forward) or 0.0) if forward else 0.0
    # Trainings fuse and overlap what a plain pass does not: kernels by their tables.
    seconds, *ends = (each / machine.passes.time for each in (seconds, *ends))
    parts |= {name: joules / machine.passes.time for name, joules in parts.items()}
    sheet, params = device.sheet, int(tree.root.params)
    power_w = ends[0] / seconds
    update_s = ADAMW_BYTES * params / shards / sheet.hbm_bytes_s
    width = 4 if tree.spec and tree.spec.dtype == "fp32" else 2
    passes = 3 if shards > 1 else 2
    sent = passes * (gpus - 1) / gpus * width * params
    exchange_s = sent / sheet.link_bytes_s
    shown_s = max(0.0, exchange_s - BACKWARD * seconds)
    update_j, shown_j = update_s * power_w, shown_s * sheet.idle_w
    flops = tree.total().flops + (forward.total().flops if forward else 0)
    usual_s, longest_s = (
        flops / (mfu * sheet.flops_s["bf16"]) for mfu in (USUAL_MFU, LOWEST_MFU)
    )
    waits_s = max(0.0, longest_s - seconds)
    kernels_j = ends[0] + update_j + shown_j
    value = max(kernels_j, usual_s * USUAL_POWER * sheet.tdp_w)
    low_s, high_s = seconds + update_s, seconds + update_s + exchange_s + waits_s
    waited_j = (exchange_s + waits_s) * sheet.idle_w
    high = ends[2] * (1 + update_j / ends[0]) + waited_j
    spread = max(ends[2] / ends[0], 1.0)
    time = Span(max(low_s + shown_s, usual_s), low_s / spread, high_s * spread)
    parts |= {
        "optimiser": update_j, "exchange": shown_j, "beyond_kernels": value - kernels_j
    }  # fmt: skip
    low = ends[1] * (1 + update_j / ends[0])
    return _Step(Span(value, low, max(high, high_s * sheet.tdp_w)), time, parts)


def _seconds(tree: ModelTree) -> float | None:
    """Time of a run, s, where the machine knows it."""
    found = tree.features.get("time_s") if tree.features else None
    return None if found is None else float(found[0])


def _money(
    kwh: Span,
    hours: Span | None,
    gpus: int,
    price_per_kwh: float | None,
    per_gpu_hour: float | None,
) -> Span | None:
    if per_gpu_hour is not None and hours is None:
        raise UsageError(
            "a price per GPU hour needs a machine that knows times: h100, …"
        )
    costs = [kwh.scaled(price_per_kwh)] if price_per_kwh is not None else []
    if per_gpu_hour is not None and hours is not None:
        costs.append(hours.scaled(gpus * per_gpu_hour))
    if not costs:
        return None
    return Span(
        *(sum(getattr(c, end) for c in costs) for end in ("value", "low", "high"))
    )


def _what_counts(step: _Step) -> str:
    """What the energy of a step is taken from, and what its interval reaches to."""
    taken = "kernels, AdamW and exchange take longer than in published trainings"
    if step.parts["beyond_kernels"]:
        taken = (
            "kernels alone would be faster than trainings that were published: "
            f"{USUAL_MFU:.0%} of the peak and {USUAL_POWER:.0%} of the power limit are "
            f"taken, as theirs; {BESIDE_PUBLISHED}"
        )
    return (
        f"{taken}; the interval reaches from kernels alone, less what they are unsure "
        f"by, to {LOWEST_MFU:.0%} of the peak at the power limit"
    )


def _notes(step: _Step, tokens: int) -> list[str]:
    told = ["extrapolation: no training was measured on this machine"]
    told += ["the input of data, evaluation, restarts and checkpoints are left out"]
    if step.time is None:
        told.append("AdamW and times are left out: the machine knows no times")
    else:
        told.append(_what_counts(step))
    share = step.parts["optimiser"] / sum(step.parts.values())
    if share > SMALL_STEP:
        told.append(
            f"the optimiser takes {share:.0%}, since a GPU has {tokens:,} tokens per "
            "step: give --batch and --seq as they are trained"
        )
    return told
