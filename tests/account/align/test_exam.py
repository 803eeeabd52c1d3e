"""Programs drawn at random: intervals of rows hold the truth, totals have no bias."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from benchmarks.account_truth import BIAS, INSIDE, examined

from irene.account import attribute
from irene.account.align.sharpening import sharpen
from tests.account.simulated import program


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("sensor", ["counter", "samples"])
def test_rows_hold_the_truth_and_the_total_has_no_bias(
    sensor: str, steady: bool
) -> None:
    exam = examined(sensor, range(1000, 1060), steady)
    assert exam.inside >= INSIDE
    assert exam.inside_resolved >= INSIDE
    assert abs(exam.bias) <= BIAS
    # Intervals that hold because they say nothing would be of no use.
    assert exam.error < 0.01
    assert exam.half_width < 0.2


@pytest.mark.parametrize("seed", range(5))
def test_what_a_counter_measured_between_two_samples_stays(seed: int) -> None:
    drawn = program(seed, sensor="counter")
    ledger = attribute(drawn.events, [drawn.power])
    kinds = drawn.events.op.codes
    sharp = sharpen(drawn.power, ledger.segments, kinds, ledger.window_ns)[0]
    assert len(sharp.time_ns) > len(drawn.power.time_ns)
    times = drawn.power.time_ns.tolist()
    for begin, end in pairwise(times):
        before_j, after_j = (s.window_j(begin, end) for s in (drawn.power, sharp))
        assert after_j == pytest.approx(before_j, rel=1e-9)
    assert np.isin(drawn.power.time_ns, sharp.time_ns).all()
