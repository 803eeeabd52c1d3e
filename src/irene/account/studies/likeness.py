"""Likeness: how far the energies of two programs differ, and how they correlate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

__all__ = ["difference_matrix", "median_difference", "pearson", "pearson_matrix"]

Key = TypeVar("Key", bound=Hashable)
"""Whatever two programs can have in common."""


def _shared(a: Mapping[Key, float], b: Mapping[Key, float]) -> list[Key]:
    return [key for key in a if key in b]


def median_difference(a: Mapping[Key, float], b: Mapping[Key, float]) -> float:
    """Median of (b − a) / a over what both have, percent; NaN if they share nothing."""
    differences = [100 * (b[key] - a[key]) / a[key] for key in _shared(a, b) if a[key]]
    return statistics.median(differences) if differences else math.nan


def pearson(a: Mapping[Key, float], b: Mapping[Key, float]) -> float:
    """Pearson's correlation over what both have; NaN for fewer than three of these."""
    shared = _shared(a, b)
    x = np.array([a[key] for key in shared])
    y = np.array([b[key] for key in shared])
    if len(shared) < 3 or x.std() == 0 or y.std() == 0:
        return math.nan
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    return float(np.clip(np.mean(x * y), -1.0, 1.0))


def difference_matrix(tables: Sequence[Mapping[Key, float]]) -> list[list[float]]:
    """Median difference of every column against every row, percent."""
    return _matrix(tables, median_difference)


def pearson_matrix(tables: Sequence[Mapping[Key, float]]) -> list[list[float]]:
    """Pearson's correlation of every pair."""
    return _matrix(tables, pearson)


def _matrix(
    tables: Sequence[Mapping[Key, float]],
    measure: Callable[[Mapping[Key, float], Mapping[Key, float]], float],
) -> list[list[float]]:
    return [[measure(row, column) for column in tables] for row in tables]
