"""Measured values beside the energy: latency, load, clocks, by name, one per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from irene.errors import UsageError
from irene.tree.columns import Floats


def checked(features: Mapping[str, Floats], rows: int) -> dict[str, Floats]:
    """The columns as arrays of numbers.

    Raises:
        UsageError: A column does not have one value per row, or one is infinite.
    """
    columns = {name: np.asarray(v, dtype=np.float64) for name, v in features.items()}
    for name, values in columns.items():
        if values.shape != (rows,):
            raise UsageError(f"{len(values)} values of {name} for {rows} nodes")
        if np.isinf(values).any():
            raise UsageError(f"a value of {name} is not finite")
    return columns


def of_row(features: Mapping[str, Floats], row: int) -> dict[str, float]:
    """What is known of one row."""
    known = ((name, float(values[row])) for name, values in features.items())
    return {name: value for name, value in known if not np.isnan(value)}


def from_rows(rows: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    """Columns of what is known of each row; NaN where a row does not have a name."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        name: np.array([row.get(name, np.nan) for row in rows], dtype=np.float64)
        for name in names
    }
