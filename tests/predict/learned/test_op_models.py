from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from irene.predict.machines.learned.op_models import OpTimes, fit_op_times
from irene.predict.machines.learned.timed_op import TimedOp

CALL_S, S_PER_MIB = 20e-6, 2e-4


def op(kind: str, mib: float) -> TimedOp:
    return TimedOp(kind, (max(1, int(mib * 2**18)),), 0.0, mib)


def fitted(
    kind: str, mib: Sequence[float], seconds: Sequence[float], others: OpTimes | None
) -> OpTimes:
    ops = [op(kind, each) for each in mib]
    still = np.zeros(len(ops))
    return fit_op_times(ops, still, np.array(seconds), still + 1.0, others)


@pytest.fixture
def others() -> OpTimes:
    """Ops of any kind, of 1 kB to 32 MiB."""
    mib = np.geomspace(1e-3, 32.0, 40)
    return fitted("any", mib, CALL_S + S_PER_MIB * mib, None)


def test_an_op_that_was_measured_small_alone_is_large_as_others_are(
    others: OpTimes,
) -> None:
    # A few microseconds of noise on 2 kB, taken for a time per byte, are s per MiB.
    small = fitted("repeat", [5e-4, 1e-3, 2e-3], [30e-6, 33e-6, 41e-6], others)
    (large_s,) = small.seconds([op("repeat", 16.0)], np.zeros(1))
    assert large_s == pytest.approx(CALL_S + 16 * S_PER_MIB, rel=0.5)


def test_what_was_measured_large_is_as_it_was_measured(others: OpTimes) -> None:
    mib = np.geomspace(0.1, 16.0, 5)
    slow = fitted("slow", mib, CALL_S + 10 * S_PER_MIB * mib, others)
    (large_s,) = slow.seconds([op("slow", 16.0)], np.zeros(1))
    assert large_s == pytest.approx(CALL_S + 160 * S_PER_MIB, rel=0.15)
