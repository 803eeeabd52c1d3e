"""What a regressor sees of a node: columns, standardised, with their products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.predict.method import Floats

__all__ = [
    "FEATURE_SETS",
    "Column",
    "FeatureSet",
    "Standardiser",
    "feature_set",
    "polynomial",
]

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
class Standardiser:
    """Centres columns and brings them to one scale, as the training data says.

    Attributes:
        kept: Columns that the training data knows and that vary there; nothing can
            be learned from the others, which are dropped.
        mean: Mean of every kept column.
        scale: Standard deviation of every kept column.
    """

    kept: npt.NDArray[np.bool_]
    mean: Floats
    scale: Floats

    @classmethod
    def fit(
        cls, values: Floats, count: Floats, standardise: bool = True
    ) -> Standardiser:
        """Statistics of training data.

        Args:
            values: Rows × features; NaN where unknown.
            count: How often every row occurs.
            standardise: False to drop unknown columns and change nothing else.
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

    Args:
        values: Rows × n.
        degree: Highest number of factors.

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
