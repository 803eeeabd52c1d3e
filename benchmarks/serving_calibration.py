"""Calibrations of servings: fitted to measured ones, examined, and as they ship.

Few numbers, most of them shared by all GPUs; how well they predict models they have not
seen sets the intervals.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from irene.errors import FormatError, UsageError
from irene.predict.learned_file import Floats
from irene.predict.machines.finding import find_gpu
from irene.predict.machines.gpu.gpu_device import GpuDevice
from irene.predict.machines.gpu.serving_calibration import SCHEMA, UNSEEN, Calibration
from irene.trace.serving.tree import serving_tree
from irene.tree import ModelTree

__all__ = [
    "COMPUTE_SHARE",
    "PROMPT",
    "Exam",
    "ServedOps",
    "Serving",
    "calibration_document",
    "coverage",
    "examined",
    "fit_calibrations",
    "fit_runs",
    "read_servings",
    "served_ops",
    "steps_j",
    "width_of",
]

PROMPT = 750
"""Tokens of a prompt of the chat workload. Its publisher does not say; this many fit
the times of steps."""


@dataclass(frozen=True, slots=True)
class Serving:
    """One measured serving.

    Attributes:
        model: Hugging Face id.
        gpu: Name of the GPU, as given to `--on`.
        batch_size: Streams that run at a time, on average.
        output_len: Tokens of an answer, on average.
        generated: Tokens that a running stream has generated so far, on average.
        j_per_token: Energy of the GPU per output token, J.
        step_s: Time between two tokens of a stream, on average, s.
    """

    model: str
    gpu: str
    batch_size: float
    output_len: float
    generated: float
    j_per_token: float
    step_s: float

    def tree(self, prompt: int = PROMPT) -> ModelTree:
        """The tree of what it ran."""
        return serving_tree(
            self.model,
            phase="generate",
            batch_size=max(1, round(self.batch_size)),
            prompt_len=prompt,
            output_len=max(1, round(self.output_len)),
            context_len=round(prompt + self.generated),
        )


def read_servings(path: str | Path) -> list[Serving]:
    """Servings in the columns of the ML.ENERGY leaderboard, one GPU each.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: A column is missing or is not a number.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    try:
        return [_serving(row) for row in rows]
    except (KeyError, ValueError) as error:
        raise FormatError(f"{path}: not a table of servings: {error!r}") from error


def _serving(row: Mapping[str, str]) -> Serving:
    batch = float(row["avg_batch_size"])
    return Serving(
        row["model"],
        row["gpu"].lower(),
        batch,
        float(row["avg_output_len"]),
        float(row["mean_generated_so_far"]),
        float(row["energy_per_token_j"]),
        batch / float(row["output_tokens_per_s"]),
    )


COMPUTE_SHARE = 0.75
"""Power of arithmetic at its peak rate, by (limit − idle). Not fitted with the other
numbers, but chosen: products of 256 to 2048 rows in the operator tables give 0.5 to
1.2, and of 0.6, 0.7, 0.75, 0.8 and 0.9 this one was taken after seeing the errors on
left-out models (median H100 3.8 to 5.7 %, B200 5.2 to 5.9 %; less is better there, but
would make long prompts too cheap). Those errors are optimistic to that extent."""
ROBUST = 0.05
"""Relative error beyond which a run counts by its error, not by its square; 0.03 and
0.06 were tried beside it."""
START = (1.4e-10, 1e-3, 4e-3, 6e-3)


@dataclass(frozen=True, slots=True)
class ServedOps:
    """What a fit needs of a serving: its ops, by row, and its device."""

    serving: Serving
    device: GpuDevice
    weight: Floats
    time_s: Floats
    moved: Floats
    compute_s: Floats
    steps: int
    batch: int

    @property
    def busy_s(self) -> float:
        """Time of the kernels of a mean step, s."""
        return float((self.weight * self.time_s).sum()) / self.steps

    def kernels_j(self, told: Calibration) -> float:
        """Energy of the kernels of a mean step, J."""
        watts = told.power_w(self.time_s, self.moved, self.compute_s, self.device.sheet)
        return float((self.weight * self.time_s * watts).sum()) / self.steps


