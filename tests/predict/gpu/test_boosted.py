"""Trees as arrays answer as the trees they were made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irene.errors import FormatError
from irene.predict.machines.gpu.kernel_fitting import from_lightgbm
from irene.predict.machines.gpu.time_model import Boosted

NAMES = ("a", "b", "c")


def leaf(value: float) -> dict[str, Any]:
    return {"leaf_value": value}


def node(feature: int, threshold: float, left: Any, right: Any) -> dict[str, Any]:
    return {
        "split_feature": feature,
        "threshold": threshold,
        "left_child": left,
        "right_child": right,
    }


def dump(*trees: dict[str, Any]) -> dict[str, Any]:
    return {"tree_info": [{"tree_structure": tree} for tree in trees]}


def test_a_row_at_a_threshold_goes_left() -> None:
    trees = from_lightgbm(dump(node(0, 2.0, leaf(1.0), leaf(10.0))), NAMES)
    rows = np.array([[1.9, 0, 0], [2.0, 0, 0], [2.1, 0, 0]])
    assert trees.predict(rows).tolist() == [1.0, 1.0, 10.0]


def test_trees_of_any_form_add_up() -> None:
    deep = node(
        0, 1.0,
        node(1, 0.5, leaf(1.0), node(2, 0.0, leaf(2.0), leaf(3.0))),
        node(1, 2.0, leaf(4.0), leaf(5.0)),
    )  # fmt: skip
    trees = from_lightgbm(dump(deep, node(2, 0.0, leaf(100.0), leaf(200.0))), NAMES)
    rows = np.array([[0, 0, 9], [0, 1, -1], [0, 1, 1], [2, 1, 0], [2, 3, 1]], float)
    assert trees.predict(rows).tolist() == [201.0, 102.0, 203.0, 104.0, 205.0]
    again = Boosted.from_dict(trees.to_dict())
    assert again.predict(rows).tolist() == trees.predict(rows).tolist()


def test_no_rows_give_no_values() -> None:
    trees = from_lightgbm(dump(node(0, 2.0, leaf(1.0), leaf(10.0))), NAMES)
    assert trees.predict(np.zeros((0, 3))).tolist() == []


def test_answers_are_those_of_lightgbm() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 3))
    target = np.sin(3 * rows[:, 0]) + rows[:, 1] * (rows[:, 2] > 0)
    settings = {"num_leaves": 32, "verbose": -1, "num_threads": 1}
    grown = lightgbm.train(settings, lightgbm.Dataset(rows, target), 30)
    trees = from_lightgbm(grown.dump_model(), NAMES)
    assert trees.predict(rows) == pytest.approx(grown.predict(rows), abs=1e-3)


def test_places_outside_their_arrays_are_refused() -> None:
    trees = from_lightgbm(dump(node(0, 2.0, leaf(1.0), leaf(10.0))), NAMES)
    for name, value in {"tree": 1, "feature": 3, "first": -1, "count": 40}.items():
        with pytest.raises(FormatError, match="outside"):
            Boosted.from_dict({**trees.to_dict(), name: [value]})
