"""What each method has learned, as JSON-ready values and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from irene.errors import UsageError
from irene.predict.machines.predictor import read_model
from irene.predict.machines.specs.fallback import FileModel
from irene.predict.machines.specs.method import SpecsMethod
from irene.predict.method import Floats, Method, fitted
from irene.predict.paper import TreeMethod, Unstructured, Utilisation
from irene.predict.paper.counters import CountersMethod
from irene.predict.paper.irene import Learned
from irene.predict.paper.leaf import LeafRegressors, LinearRegressor
from irene.predict.paper.node_features import Standardiser
from irene.predict.paper.partial import PartialMethod

__all__ = ["restore", "state_of"]

Fields = dict[str, Any]


def state_of(method: Method) -> Fields:
    """What a fitted method has learned.

    Raises:
        UsageError: It is not fitted, or of a kind that cannot be saved.
    """
    if isinstance(method, TreeMethod):
        return _tree_fields(fitted(method.learned_, method.name))
    if isinstance(method, Unstructured):
        return _regressor_fields(fitted(method.regressor_, method.name))
    if isinstance(method, Utilisation):
        return {}
    if isinstance(method, CountersMethod):
        return {"rates": fitted(method.rates_, method.name).tolist()}
    if isinstance(method, SpecsMethod):
        return _specs_fields(method)
    if isinstance(method, PartialMethod):
        counters, specs = state_of(method.counters), state_of(method.specs)
        return {"counters": counters, "specs": specs}
    raise UsageError(f"the method {method.name!r} cannot be saved")


def restore(method: Method, fields: Mapping[str, Any]) -> None:
    """Give a new method what another of its kind and options has learned.

    Args:
        method: Not fitted.
        fields: What `state_of` returned.

    Raises:
        KeyError, TypeError, ValueError: The fields are not those of the method.
    """
    if isinstance(method, TreeMethod):
        method.learned_ = _tree(method, fields)
    elif isinstance(method, Unstructured):
        width = len(method.features.columns)
        method.regressor_ = _regressor(fields, width)
    elif isinstance(method, CountersMethod):
        method.rates_ = _numbers(fields["rates"], 3)
    elif isinstance(method, SpecsMethod):
        method.model_ = read_model(fields["model"])
        method.file_model_ = _file_model(fields["file_model"])
    elif isinstance(method, PartialMethod):
        restore(method.counters, fields["counters"])
        restore(method.specs, fields["specs"])


def _numbers(values: Any, length: int) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.shape != (length,) or not np.isfinite(array).all():
        raise ValueError(f"{length} numbers are expected, not shape {array.shape}")
    return array


def _standardiser_fields(standardiser: Standardiser) -> Fields:
    return {
        "kept": standardiser.kept.tolist(),
        "mean": standardiser.mean.tolist(),
        "scale": standardiser.scale.tolist(),
    }


def _standardiser(fields: Mapping[str, Any], width: int) -> Standardiser:
    kept = np.array(fields["kept"])
    if kept.dtype != np.bool_ or kept.shape != (width,):
        raise ValueError(f"{width} features are expected, not {len(kept)}")
    count = int(kept.sum())
    return Standardiser(
        kept, _numbers(fields["mean"], count), _numbers(fields["scale"], count)
    )


def _regressor_fields(regressor: LinearRegressor) -> Fields:
    return {
        "standardiser": _standardiser_fields(regressor.standardiser),
        "degree": regressor.degree,
        "weights": regressor.weights.tolist(),
    }


def _regressor(fields: Mapping[str, Any], width: int) -> LinearRegressor:
    standardiser = _standardiser(fields["standardiser"], width)
    degree = int(fields["degree"])
    products = _products(standardiser, degree)
    return LinearRegressor(standardiser, degree, _numbers(fields["weights"], products))


def _products(standardiser: Standardiser, degree: int) -> int:
    """How many products of features `polynomial` gives."""
    return math.comb(int(standardiser.kept.sum()) + degree, degree)


def _tree_fields(learned: Learned) -> Fields:
    by_class = learned.leaves.by_class
    return {
        "leaves": {name: _regressor_fields(r) for name, r in by_class.items()},
        "pooled": _regressor_fields(learned.leaves.pooled),
        "standardiser": _standardiser_fields(learned.standardiser),
        "weights": learned.weights.tolist(),
    }


def _tree(method: TreeMethod, fields: Mapping[str, Any]) -> Learned:
    width = len(method.features.columns)
    leaves = {k: _regressor(v, width) for k, v in fields["leaves"].items()}
    standardiser = _standardiser(fields["standardiser"], width)
    is_sum = method.options.composition.weighting == "one"
    products = 1 if is_sum else _products(standardiser, method.options.degree)
    return Learned(
        LeafRegressors(leaves, _regressor(fields["pooled"], width)),
        standardiser,
        _numbers(fields["weights"], products + 1),  # the last one is the bias
    )


def _specs_fields(method: SpecsMethod) -> Fields:
    file_model = fitted(method.file_model_, method.name)
    return {
        "model": method.machine().to_dict(),
        "file_model": {
            "rates": {op: rates.tolist() for op, rates in file_model.rates.items()},
            "above_primitives": file_model.above_primitives,
            "above_modules": file_model.above_modules,
        },
    }


def _file_model(fields: Mapping[str, Any]) -> FileModel:
    rates = {op: _numbers(values, 3) for op, values in fields["rates"].items()}
    above = fields["above_primitives"], fields["above_modules"]
    return FileModel({"": rates[""], **rates}, float(above[0]), float(above[1]))
