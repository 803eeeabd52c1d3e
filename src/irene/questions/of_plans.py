"""Questions about plans: how a language model is served, what a training takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from irene.analyse.costs import THE_COST, CostTerms
from irene.analyse.grid import read_values
from irene.analyse.subject import Progress, Subject
from irene.errors import SpecError, UsageError
from irene.parameters import Asked, parameters_of, written
from irene.questions.question import ONE_MODEL, OfModel, On, Question
from irene.spec import RunSpec

if TYPE_CHECKING:
    from irene.analyse.serving_plan import ServingPlan
    from irene.analyse.training_plan import TrainingPlan

VARIED = (
    "batch_size", "tensor_parallel", "expert_parallel", "data_parallel", "quantization",
)  # fmt: skip
"""Fields of a run of which all values are tried."""
NOT_SERVED = ("seq_len", "decoder_len", "attention", "phase", "model_class")
UNITS = {"ms": 1e-3, "s": 1.0}
THE_TRAINING = "the training"
NOT_TRAINED = (
    "phase", "context_len", "prompt_len", "output_len", "quantization", "cache_dtype",
    "tensor_parallel", "expert_parallel", "data_parallel", "engine",
)  # fmt: skip
LARGEST = 1e18


def _time(what: str) -> Asked:
    return Asked(metavar="TIME", longest=30, examples=(what,), group="how quick")


@dataclass(frozen=True, kw_only=True)
class AskServePlan(Question["ServingPlan"]):
    """The cheapest way to serve a model that is quick enough.

    Attributes:
        on: Machines, as `h100,b200`.
        max_latency: Most time between two tokens of a stream, as `50ms`.
        max_first_token: Most time to the first token, as `2s`.
        choices: Values that are tried, by name of the field.
    """

    name: ClassVar[str] = "serve-plan"
    summary: ClassVar[str] = "The cheapest way to serve a model that is quick enough"
    schema: ClassVar[str] = "irene.serving_plan/1"
    is_long: ClassVar[bool] = True
    has_table: ClassVar[bool] = True

    run: RunSpec = field(
        metadata={**ONE_MODEL, "listed": VARIED, "left_out": NOT_SERVED}
    )
    on: Annotated[
        str,
        Asked(also=("hardware",), metavar="LIST", examples=("h100,b200",),
              group="the run"),
    ] = "h100"  # fmt: skip
    max_latency: Annotated[str | None, _time("50ms")] = None
    max_first_token: Annotated[str | None, _time("2s")] = None
    choices: Mapping[str, Sequence[Any]] = field(
        default_factory=dict, metadata={"asked": False}
    )

    def __post_init__(self) -> None:
        """Refuse times that cannot be read."""
        for name in ("max_latency", "max_first_token"):
            _seconds(name, getattr(self, name))

    @classmethod
    def asked(cls, values: Mapping[str, Any]) -> Self:
        """The question that values by name ask; of what is varied, lists."""
        known = {each.name: each for each in parameters_of(RunSpec)}
        given = {k: v for k, v in values.items() if v is not None}
        lists = {name: given.pop(name) for name in VARIED if name in given}
        choices = {
            name: tuple(known[name].check(each) for each in _values(text))
            for name, text in lists.items()
        }
        found = super().asked(given)
        run = found.run.changed(phase="generate")
        return replace(found, run=run, choices=choices)

    def values(self) -> dict[str, Any]:
        """What was given, by name."""
        told = written(self)
        told.pop("phase", None)
        lists = {k: ",".join(map(str, some)) for k, some in self.choices.items()}
        return told | lists

    def _machines(self) -> list[str]:
        names = [name.strip() for name in self.on.split(",") if name.strip()]
        if not names:
            raise UsageError("on names no machine: write h100,b200")
        return list(dict.fromkeys(names))

    def subjects(self) -> Sequence[Subject]:
        """The run on each of the machines."""
        return [Subject(self.run, on) for on in self._machines()]

    def answer(self, progress: Progress | None = None) -> ServingPlan:
        """All ways that fit into memory, and the cheapest that is quick enough."""
        from irene.analyse.serving_plan import Latency, plan_serving

        limit = Latency(
            _seconds("max_latency", self.max_latency),
            _seconds("max_first_token", self.max_first_token),
        )
        return plan_serving(self.run, self._machines(), self.choices, limit, progress)


def _values(given: Any) -> list[Any]:
    """A text such as `1,8,32`, one value, or several."""
    if isinstance(given, str):
        return read_values(given)
    return list(given) if isinstance(given, list | tuple) else [given]


def _seconds(name: str, text: str | None) -> float | None:
    """The time that a text says, s."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|s)\s*", text)
    if not found or float(found[1]) <= 0:
        raise SpecError(f"{name} is a time such as 50ms or 0.05s, got {text!r}")
    return float(found[1]) * UNITS[found[2]]


@dataclass(frozen=True, kw_only=True)
class AskTrainingPlan(OfModel["TrainingPlan"]):
    """What a training takes, before it runs.

    Attributes:
        on: Machine to predict for, or the file of a predictor on this one.
        tokens: Tokens to train on.
        gpus: GPUs that share every batch, each with a copy of the model (or a part,
            where a copy does not fit); the batch size is that of one.
        checkpointing: Whether activations are computed again in the backward pass.
        price_per_gpu_hour: Price of a GPU for an hour, in any currency.
    """

    name: ClassVar[str] = "plan-training"
    summary: ClassVar[str] = "Kilowatt-hours, hours, money and CO₂e of a training"
    schema: ClassVar[str] = "irene.training_plan/1"
    has_notes: ClassVar[bool] = True

    run: RunSpec = field(metadata={**ONE_MODEL, "left_out": NOT_TRAINED})
    on: On = "h100"
    tokens: Annotated[
        float, Asked(least=1, most=LARGEST, metavar="N", group=THE_TRAINING)
    ] = 1e9
    gpus: Annotated[
        int, Asked(least=1, most=100_000, metavar="N", group=THE_TRAINING)
    ] = 1
    checkpointing: Annotated[bool, Asked(group=THE_TRAINING)] = False
    price_per_gpu_hour: Annotated[
        float | None, Asked(least=0, most=LARGEST, metavar="MONEY", group=THE_COST)
    ] = None
    terms: CostTerms = field(
        default_factory=CostTerms, metadata={"left_out": ("requests", "per_day")}
    )

    def answer(self, progress: Progress | None = None) -> TrainingPlan:
        """Steps of a data-parallel training, added up."""
        from irene.analyse.training_plan import plan_training

        return plan_training(
            self.run, self.on, self.tokens, self.gpus, terms=self.terms,
            checkpointing=self.checkpointing,
            price_per_gpu_hour=self.price_per_gpu_hour,
        )  # fmt: skip
