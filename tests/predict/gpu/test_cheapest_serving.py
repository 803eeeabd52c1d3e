"""How the cheapest of measured servings is looked for, and what errors allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.serve_plan import (
    MANY,
    Configuration,
    Errors,
    allowed,
    by_prediction,
    curve_of,
    examine,
    most_often,
    repeats,
    with_margin,
)
from benchmarks.servings import Serving

NO_ERRORS = Errors(np.zeros((1, 2)), np.zeros((1, 2)))


def _serving(streams: int, gpus: int = 1) -> Serving:
    """More streams are slower and cheaper, more GPUs quicker and dearer."""
    step_s = (8 + streams / 4) / 1e3 / gpus**0.5
    joules = gpus**0.5 * 10 / streams
    return Serving(
        "lm-arena-chat", "some/Model", "h100", gpus, 1, "bfloat16", streams,
        float(streams), 500.0, 480.0, joules, step_s,
    )  # fmt: skip


SERVINGS = [_serving(8 * 2**i, gpus) for i in range(6) for gpus in (1, 2)]


@pytest.fixture
def exact() -> list[Configuration]:
    return [
        Configuration(each, each.j_per_token, each.step_s, others=NO_ERRORS)
        for each in SERVINGS
    ]


def test_exact_predictions_find_every_cheapest(exact: list[Configuration]) -> None:
    for choose in (by_prediction, with_margin, most_often):
        (row,) = examine(exact, {"": choose}).values()
        assert row["questions"] > 3
        assert (row["best"], row["near"], row["too_slow"]) == (1.0, 1.0, 0.0)


def test_times_said_too_short_are_too_slow(exact: list[Configuration]) -> None:
    hasty = [replace(each, step_s=0.5 * each.step_s) for each in exact]
    (row,) = examine(hasty, {"": by_prediction}).values()
    assert 0 < row["too_slow"] == 1 - row["best"]
    kept = [replace(each, margin=float(np.log(0.5))) for each in hasty]
    assert examine(kept, {"": with_margin})[""]["best"] == 1.0


def test_errors_are_those_of_curves_and_of_rows() -> None:
    curves = np.array(["b", "a", "b", "a", "c"])
    logs = np.array([(0.3, 0.1), (0.0, 0.2), (0.1, 0.1), (0.2, 0.0), (-0.4, 0.5)])
    found = Errors.of(logs, curves)
    np.testing.assert_allclose(found.of_curves, [(0, 0), (0.1, 0), (-0.5, 0.4)])
    np.testing.assert_allclose(found.own[0], (0.1, 0.0))
    shared = replace(found, own=np.zeros((1, 2)))
    off = shared.dealt(curves, 40, np.random.default_rng(1))
    assert off.shape == (40, 5, 2)
    np.testing.assert_array_equal(off[:, 0], off[:, 2])
    assert len(np.unique(off[:, 4, 0])) == 3


def test_what_is_mostly_said_too_quick_is_not_taken_near_the_limit() -> None:
    near, far = _serving(128), _serving(32)
    own = np.array([(-0.1, 0.0), (-0.1, 0.0), (0.2, 0.0)])
    some = [
        Configuration(each, each.j_per_token, step_s, others=Errors(own[:1] * 0, own))
        for each, step_s in ((near, 0.048), (far, 0.020))
    ]
    assert by_prediction(some, 0.05) is some[0]
    assert most_often(some, 0.05) is some[1]
    assert most_often(some, 0.06) is some[0]
    assert most_often(some, 0.001) is None
    assert MANY >= 100


def test_errors_allow_less_the_larger_they_are(exact: list[Configuration]) -> None:
    drawn = np.random.default_rng(3).normal(size=(10, len(exact), 2)) * (1.0, 0.0)
    shares = [allowed(exact, size * drawn, by_prediction) for size in (0, 0.1, 0.4)]
    assert shares[0].best == shares[0].near == 1.0
    assert shares[0].best > shares[1].best > shares[2].best
    assert all(each.low <= each.best <= each.high for each in shares)


def test_servings_measured_twice_are_told() -> None:
    one = SERVINGS[0]
    other = replace(one, step_s=1.1 * one.step_s, j_per_token=0.8 * one.j_per_token)
    ((name, apart),) = repeats([*SERVINGS, other]).items()
    assert name.startswith(curve_of(one))
    assert apart == pytest.approx((np.log(1.1), -np.log(0.8)))
