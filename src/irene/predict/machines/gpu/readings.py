"""How many power readings a mean is of.

NVML reports whole milliwatts, so the mean of n readings times n is a whole number of
milliwatts. The least such number is found; it divides n, so n is at least that. A
single reading of a kernel that ran for milliseconds was taken before the GPU's power
rose, and says nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from irene.predict.machines.gpu.shapes import Floats

__all__ = ["TRUSTED_READINGS", "least_readings"]

TRUSTED_READINGS = 5
"""Means of fewer readings are not used."""
MOST_READINGS = 256
TOLERANCE = 1e-12
"""Of the sum: means are kept in double precision."""


def least_readings(power_w: Floats) -> npt.NDArray[np.int64]:
    """The least number of readings that each mean can be of; 0 if there is none.

    Args:
        power_w: Mean powers with all their decimals, W.
    """
    milliwatts = np.asarray(power_w, dtype=np.float64) * 1000.0
    found = np.zeros(len(milliwatts), dtype=np.int64)
    left = np.flatnonzero(np.isfinite(milliwatts) & (milliwatts > 0))
    for count in range(1, MOST_READINGS + 1):
        sums = milliwatts[left] * count
        is_whole = np.abs(sums - np.round(sums)) < TOLERANCE * sums
        found[left[is_whole]] = count
        left = left[~is_whole]
        if not len(left):
            break
    return found