def served_ops(servings: Sequence[Serving]) -> list[ServedOps]:
    """The ops of servings, as their leaf models time them."""
    from irene.predict.machines.gpu.gpu_machine import least_compute_s
    from irene.predict.machines.gpu.node_ops import serving_ops

    found = []
    for each in servings:
        device, tree = find_gpu(each.gpu).device, each.tree()
        nodes = serving_ops(tree)
        costs = device.costs(nodes.ops)
        compute_s = least_compute_s(nodes, costs, device.sheet)
        times = nodes.runs * tree.multiplicity[nodes.rows]
        beside = nodes.base >= 0
        places = np.concatenate([nodes.place, nodes.base[beside]])
        assert tree.spec is not None
        found.append(
            ServedOps(
                each,
                device,
                np.concatenate([times, -times[beside]]),
                costs.time_s[places],
                costs.bytes[places],
                compute_s[places],
                tree.spec.output_len or 1,
                tree.spec.batch_size,
            )
        )
    return found


def fit_calibrations(servings: Sequence[Serving]) -> dict[str, Calibration]:
    """Four numbers that all GPUs share, and two of time for each GPU.

    Every serving is predicted with and without its step time; models count alike, and
    GPUs do.

    Args:
        servings: What was measured.

    Returns:
        Calibrations by name of the GPU, without widths of intervals.
    """
    return fit_runs(served_ops(servings))


def fit_runs(runs: Sequence[ServedOps]) -> dict[str, Calibration]:
    """As `fit_calibrations`, from ops that are at hand."""
    from scipy.optimize import least_squares

    measured = np.array(
        [run.serving.j_per_token * run.serving.batch_size for run in runs]
    )
    root_weight = _weights(runs) ** 0.25

    def errors(logs: Floats) -> Floats:
        told = _calibration(np.exp(logs) * START)
        known, unknown = steps_j(runs, told)
        found = [np.log(each / measured) * root_weight for each in (known, unknown)]
        return _robust(np.concatenate(found))

    best = least_squares(errors, np.zeros(len(START)))
    shared = _calibration(np.exp(best.x) * START)
    gpus = dict.fromkeys(run.serving.gpu for run in runs)
    return {
        gpu: _with_time(shared, [r for r in runs if r.serving.gpu == gpu])
        for gpu in gpus
    }


def _calibration(numbers: Floats) -> Calibration:
    per_byte, gap_s, work_j, wait_j = (float(value) for value in numbers)
    return Calibration(
        joules_per_byte=per_byte,
        compute_share=COMPUTE_SHARE,
        gap_s=gap_s,
        work_j=work_j,
        wait_j=wait_j,
    )


def steps_j(runs: Sequence[ServedOps], told: Calibration) -> tuple[Floats, Floats]:
    """Energy of a mean step, with its measured time and without, J."""
    known, unknown = [], []
    for run in runs:
        kernels, idle_w = run.kernels_j(told), run.device.sheet.idle_w
        rest_s = max(run.serving.step_s - run.busy_s, 0.0)
        known.append(kernels + idle_w * rest_s + told.work_j * run.batch)
        unknown.append(kernels + float(told.gap_j(float(run.batch), idle_w)))
    return np.array(known), np.array(unknown)


def _weights(runs: Sequence[ServedOps]) -> Floats:
    """One over the number of runs of the same model on the same GPU."""
    keys = [(run.serving.model, run.serving.gpu) for run in runs]
    return np.array([1.0 / keys.count(key) for key in keys])


def _robust(errors: Floats) -> Floats:
    """Errors whose squares grow like absolute values beyond `ROBUST`."""
    found: Floats = np.sign(errors) * np.sqrt(
        2 * (np.sqrt(ROBUST**2 + errors**2) - ROBUST)
    )
    return found


def _with_time(told: Calibration, runs: Sequence[ServedOps]) -> Calibration:
    """The same with the gaps of time of one GPU."""
    from scipy.optimize import least_squares

    busy = np.array([run.busy_s for run in runs])
    batch = np.array([run.batch for run in runs], dtype=np.float64)
    measured = np.array([run.serving.step_s for run in runs])
    root_weight = _weights(runs) ** 0.25
    start = np.array([1e-3, 1e-5])

    def errors(logs: Floats) -> Floats:
        gap_s, each_s = np.exp(logs) * start
        found = np.log((busy + gap_s + each_s * batch) / measured)
        return _robust(found * root_weight)

    best = least_squares(errors, np.zeros(2))
    gap_s, each_s = np.exp(best.x) * start
    return replace(told, time_gap_s=float(gap_s), time_gap_per_sequence_s=float(each_s))


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
