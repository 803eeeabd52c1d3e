"""How many readings a mean is of."""

from __future__ import annotations

import numpy as np
import pytest

from irene.predict.machines.gpu.kernel_tables import least_readings


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 11, 60])
def test_a_mean_of_whole_milliwatts_tells_its_readings(count: int) -> None:
    rng = np.random.default_rng(count)
    readings = rng.integers(120_000, 700_000, size=(200, count))
    # The sum is no multiple of a divisor of the count, or it would look like fewer.
    sums = readings.sum(axis=1)
    readings[:, 0] += np.where(np.gcd(sums, count) > 1, (1 - sums) % count, 0)
    means_w = readings.mean(axis=1) / 1000
    assert least_readings(means_w).tolist() == [count] * 200


def test_readings_are_never_overstated() -> None:
    rng = np.random.default_rng(0)
    readings = rng.integers(120_000, 700_000, size=(500, 6))
    found = least_readings(readings.mean(axis=1) / 1000)
    assert set(found.tolist()) <= {1, 2, 3, 6}


def test_no_power_has_no_readings() -> None:
    assert least_readings(np.array([np.nan, 0.0, -1.0])).tolist() == [0, 0, 0]
