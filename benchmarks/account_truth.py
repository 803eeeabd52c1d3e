"""Whether rows of a ledger are right, and their intervals too, on simulated programs.

Programs are drawn at random (`tests/account/simulated.py`): two to six ops of 60 to
400 W in turn, runs of 0.3 to 30 samples, pauses of 0 to 10 ms, one stream or two, a
counter or samples of power every 1 to 100 ms. Calls of an op differ by 3 %, samples by
1 %; with `--steady`, by nothing. The truth is known to the last joule.

    python -m benchmarks.account_truth [--programs 300] [--first 0] [--steady]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from tests.account.simulated import program

from irene.account import attribute

INSIDE, BIAS = 0.90, 0.005
"""Least share of rows whose interval holds the truth, and largest bias of the total."""


@dataclass(frozen=True, slots=True)
class Exam:
    """How rows of many programs compare with the truth.

    Attributes:
        rows: Number of rows.
        inside: Share of them whose interval holds the truth.
        inside_resolved: The same of those that the sensor resolves.
        error: Median of how far resolved rows miss, as a share.
        half_width: Median of half the interval of resolved rows, as a share.
        bias: Mean of how far the total misses, as a share.
    """

    rows: int
    inside: float
    inside_resolved: float
    error: float
    half_width: float
    bias: float

    @property
    def passed(self) -> bool:
        """Whether intervals hold and the total is unbiased."""
        return min(self.inside, self.inside_resolved) >= INSIDE and (
            abs(self.bias) <= BIAS
        )


def examined(sensor: str, programs: range, steady: bool = False) -> Exam:
    """Account for programs drawn at random.

    Args:
        sensor: `counter` or `samples`.
        programs: Their seeds.
        steady: Whether nothing differs from call to call.
    """
    rows, totals = [], []
    for seed in programs:
        drawn = program(seed, sensor=sensor, steady=steady)
        ledger = attribute(drawn.events, [drawn.power])
        totals.append(ledger.measured_j / drawn.window_j - 1)
        for row in ledger.by_op():
            truth_j, energy = drawn.truth_j[row.name], row.energy
            assert energy is not None
            rounding_j = 1e-9 * truth_j
            inside = energy.low - rounding_j <= truth_j <= energy.high + rounding_j
            half = (energy.high - energy.low) / 2 / truth_j
            rows.append((inside, row.resolved, abs(energy.joules / truth_j - 1), half))
    inside, resolved, error, half = np.array(rows).T
    long = resolved > 0
    return Exam(
        len(rows),
        float(inside.mean()),
        float(inside[long].mean()),
        float(np.median(error[long])),
        float(np.median(half[long])),
        float(np.mean(totals)),
    )


def main() -> int:
    """Print the exam of counters and of samples."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steady", action="store_true")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.programs)
    exams = {s: examined(s, seeds, given.steady) for s in ("counter", "samples")}
    for sensor, exam in exams.items():
        print(
            f"{sensor}: {exam.rows:,} rows, {exam.inside:.1%} inside "
            f"(resolved {exam.inside_resolved:.1%}), error {exam.error:.2%}, "
            f"half-width {exam.half_width:.1%}, total {exam.bias:+.2%}"
        )
    return 0 if all(exam.passed for exam in exams.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
