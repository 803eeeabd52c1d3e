"""Training a predictor from measured trees, with exams that set its intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.predict.exams.rounds import (
    Predicted,
    PredictRounds,
    Round,
    rounds_here,
)
from irene.predict.exams.splits import Fold, make_split
from irene.predict.intervals import (
    COVERAGE,
    LEVELS,
    HeldOut,
    Widths,
    log_errors,
    mean_percent,
    widths_of,
)
from irene.predict.learned_fields import Floats
from irene.predict.learning.join import Joiner, OwnRun, Progress
from irene.predict.machines.predictor import Predictor, domain_of
from irene.predict.machines.specs.specs_method import (
    SHARED_JOINER,
    SpecsMethod,
    measurements,
)
from irene.predict.machines.specs.specs_model import SpecsModel
from irene.predict.methods import Method

__all__ = ["exam", "train"]


INSIDE = ("model",)
SELDOM_MEASURED = 0.7
"""Half-width, log, for ops that no exam has asked about: a factor of two."""
EXAMS = (*INSIDE, "family", "small", "large")


def train(
    table: NodeTable,
    hardware: Hardware,
    provenance: Mapping[str, Any],
    joiner: Joiner = SHARED_JOINER,
    progress: Progress | None = None,
    predict_rounds: PredictRounds | None = None,
) -> Predictor:
    """Fit a machine and set its intervals by exams on held-out trees.

    Args:
        table: Measured trees.
        hardware: The machine.
        provenance: Where the data comes from; held-out errors are added.
        joiner: Matches measured trees with traces.
        progress: Told of every round of every exam.
        predict_rounds: Predicts the rounds elsewhere; None for here, one after the
            other.
    """
    measured = measurements(table, joiner)
    model = SpecsMethod(joiner).fit(table).machine()
    run = joiner.own or OwnRun()
    predict = predict_rounds or rounds_here(table, lambda _: SpecsMethod(joiner))
    rounds = {name: _rounds(table, name) for name in EXAMS}
    asked = [each for of_exam in rounds.values() for each in of_exam]
    answers = predict(asked, progress)
    left = iter(answers)
    exams = {
        name: [_held_out(table, each.fold, next(left)) for each in of_exam]
        for name, of_exam in rounds.items()
    }
    inside = _widths([exams[name] for name in INSIDE])
    outside = _widths(list(exams.values()))
    streams = _spread([each.stream_j for each in answers], model)
    return Predictor(
        hardware,
        model,
        Widths(inside, outside, streams),
        domain_of(
            table.keys, measured.kernels, run.dtype, f"{run.attention} attention"
        ),
        {
            **provenance,
            "method": "specs",
            "models": list(table.models),
            "trees": len(table.keys),
            "measurements": len(measured.kernel_j) + len(measured.parent_j),
            "unmatched": dict(joiner.unknown),
            "coverage": COVERAGE,
            "held_out_errors_percent": {n: mean_percent(e) for n, e in exams.items()},
        },
    )


def exam(
    table: NodeTable,
    make: Callable[[], Method],
    split: str,
    progress: Progress | None = None,
) -> HeldOut:
    """log(predicted / measured) by level, for every group held out in turn.

    Splits that leave nothing to learn from or to ask are passed over.
    """
    rounds = _rounds(table, split)
    answers = rounds_here(table, lambda _: make())(rounds, progress)
    return [
        _held_out(table, each.fold, answer)
        for each, answer in zip(rounds, answers, strict=True)
    ]


def _rounds(table: NodeTable, split: str) -> list[Round]:
    try:
        folds = make_split(split)(table)
    except UsageError:  # one model, one family, or no run of such a size
        return []
    return [Round(f"{split}: {fold.held_out}", fold) for fold in folds]


def _held_out(table: NodeTable, fold: Fold, answer: Predicted) -> dict[str, Floats]:
    test = table.take(fold.test)
    errors = log_errors(answer.energy_j, test.energy_j)
    return {level: errors[test.rows(level)] for level in LEVELS}


def _widths(exams: list[HeldOut]) -> dict[str, float]:
    groups = [group for one in exams for group in one]
    if not groups:  # a single model: nothing could be held out
        return dict.fromkeys(LEVELS, 1.0)
    return widths_of(groups)


def _spread(others: Sequence[Floats | None], final: object) -> float:
    """Largest difference between an exam's rate of a stream and the final one, log."""
    if not isinstance(final, SpecsModel):
        return SELDOM_MEASURED
    rates = final.composition.stream_j
    spread = 0.0
    for other in others:
        if other is None:
            continue
        both = (rates > 0) & (other > 0)
        ratio = other[both] / rates[both]
        spread = max(spread, float(np.abs(np.log(ratio)).max(initial=0.0)))
    return spread
