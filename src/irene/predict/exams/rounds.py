"""Rounds of a cross-validation: what is predicted from the rest, here or elsewhere.

No round needs to know of another. Whoever asks for them says how they are predicted:
one after the other in this process, or by a function that sends them elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from irene.dataset.table import NodeTable
from irene.predict.exams.splits import Fold
from irene.predict.learned_fields import Floats
from irene.predict.learning.join import Progress
from irene.predict.machines.specs.specs_method import SpecsMethod
from irene.predict.machines.specs.specs_model import SpecsModel
from irene.predict.methods import Method

__all__ = [
    "PredictRounds",
    "Predicted",
    "Round",
    "predict_round",
    "rounds_here",
]


@dataclass(frozen=True, slots=True)
class Round:
    """Trees to predict from others with one random start.

    Attributes:
        name: What is held out, in words.
        fold: The trees.
        seed: The random start.
    """

    name: str
    fold: Fold
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Predicted:
    """What came out of a round.

    Attributes:
        energy_j: Of every node of the trees that were held out, J; NaN where the
            method gave no number.
        stream_j: Rates of streams that `specs` learned from the rest, J per MiB; None
            for other methods and machines.
    """

    energy_j: Floats
    stream_j: Floats | None = None


PredictRounds = Callable[[Sequence[Round], Progress | None], Sequence[Predicted]]
"""Predicts rounds, in whatever order, and gives them in the order they came; tells how
many are done, of how many, and which was the last."""


def predict_round(table: NodeTable, method: Method, fold: Fold) -> Predicted:
    """Learn from some trees, predict the others without a look at their energy.

    Args:
        table: Measured trees.
        method: Not fitted.
        fold: Which trees are which.
    """
    test = table.take(fold.test)
    blind = replace(test, energy_j=np.full(len(test), np.nan))
    energy_j = method.fit(table.take(fold.train)).predict(blind)
    learned = method.model_ if isinstance(method, SpecsMethod) else None
    if isinstance(learned, SpecsModel):
        return Predicted(energy_j, learned.composition.stream_j)
    return Predicted(energy_j)


def rounds_here(
    table: NodeTable, make_method: Callable[[int], Method]
) -> PredictRounds:
    """Rounds one after the other, in this process.

    Args:
        table: Measured trees.
        make_method: A new method for a seed.
    """

    def predict(
        rounds: Sequence[Round], progress: Progress | None = None
    ) -> list[Predicted]:
        found = []
        for each in rounds:
            method = make_method(each.seed)
            found.append(predict_round(table, method, each.fold))
            if progress is not None:
                progress(len(found), len(rounds), each.name)
        return found

    return predict
