"""What a regressor sees of a node, standardised, with products; linear regressors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from irene.arrays import Bools, Floats
from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.saved import Saved, numbers

Column = Callable[[NodeTable], Floats]
"""One feature of every row of a table; NaN where a row has none."""


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """Named columns of a table; regressors take any set.

    A feature of your own needs no change anywhere else:

        by_token = FeatureSet(
            "by-token",
            {**FEATURE_SETS["all"].columns,
             "flops_per_token": lambda t: t.features["flops"] / input_size(t)},
        )
        TreeMethod("irene", features=by_token)

    Attributes:
        name: What the set is called.
        columns: Function of every feature, by its name.
    """

    name: str
    columns: Mapping[str, Column]

    def matrix(self, table: NodeTable) -> Floats:
        """Rows × features; NaN where a row has none."""
        return np.stack([column(table) for column in self.columns.values()], axis=1)


def _measured(name: str) -> Column:
    return lambda table: table.features[name]


def _input_size(table: NodeTable) -> Floats:
    return table.features["batch_size"] * table.features["seq_len"]


def _num_parameters(table: NodeTable) -> Floats:
    """Zero for functional primitives, if any node of the table has parameters."""
    values = table.features["num_parameters"]
    return values if np.isnan(values).all() else np.nan_to_num(values)


_ALWAYS: dict[str, Column] = {
    "num_parameters": _num_parameters,
    "input_size": _input_size,
}
_MODEL = ("batch_size", "seq_len", "flops", "mem_bytes")
_RESOURCE = (
    "cpu",
    "mem",
    "gpu",
    "gpu_mem",
    "gpu_clk",
    "gpu_mem_clk",
    "times_mean",
    "gpu_energy_mean",
)


def _set(name: str, *features: str) -> FeatureSet:
    columns = {feature: _measured(feature) for feature in features}
    return FeatureSet(name, {**_ALWAYS, **columns})


FEATURE_SETS: Mapping[str, FeatureSet] = MappingProxyType(
    {
        "all": _set("all", *_MODEL, *_RESOURCE),
        "model": _set("model", *_MODEL),
        "resource": _set("resource", *_RESOURCE),
    }
)
"""The sets of Table 8. The number of parameters and of input tokens are in every one of
them, as in the published configuration."""


def feature_set(features: str | FeatureSet) -> FeatureSet:
    """A set by its name.

    Args:
        features: A key of `FEATURE_SETS`, or a set, which is returned.

    Raises:
        UsageError: No set of that name.
    """
    if isinstance(features, FeatureSet):
        return features
    if features not in FEATURE_SETS:
        known = ", ".join(FEATURE_SETS)
        raise UsageError(f"no features {features!r}; there are {known}")
    return FEATURE_SETS[features]


@dataclass(frozen=True, slots=True)
class Standardiser(Saved):
    """Centres columns and brings them to one scale, as the training data says.

    Attributes:
        kept: Columns that the training data knows and that vary there; nothing can
            be learned from the others, which are dropped.
        mean: Mean of every kept column.
        scale: Standard deviation of every kept column.
    """

    kept: Bools
    mean: Floats
    scale: Floats

    def __post_init__(self) -> None:
        """Refuse statistics of other columns than those that are kept."""
        numbers(np.zeros_like(self.mean), int(self.kept.sum()))
        numbers(np.zeros_like(self.scale), int(self.kept.sum()))

    def products(self, degree: int) -> int:
        """How many products of up to `degree` kept columns there are."""
        return math.comb(int(self.kept.sum()) + degree, degree)

    def check_width(self, width: int) -> None:
        """Refuse to look at another number of features.

        Raises:
            ValueError: There are more or fewer than it knows.
        """
        if self.kept.shape != (width,):
            raise ValueError(f"{width} features are expected, not {len(self.kept)}")

    @classmethod
    def fit(
        cls, values: Floats, count: Floats, standardise: bool = True
    ) -> Standardiser:
        """Statistics of training data.

        Where they are not standardised, unknown columns are dropped and nothing else
        changes.
        """
        known = ~np.isnan(values)
        kept = np.asarray(known.any(axis=0), dtype=np.bool_)
        if not standardise:
            return cls(kept, np.zeros(kept.sum()), np.ones(kept.sum()))
        values, known = values[:, kept], known[:, kept]
        share = known * count[:, None]
        share = share / share.sum(axis=0)
        mean = (np.where(known, values, 0.0) * share).sum(axis=0)
        spread = np.where(known, values - mean, 0.0)
        scale = np.sqrt((spread**2 * share).sum(axis=0))
        varies = scale > 1e-12 * np.abs(mean)  # the rest is rounding noise
        kept[kept] = varies
        return cls(kept, mean[varies], scale[varies])

    def apply(self, values: Floats) -> Floats:
        """Standardised columns; an unknown value becomes the mean."""
        standard: Floats = (values[:, self.kept] - self.mean) / self.scale
        return np.where(np.isnan(standard), 0.0, standard)


def polynomial(values: Floats, degree: int) -> Floats:
    """All products of up to `degree` columns, the constant among them.

    Returns:
        Rows × C(n + degree, degree).
    """
    rows, n = values.shape
    blocks = [np.ones((rows, 1))]
    # Products of the last degree, by their highest factor: each is extended only by
    # factors that are not lower, so every product occurs once.
    last = [np.ones((rows, 1))] + [np.empty((rows, 0))] * (n - 1)
    for _ in range(degree):
        last = [
            np.concatenate(last[: i + 1], axis=1) * values[:, i : i + 1]
            for i in range(n)
        ]
        blocks += last
    return np.concatenate(blocks, axis=1)


@dataclass(frozen=True, slots=True)
class LinearRegressor(Saved):
    """Least squares on standardised features.

    Attributes:
        standardiser: Brings features to the scale of the training data.
        degree: Highest number of factors in a product of features.
        weights: One per product, the constant first.
    """

    standardiser: Standardiser
    degree: int
    weights: Floats

    def __post_init__(self) -> None:
        """Refuse weights of other products than those it looks at."""
        products = self.standardiser.products(self.degree)
        numbers(np.zeros_like(self.weights), products)

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

        Squared errors weigh by importance, else by how often a row occurs.
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
class LeafRegressors(Saved):
    """A regressor for every primitive class, and one of all for a class never seen."""

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
        """Fit every class on its own."""

        def regressor(rows: slice | Bools) -> LinearRegressor:
            return LinearRegressor.fit(
                values[rows], energy_j[rows], count[rows], standardise=standardise
            )

        labels = np.array(classes)
        by_class = {name: regressor(labels == name) for name in dict.fromkeys(classes)}
        return cls(by_class, regressor(slice(None)))

    def predict(self, values: Floats, classes: Sequence[str]) -> Floats:
        """Energy of every leaf, J."""
        labels = np.array(classes)
        energy_j = np.full(len(labels), np.nan)
        for name in dict.fromkeys(classes):
            rows = labels == name
            regressor = self.by_class.get(name, self.pooled)
            energy_j[rows] = regressor.predict(values[rows])
        return energy_j
