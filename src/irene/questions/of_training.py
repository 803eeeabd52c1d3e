"""Questions about the training of a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from irene.analyse.costs import THE_COST, CostTerms
from irene.analyse.subject import Progress
from irene.parameters import Asked
from irene.questions.question import ONE_MODEL, OfModel, On
from irene.spec import RunSpec

if TYPE_CHECKING:
    from irene.analyse.training_plan import TrainingPlan

THE_TRAINING = "the training"
NOT_TRAINED = (
    "phase", "context_len", "prompt_len", "output_len", "quantization", "cache_dtype",
    "tensor_parallel", "expert_parallel", "data_parallel", "engine",
)  # fmt: skip
LARGEST = 1e18


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
