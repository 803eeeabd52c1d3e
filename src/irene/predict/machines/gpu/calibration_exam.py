"""How well calibrations predict models they have not seen, and what ships of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from irene.predict.learned_fields import Floats
from irene.predict.machines.gpu.calibration_fit import (
    Serving,
    fit_calibrations,
    fit_runs,
    read_servings,
    served_ops,
    steps_j,
)
from irene.predict.machines.gpu.serving_calibration import SCHEMA, UNSEEN, Calibration

__all__ = ["Exam", "calibration_document", "coverage", "examined", "width_of"]


COVERED = 0.9
"""Share of runs that intervals should hold."""
FEW_MODELS = {3: 2.92 / 1.645, 4: 2.353 / 1.645, 5: 2.132 / 1.645, 6: 2.015 / 1.645}
"""How much wider intervals are than the errors on so many left-out models: quantiles of
Student's t by those of the normal distribution. Runs of one model err alike, so that
models count, not runs. Chosen after the plain 95 % quantile had held 78 % of the runs
of one left-out model, where 80 % were asked for."""
SAME_CHIP = {"h200": "h100"}
"""GPUs that use another's calibration: the same chip with another memory."""
SAME_CHIP_FACTOR = 1.5
"""How much wider their intervals are, an assumption."""
UNSEEN_WIDTH = 0.35
"""Width for a GPU that no serving was measured on: the largest error between the two
that were, and what its leaf models add."""


@dataclass(frozen=True, slots=True)
class Exam:
    """Predictions of servings whose model the calibration has not seen.

    Attributes:
        servings: What was predicted.
        j_per_token: Predicted without the time of steps, J.
        j_per_token_known: Predicted with it, J.
        step_s: Predicted time between tokens, s.
    """

    servings: tuple[Serving, ...]
    j_per_token: Floats
    j_per_token_known: Floats
    step_s: Floats

    def log_errors(self, gpu: str, what: str = "j_per_token") -> Floats:
        """log(predicted / measured) of the servings on a GPU."""
        of = "step_s" if what == "step_s" else "j_per_token"
        measured = np.array([getattr(each, of) for each in self.servings])
        here = np.array([each.gpu == gpu for each in self.servings])
        found: Floats = np.log(getattr(self, what) / measured)[here]
        return found


def examined(servings: Sequence[Serving]) -> Exam:
    """Predict every serving with what all other models tell.

    Args:
        servings: What was measured.
    """
    runs = served_ops(servings)
    columns = np.zeros((3, len(runs)))
    for model in dict.fromkeys(each.model for each in servings):
        held = np.array([each.model == model for each in servings])
        told = fit_runs([run for run, out in zip(runs, held, strict=True) if not out])
        for i in np.flatnonzero(held).tolist():
            run = runs[i]
            mine = told[run.serving.gpu]
            known, unknown = steps_j([run], mine)
            gap_s = float(mine.time_gap(float(run.batch)))
            columns[:, i] = unknown[0], known[0], run.busy_s + gap_s
            columns[:2, i] /= run.batch
    return Exam(tuple(servings), *columns)


def width_of(exam: Exam, gpu: str, what: str = "j_per_token", but: str = "") -> float:
    """Half the width of an interval, in log units, from errors on left-out models.

    Args:
        exam: Predictions on left-out models.
        gpu: Of which GPU.
        what: Energy or time, a field of the exam.
        but: A model whose errors do not count.
    """
    names = np.array([each.model for each in exam.servings if each.gpu == gpu])
    errors = np.abs(exam.log_errors(gpu, what))[names != but]
    models = len(set(names.tolist()) - {but})
    factor = FEW_MODELS.get(models, FEW_MODELS[min(max(models, 3), 6)])
    return factor * float(np.quantile(errors, COVERED))


def coverage(
    exam: Exam, half_widths: Mapping[str, Floats]
) -> dict[str, dict[str, float]]:
    """Share of the runs of every left-out model inside their intervals, by GPU.

    Widths are taken from the errors on the other models.

    Args:
        exam: Predictions on left-out models.
        half_widths: What leaf models add to the width of each run, by GPU.
    """
    found: dict[str, dict[str, float]] = {}
    for gpu in dict.fromkeys(each.gpu for each in exam.servings):
        here = [each for each in exam.servings if each.gpu == gpu]
        errors = exam.log_errors(gpu)
        for model in dict.fromkeys(each.model for each in here):
            mine = np.array([each.model == model for each in here])
            width = np.hypot(width_of(exam, gpu, but=model), half_widths[gpu][mine])
            inside = np.abs(errors[mine]) <= width
            found.setdefault(gpu, {})[model] = float(inside.mean())
    return found


def calibration_document(path: str | Path) -> dict[str, Any]:
    """What ships: calibrations of all GPUs, with errors and where they come from.

    Args:
        path: Table of measured servings.
    """
    servings = read_servings(path)
    exam = examined(servings)
    fitted = fit_calibrations(servings)
    models = len({each.model for each in servings})
    found = {}
    for gpu, told in fitted.items():
        errors = exam.log_errors(gpu)
        source = f"{len(errors)} chat servings of {models} models on one {gpu.upper()}"
        found[gpu] = _rounded(
            replace(
                told,
                energy_width=width_of(exam, gpu),
                time_width=width_of(exam, gpu, "step_s"),
                source=source,
                errors={what: _percent(exam, gpu, what) for what in WHAT},
            )
        )
    for gpu, other in SAME_CHIP.items():
        label = f"{found[other].source}, the same chip with other memory"
        width = found[other].energy_width * SAME_CHIP_FACTOR
        found[gpu] = replace(found[other], source=label, energy_width=round(width, 4))
    found[UNSEEN] = _unseen(list(fitted.values()))
    return {
        "schema": SCHEMA,
        "data": {
            "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
            "rows": len(servings),
            "from": "ML.ENERGY leaderboard v3, chat",
        },
        "calibrations": {gpu: told.to_dict() for gpu, told in found.items()},
    }


WHAT = ("j_per_token", "j_per_token_known", "step_s")
"""What is examined: energy, energy where the step time is known, time."""


def _percent(exam: Exam, gpu: str, what: str) -> dict[str, float]:
    """Median and 90th percentile of the error on left-out models, in percent."""
    errors = 100 * np.abs(np.expm1(exam.log_errors(gpu, what)))
    return {
        "median": round(float(np.median(errors)), 2),
        "p90": round(float(np.quantile(errors, 0.9)), 2),
    }


def _rounded(told: Calibration) -> Calibration:
    """Four digits: more would say more than the data do."""
    numbers = {
        name: float(f"{value:.4g}")
        for name, value in told.to_dict().items()
        if isinstance(value, float)
    }
    return Calibration.from_dict({**told.to_dict(), **numbers})


def _unseen(known: Sequence[Calibration]) -> Calibration:
    """What GPUs share, for one that no serving was measured on."""
    shared = known[0]
    return _rounded(
        replace(
            shared,
            time_gap_s=float(np.mean([each.time_gap_s for each in known])),
            time_gap_per_sequence_s=float(
                np.mean([each.time_gap_per_sequence_s for each in known])
            ),
            energy_width=UNSEEN_WIDTH,
            time_width=0.5,
            source="servings on other GPUs, H100 and B200",
        )
    )
