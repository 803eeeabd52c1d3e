"""Leaves: one linear regressor per primitive class (equation 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from irene.predict.method import Floats
from irene.predict.paper.node_features import Standardiser, polynomial

__all__ = ["LeafRegressors", "LinearRegressor"]


@dataclass(frozen=True, slots=True)
class LinearRegressor:
    """Least squares on standardised features.

    Attributes:
        standardiser: Brings features to the scale of the training data.
        degree: Highest number of factors in a product of features.
        weights: One per product, the constant first.
    """

    standardiser: Standardiser
    degree: int
    weights: Floats

    @classmethod
    def fit(
        cls,
        values: Floats,
        energy_j: Floats,
        count: Floats,
        importance: Floats | None = None,
        degree: int = 1,
        standardise: bool = True,
    ) -> LinearRegressor:
        """The weights of least squared error; of several, the smallest ones.

        Args:
            values: Rows × features.
            energy_j: Energy of every row, J.
            count: How often every row occurs.
            importance: Weight of every row's squared error; None for its count.
            degree: Highest number of factors in a product of features.
            standardise: Whether to bring the features to one scale first.
        """
        standardiser = Standardiser.fit(values, count, standardise)
        columns = polynomial(standardiser.apply(values), degree)
        root = np.sqrt(count if importance is None else importance)
        found = np.linalg.lstsq(columns * root[:, None], energy_j * root, rcond=None)
        return cls(standardiser, degree, found[0].astype(np.float64))

    def predict(self, values: Floats) -> Floats:
        """Energy of every row, J."""
        columns = polynomial(self.standardiser.apply(values), self.degree)
        return np.asarray(columns @ self.weights, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class LeafRegressors:
    """A regressor for every primitive class.

    Attributes:
        by_class: The regressors.
        pooled: Learned from all classes; for a class that was never seen.
    """

    by_class: Mapping[str, LinearRegressor]
    pooled: LinearRegressor

    @classmethod
    def fit(
        cls,
        values: Floats,
        energy_j: Floats,
        count: Floats,
        classes: Sequence[str],
        standardise: bool = True,
    ) -> LeafRegressors:
        """Fit every class on its own.

        Args:
            values: Leaves × features.
            energy_j: Energy of every leaf, J.
            count: How often every leaf occurs.
            classes: Primitive class of every leaf.
            standardise: Whether to bring the features to one scale first.
        """

        def regressor(rows: slice | npt.NDArray[np.bool_]) -> LinearRegressor:
            return LinearRegressor.fit(
                values[rows], energy_j[rows], count[rows], standardise=standardise
            )

        labels = np.array(classes)
        by_class = {name: regressor(labels == name) for name in dict.fromkeys(classes)}
        return cls(by_class, regressor(slice(None)))

    def predict(self, values: Floats, classes: Sequence[str]) -> Floats:
        """Energy of every leaf, J.

        Args:
            values: Leaves × features.
            classes: Primitive class of every leaf.
        """
        labels = np.array(classes)
        energy_j = np.full(len(labels), np.nan)
        for name in dict.fromkeys(classes):
            rows = labels == name
            regressor = self.by_class.get(name, self.pooled)
            energy_j[rows] = regressor.predict(values[rows])
        return energy_j
