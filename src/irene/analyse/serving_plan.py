"""How to serve a model: every batch, parallelism, precision and GPU, and the cheapest.

A serving counts where weights and cache lie in the memory of its GPUs and tokens come
as quickly as was asked; the cheapest takes the fewest joules per output token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, ClassVar

from irene.analyse.subject import LeftOut, Progress
from irene.errors import UsageError
from irene.plain import Document
from irene.predict.api import predict_run
from irene.predict.machines.finding import find_machine
from irene.presented import Drawn
from irene.spec import RunSpec
from irene.tree import ModelTree
from irene.tree.generation import generation_of
from irene.tree.headline import is_warning

MOST_OPTIONS = 2_000
USUAL: Mapping[str, tuple[Any, ...]] = {
    "batch_size": tuple(2**i for i in range(11)),
    "tensor_parallel": (1, 2, 4, 8),
}
"""What is tried where nobody says."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How quick a serving has to be; None: any."""

    between_s: float | None = None
    first_s: float | None = None

    def met(self, between_s: float, first_s: float) -> bool:
        """Whether times keep to it."""
        limits = ((self.between_s, between_s), (self.first_s, first_s))
        return all(most is None or time_s <= most for most, time_s in limits)


@dataclass(frozen=True, slots=True)
class ServingOption:
    """One way to serve a model.

    Attributes:
        on: Machine.
        gpus: How many GPUs.
        batch_size: Streams at a time.
        settings: What else was tried, by name of the field.
        j_per_output_token: J, of all GPUs.
        low_j: Lower end of its interval, J.
        high_j: Upper end, J.
        j_per_request: J.
        watts: Of all GPUs, W.
        tbt_s: Time between two tokens of a stream, s.
        tbt_low_s: Lower end of its interval, s.
        tbt_high_s: Upper end, s.
        ttft_s: Time to the first token, without a queue, s.
        output_tokens_per_s: Of all streams.
        memory_share: Weights and cache by what of the memory there is for them.
        meets: Whether it is quick enough, as predicted.
        surely_meets: Whether it is at the slow end of its interval, too.
        on_front: Whether none is both cheaper and quicker.
        notes: Its engine, and warnings of the prediction.
    """

    on: str
    gpus: int
    batch_size: int
    settings: Mapping[str, Any]
    j_per_output_token: float
    low_j: float
    high_j: float
    j_per_request: float
    watts: float
    tbt_s: float
    tbt_low_s: float
    tbt_high_s: float
    ttft_s: float
    output_tokens_per_s: float
    memory_share: float
    meets: bool
    surely_meets: bool
    on_front: bool = False
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """GPUs and settings in words, without the batch."""
        many = f"{self.gpus} × {self.on}"
        told = (
            f"{name.replace('_', ' ')} {value}"
            for name, value in self.settings.items()
            if name != "tensor_parallel" and value is not None
        )
        return ", ".join((many, *told))


@dataclass(frozen=True, slots=True, repr=False)
class ServingPlan(Drawn, Document):
    """All ways that fit into memory, the cheapest first, and the best quick enough."""

    model: str
    run: Mapping[str, Any]
    limit: Latency
    options: tuple[ServingOption, ...]
    best: ServingOption | None
    left_out: tuple[LeftOut, ...]

    schema: ClassVar = "irene.serving_plan/1"

    def table(self) -> list[dict[str, Any]]:
        """Every way, one flat row each."""
        rows = []
        for each in self.options:
            fields = asdict(each)
            settings, notes = fields.pop("settings"), fields.pop("notes")
            is_best = each == self.best
            rows.append(
                fields | settings | {"is_best": is_best, "notes": "; ".join(notes)}
            )
        return rows


def plan_serving(
    run: RunSpec,
    machines: Sequence[str],
    choices: Mapping[str, Sequence[Any]],
    limit: Latency,
    progress: Progress | None = None,
) -> ServingPlan:
    """Predict all ways to serve a model, and choose the cheapest."""
    choices = {**USUAL, **choices}
    batches = sorted(choices["batch_size"])
    names = [name for name in choices if name != "batch_size"]
    ways = list(product(machines, *(choices[name] for name in names)))
    if len(ways) * len(batches) > MOST_OPTIONS:
        raise UsageError(
            f"{len(ways) * len(batches):,} ways, at most {MOST_OPTIONS:,}: choose fewer"
        )
    options: list[ServingOption] = []
    left_out: list[LeftOut] = []
    for done, (on, *values) in enumerate(ways):
        settings = dict(zip(names, values, strict=True))
        if progress:
            progress(done, len(ways), f"{on}, {_told(settings)}")
        found, problem = _curve(run.changed(**settings), on, settings, batches, limit)
        options += found
        if problem:
            left_out.append(LeftOut(f"{on}, {_told(settings)}", problem))
    if not options:
        raise UsageError(f"nothing can serve {run.model}: {left_out[0].problem}")
    options = _with_front(sorted(options, key=lambda each: each.j_per_output_token))
    best = next((each for each in options if each.meets), None)
    told = {
        name: getattr(run, name)
        for name in ("prompt_len", "output_len", "context_len", "cache_dtype")
        if getattr(run, name) is not None
    }
    if chosen := [name for name in told if name in run.chosen]:
        told["chosen"] = chosen
    return ServingPlan(run.model, told, limit, tuple(options), best, tuple(left_out))


def _told(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value}" for name, value in settings.items() if value is not None
    )


def _curve(
    run: RunSpec,
    on: str,
    settings: Mapping[str, Any],
    batches: Sequence[int],
    limit: Latency,
) -> tuple[list[ServingOption], str]:
    """Batches that fit into memory, and why the rest, or all, cannot be run."""
    machine = find_machine(on)
    found: list[ServingOption] = []
    for batch in batches:
        try:
            tree = predict_run(run.changed(batch_size=batch), machine)
        except UsageError as error:
            return found, str(error)
        share = tree.root.features.get("memory_share", 0.0)
        if share > 1.0:
            why = next(n for n in tree.notes if "do not fit" in n)
            return found, why.removeprefix("warning: ") if batch == batches[0] else ""
        found.append(_option(tree, on, settings, share, limit))
    return found, ""


def _option(
    tree: ModelTree,
    on: str,
    settings: Mapping[str, Any],
    memory_share: float,
    limit: Latency,
) -> ServingOption:
    spec, found = tree.spec, generation_of(tree)
    if spec is None or found is None:
        raise UsageError(f"{on} serves no language models: use h100, h200, b200, …")
    token, between, first = found.j_per_output_token, found.tbt_s, found.ttft_s
    return ServingOption(
        on, spec.gpus, spec.batch_size, dict(settings), token.value, token.low,
        token.high, found.j_per_request.value, found.j_per_second.value, between.value,
        between.low, between.high, first.value, found.output_tokens_per_s,
        memory_share, limit.met(between.value, first.value),
        limit.met(between.high, first.high), False,
        tuple(n for n in tree.notes if is_warning(n) or n.startswith("engine: ")),
    )  # fmt: skip


def _with_front(options: Sequence[ServingOption]) -> list[ServingOption]:
    """Marks those that none is both cheaper and quicker than; the cheapest first."""
    quickest, found = float("inf"), []
    for each in options:
        found.append(replace(each, on_front=each.tbt_s < quickest))
        quickest = min(quickest, each.tbt_s)
    return found
