"""Intervals: how wide they are, and what that promises."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.energy import Difference, Energy, difference
from irene.predict.api import predict
from irene.predict.exams.crossvalidation import Errors
from irene.predict.intervals import (
    BEYOND,
    COVERAGE,
    LEVELS,
    Beyond,
    Doubt,
    Widths,
    covering_error,
    group_width,
    log_errors,
    mean_percent,
    own_and_drift,
    widths_of,
    with_beyond,
    worth_saying,
)
from irene.tree import KINDS, ModelTree
from tests.made_up import tree_of_own
from tests.tree.conftest import trees

ERRORS = st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=60)
WIDTHS = Widths(
    {"ml": 0.1, "module": 0.2, "model": 0.3}, {"ml": 0.4, "module": 0.5, "model": 0.6},
    streams=0.25, own=0.1, beyond={"tokens": 0.02}, drift=0.05,
)  # fmt: skip


def of_levels(errors: list[float]) -> dict[str, np.ndarray]:
    return {level: np.array(errors) for level in LEVELS}


def test_nine_of_ten_nodes_are_to_be_covered() -> None:
    assert COVERAGE == 0.9


@pytest.mark.parametrize(
    ("count", "rank"),
    [(1, 1), (8, 8), (9, 9), (10, 10), (19, 18), (20, 19), (39, 36), (99, 90)],
)
def test_the_rank_is_that_of_one_more(count: int, rank: int) -> None:
    """The least k errors with k ≥ 0.9 (n + 1): a new node is one of n + 1."""
    assert covering_error(np.arange(1.0, count + 1)) == rank


def test_errors_count_by_size_and_only_where_there_are_any() -> None:
    assert covering_error([0.1, -0.4, math.nan]) == 0.4
    assert math.isnan(covering_error([math.nan]))
    assert math.isnan(covering_error([]))


@given(ERRORS)
def test_an_error_covers_what_is_promised(errors: list[float]) -> None:
    width = covering_error(errors)
    inside = sum(abs(error) <= width for error in errors)
    assert inside >= min(0.9 * (len(errors) + 1), len(errors)) - 1e-9
    # and no smaller one of them does
    less = [abs(error) for error in errors if abs(error) < width]
    assert len(less) < 0.9 * (len(errors) + 1)


@given(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=8), st.floats(0.0, 2.0))
def test_a_width_covers_all_groups_but_one(errors: list[float], more: float) -> None:
    width = group_width(errors)
    assert sum(error <= width for error in errors) >= len(errors) - 1
    # a group that errs more never makes it narrower
    worse = [max(error, more) for error in errors]
    assert group_width(worse) >= width


@pytest.mark.parametrize(
    ("errors", "width"),
    [
        ([0.1], 0.1 * 3.8385),  # Student's t over the normal: 6.3138 / 1.6449
        ([0.1, 0.5], 0.1 * 3.8385),
        ([0.1, 0.2, 0.9], 0.2 * 1.7752),  # 2.9200 / 1.6449
        ([0.1, math.nan, 0.2, 0.9], 0.2 * 1.7752),
        ([math.nan], 0.0),
    ],
)
def test_one_odd_group_does_not_decide_and_few_are_wide(errors, width) -> None:
    assert group_width(errors) == pytest.approx(width, rel=1e-4)
    assert widths_of([of_levels([e]) for e in errors])["ml"] == group_width(errors)


@given(st.lists(st.tuples(ERRORS, ERRORS), min_size=1, max_size=6))
def test_a_module_is_never_surer_than_the_whole(groups) -> None:
    several = [
        {"ml": np.zeros(1), "module": np.array(module), "model": np.array(model)}
        for module, model in groups
    ]
    widths = widths_of(several)
    each = [group_width([covering_error(g[k]) for g in several]) for k in LEVELS[1:]]
    assert widths == {"ml": 0.0, "module": max(each), "model": each[1]}


def test_widths_go_by_level_and_by_what_was_measured() -> None:
    kinds = np.array([KINDS.index(kind) for kind in ("model", "module", "ml", "math")])
    direct, indirect = np.zeros(4, dtype=bool), np.ones(4, dtype=bool)
    np.testing.assert_array_equal(WIDTHS.of(kinds, direct), [0.3, 0.2, 0.1, 0.1])
    # what nobody measured alone is at least as wide as rates of streams differ
    np.testing.assert_array_equal(WIDTHS.of(kinds, indirect), [0.3, 0.25, 0.25, 0.25])
    assert WIDTHS.rate("tokens") == 0.02
    assert WIDTHS.rate("group") == BEYOND["group"]


def test_what_two_runs_differ_by_is_their_own_and_how_far_they_drift() -> None:
    """Widths of 0.1 of their own and 0.05 for an octave: √(2 · 0.01 + 3 · 0.0025)."""

    def energy(tokens: int) -> Energy:
        ends = math.exp(-0.3), math.exp(0.3)
        shared = WIDTHS.shared("rates", tokens)
        return Energy(1.0, *ends, "predicted", "made up", (shared,))

    shared = WIDTHS.shared("rates", 1024)
    assert shared.width == pytest.approx(math.sqrt(0.3**2 - 0.1**2))
    same, far = (difference(energy(1024), replace(energy(n), joules=1.1))
                 for n in (1024, 8192))  # fmt: skip
    assert same.ratio_high == pytest.approx(1.1 * math.exp(0.1 * math.sqrt(2)))
    linear = 2 * 0.1**2 + 3 * 0.05**2
    assert far.ratio_high is not None
    assert math.log(far.ratio_high / 1.1) == pytest.approx(math.sqrt(linear), rel=0.02)
    # However far, errors are at most their own.
    away = difference(energy(1), replace(energy(10**12), joules=1.1))
    assert away.ratio_high is not None
    assert math.log(away.ratio_high / 1.1) < math.hypot(0.3, 0.3)
    assert difference(energy(8), energy(8)) == Difference(0.0, 0.0, 1.0, 1.0, 1.0)
    assert shared.place == {"tokens": pytest.approx(10 * 0.05**2)}
    assert replace(WIDTHS, own=0.5).shared("rates", 8).width == 0.0
    # Where nothing was held out, half of the square is its own.
    unknown = replace(WIDTHS, own=None).shared("rates", 8).width
    assert unknown == pytest.approx(0.3 * math.sqrt(0.5))


def errors_at(tokens: int, *errors: float) -> dict[str, np.ndarray]:
    return {"model": np.array(errors), "tokens": np.full(len(errors), float(tokens))}


def test_what_runs_do_not_share_is_what_their_errors_differ_by() -> None:
    """Three runs: squares of 0.01, 0.04, 0.09, of which 90 % are within 0.08."""
    groups = [errors_at(8, 0.1), errors_at(8, 0.2, 0.4, math.nan)]
    own, drift = own_and_drift(groups)
    assert own == pytest.approx(math.sqrt(0.08 / 2))
    assert drift == 0.0
    assert own_and_drift([errors_at(8, 0.1)]) == (None, 0.0)
    assert own_and_drift([]) == (None, 0.0)
    assert own_and_drift([errors_at(8, 0.1), errors_at(16, 0.1)]) == (0.0, 0.0)


def test_errors_that_drift_with_size_are_told_from_those_of_single_runs() -> None:
    """Noise of 0.01 on a walk of 0.02 for an octave, both by 1.645 for 90 %."""
    rng = np.random.default_rng(7)
    groups = []
    for _ in range(40):
        walk = np.cumsum(rng.normal(0.0, 0.02, 12))
        noise = rng.normal(0.0, 0.01, (3, 12))
        groups.append(
            {
                "model": (walk - walk.mean() + noise).ravel(),
                "tokens": np.tile(2.0 ** np.arange(12), 3),
            }
        )
    of_one = [own_and_drift([group]) for group in groups]
    own = np.mean([own for own, _ in of_one if own is not None])
    # One group is widened by Student's t over the normal: 3.8385.
    drift = np.mean([drift for _, drift in of_one]) / 3.8385
    assert own == pytest.approx(1.645 * 0.01, rel=0.15)
    assert drift == pytest.approx(1.645 * 0.02, rel=0.15)


@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 20)), min_size=2))
def test_nine_of_ten_pairs_are_within_what_was_found(runs) -> None:
    errors, octaves = (np.array(each, dtype=float) for each in zip(*runs, strict=True))
    own, drift = own_and_drift([{"model": errors, "tokens": 2.0**octaves}])
    assert own is not None
    first, second = np.triu_indices(len(errors), 1)
    half = np.sqrt(2 * own**2 + drift**2 * np.abs(octaves[first] - octaves[second]))
    off = np.abs(errors[first] - errors[second])
    assert (off <= half * (1 + 1e-9) + 1e-2).mean() >= 0.9 - 1.01 / len(off)


def test_widths_come_back_from_their_values() -> None:
    assert Widths.from_dict(WIDTHS.to_dict()) == WIDTHS


def test_errors_are_of_logarithms_and_means_of_percent() -> None:
    errors = log_errors(np.array([2.0, np.nan, 1.0]), np.array([1.0, 1.0, 1.0]))
    np.testing.assert_allclose(errors, [math.log(2.0), np.nan, 0.0])
    groups = [of_levels([math.log(1.1)]), of_levels([math.log(1.3), math.nan])]
    assert mean_percent(groups) == dict.fromkeys(LEVELS, 20.0)
    several = of_levels([math.log(1.1), math.log(1.3), math.log(1.5)])
    assert mean_percent([several, groups[0]]) == dict.fromkeys(LEVELS, 20.0)
    assert mean_percent([of_levels([math.nan])]) == dict.fromkeys(LEVELS)


def test_coverage_of_a_round_is_by_the_width_of_the_others() -> None:
    from irene.predict.exams.crossvalidation import _Round

    level = np.array([KINDS.index("ml")] * 4)
    held_out = _Round(np.array([[1.0, 2.0, 3.0, 4.0]]), level, 0)
    others = [Errors(0.7, 1.0, 1.0), Errors(9.0, 1.0, 1.0)]
    assert held_out.covered(others).ml == 50.0  # within 0.7 · 3.84
    assert held_out.covering().ml == 4.0


def beyond_of(tree: ModelTree, doubt: np.ndarray, cause: str = "far") -> Beyond:
    assert tree.energy is not None
    joules = tree.energy.joules
    own_j = tree.columns.own(joules)
    return Beyond.of(tree, own_j, [Doubt(cause, "far away", doubt)])[0]


def test_what_lies_beyond_is_weighed_by_its_energy() -> None:
    """A head of 1.9 of 10 J is ± 0.5: the whole is ± 0.095, layers are what they were;
    what equal layers have in common adds up, 6 of 10 J at 0.5."""
    tree = tree_of_own()
    head = beyond_of(tree, np.array([0, 0, 0, 0, 0, 0, 0.5]))
    np.testing.assert_allclose(head.widths, [0.095, 0, 0, 0, 0, 0, 0.5])
    assert head.share == pytest.approx(0.19)
    assert head.note() == (
        "extrapolation: 19% of the energy is far away; that alone leaves it ± 10 %"
    )
    products = beyond_of(tree, np.array([0, 0, 0.5, 0, 0.5, 0, 0]), "products")
    np.testing.assert_allclose(products.widths[:3], [0.3, 0.375, 0.5])
    assert products.note() == (
        "extrapolation: 60% of the energy is far away; that alone leaves it ± 35 %"
    )
    widths = with_beyond(np.full(7, 0.04), [head, products])
    assert widths[0] == pytest.approx(math.sqrt(0.04**2 + 0.095**2 + 0.3**2))
    # the largest first; what adds little to the interval is not said
    said = worth_saying(np.full(7, 0.04), [head, products])
    assert [each.cause for each in said] == ["products", "far"]
    far_more = beyond_of(tree, np.full(7, 0.8), "everything")
    said = worth_saying(np.full(7, 0.04), [head, products, far_more])
    assert [each.cause for each in said] == ["everything", "products"]
    assert worth_saying(np.full(7, 0.5), [head, products]) == [products]
    assert worth_saying(np.full(7, 2.0), [head, products]) == []


@given(trees(with_energy=True), st.data())
def test_what_is_unmeasured_never_makes_an_interval_narrower(
    tree: ModelTree, data: st.DataObject
) -> None:
    """Nor does being farther away, or more of it; and folding changes nothing."""
    doubts = st.lists(st.floats(0, 2), min_size=len(tree), max_size=len(tree))
    doubt, more = (np.array(data.draw(doubts)) for _ in range(2))
    found, farther = beyond_of(tree, doubt), beyond_of(tree, doubt + more)
    assert (farther.widths >= found.widths - 1e-12).all()
    assert farther.share >= found.share - 1e-12
    inside = np.full(len(tree), 0.1)
    wider = with_beyond(inside, [found])
    assert (wider >= inside).all()
    assert (with_beyond(inside, [found, farther]) >= wider).all()
    assert found.width <= doubt.max() + 1e-12
    alike = beyond_of(tree.fold(), np.full(len(tree.fold()), 0.3))
    assert alike.width == pytest.approx(beyond_of(tree, np.full(len(tree), 0.3)).width)


BERT = {
    (8, 128, "fp32"): (14.051343002691, 0.027008414449140337, 0.027008414449140337),
    (64, 512, "fp32"): (490.839324508662, 0.11512492716082748, 0.11515490575493945),
    (8, 128, "fp16"): (11.968788383328187, 0.7005208451225513, 0.7005208451224391),
}
"""Energy of the model, J, and half-widths of the intervals of model and layer."""


@pytest.mark.parametrize("run", BERT)
def test_intervals_of_bert_on_pc1(run: tuple[int, int, str]) -> None:
    batch_size, seq_len, dtype = run
    sizes = {"batch_size": batch_size, "seq_len": seq_len, "dtype": dtype}
    tree = predict("bert-base-uncased", on="pc1", **sizes)
    whole, layer = tree.energy_of(0), tree.find("encoder.layer.0").energy
    assert whole is not None
    assert layer is not None
    energy_j, model_width, layer_width = BERT[run]
    assert whole.joules == pytest.approx(energy_j, rel=1e-9)
    for energy, width in ((whole, model_width), (layer, layer_width)):
        assert math.log(energy.high / energy.joules) == pytest.approx(width, rel=1e-9)
        assert math.log(energy.joules / energy.low) == pytest.approx(width, rel=1e-9)
