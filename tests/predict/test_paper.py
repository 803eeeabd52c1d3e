"""The paper's methods: known truths, and the numbers that were published."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.dataset import NodeTable
from irene.errors import UsageError
from irene.predict import Errors, crossvalidate, make_method, make_split
from irene.predict.paper import (
    FEATURE_SETS,
    Composition,
    FeatureSet,
    TreeMethod,
    Utilisation,
)
from irene.predict.paper.folded_trees import FoldedTree, FoldedTrees
from irene.predict.paper.regressors import LinearRegressor, Standardiser, polynomial
from irene.predict.paper.tree_method import Adam, Example

Grow = Callable[[float], NodeTable]
LEARNED = ("irene", "stepwise", "sum", "unstructured")


def score(table: NodeTable, method: str, seeds: int = 1, **options) -> Errors:
    """Node-weighted errors, leave one model out, %."""
    result = crossvalidate(
        table,
        lambda seed: make_method(method, seed=seed, **options),
        make_split("model"),
        range(seeds),
    )
    return result.node_weighted


# Known truths


def test_sum_is_exact_where_parents_are_sums(grow: Grow) -> None:
    errors = score(grow(1.0), "sum")
    assert max(errors.ml, errors.module, errors.model) < 1e-6


def test_sum_misses_what_parents_add(grow: Grow) -> None:
    errors = score(grow(1.05), "sum")
    assert errors.ml < 1e-6
    assert errors.module == pytest.approx(100 * (1 - 1 / 1.05))
    assert errors.model == pytest.approx(100 * (1 - 1 / 1.05**2))


@pytest.mark.parametrize("method", ["irene", "stepwise"])
def test_the_weighted_tree_finds_the_factor_of_its_parents(
    grow: Grow, method: str
) -> None:
    errors = score(grow(1.05), method, degree=1, epochs=100, learning_rate=1e-2)
    assert errors.ml < 1e-6
    assert errors.module < 0.2
    assert errors.model < 0.2


def test_tau_bounds_the_factor(grow: Grow) -> None:
    table = grow(1.3)
    wide = score(table, "irene", tau=2.0, degree=1, epochs=50, learning_rate=1e-2)
    narrow = score(table, "irene", tau=10.0, degree=1, epochs=50, learning_rate=1e-2)
    assert wide.module < 2
    assert narrow.module > 100 * (1 - 1.1 / 1.3) - 1e-9


def test_a_primitive_never_seen_gets_a_number(grow: Grow) -> None:
    table = grow(1.0)
    linear = [i for i, key in enumerate(table.keys) if key.model.startswith("a")]
    conv = [i for i, key in enumerate(table.keys) if key.model.startswith("b")]
    method = make_method("irene").fit(table.take(linear))
    assert np.isfinite(method.predict(table.take(conv))).all()


def test_utilisation_is_its_formula(grow: Grow) -> None:
    method = Utilisation(cpu_w=100, idle_share=0.5, memory_w=10, pue=2)
    table = grow(1.0)
    predicted_j = method.fit(table).predict(table)
    # CPU 8 %, one second, one joule of NVML
    assert predicted_j == pytest.approx(2 * (100 * (0.5 + 0.5 * 0.08) + 10 + 1))


# The shape of a method


@pytest.mark.parametrize("method", LEARNED)
def test_a_method_that_is_not_fitted_says_so(grow: Grow, method: str) -> None:
    with pytest.raises(UsageError, match="not fitted"):
        make_method(method).predict(grow(1.0))


@pytest.mark.parametrize("method", LEARNED)
def test_a_node_without_energy_cannot_be_learned(grow: Grow, method: str) -> None:
    table = grow(1.0)
    unknown = replace(table, energy_j=np.full(len(table), np.nan))
    with pytest.raises(UsageError, match="energy"):
        make_method(method).fit(unknown)
    with pytest.raises(UsageError, match="energy"):
        make_method(method).fit(table.take([]))


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no method 'x'.*irene"):
        make_method("x")
    with pytest.raises(UsageError, match=r"no features 'x'.*resource"):
        make_method("irene", features="x")


def test_a_seed_decides_everything(grow: Grow) -> None:
    table = grow(1.05)
    one, again, other = (
        make_method("irene", seed=seed).fit(table).predict(table) for seed in (1, 1, 2)
    )
    assert (one == again).all()
    assert (one != other).any()


def test_a_new_feature_needs_no_new_regressor(grow: Grow) -> None:
    table = grow(1.0)
    truth = table.energy_j.copy()
    told = FeatureSet("told", {"answer": lambda _: truth})
    predicted_j = TreeMethod("irene", told).fit(table).predict(table)
    assert predicted_j[table.rows("ml")] == pytest.approx(truth[table.rows("ml")])


# Features


def test_feature_sets_are_those_of_table_8() -> None:
    model, resource = FEATURE_SETS["model"].columns, FEATURE_SETS["resource"].columns
    assert set(FEATURE_SETS["all"].columns) == {*model, *resource}
    assert set(model) & set(resource) == {"num_parameters", "input_size"}


@given(
    n=st.integers(1, 4), degree=st.integers(0, 3), seed=st.integers(0, 2**32 - 1)
)  # fmt: skip
def test_polynomial_has_every_product_once(n: int, degree: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(3, n))
    products = [
        values[:, list(factors)].prod(axis=1)
        for size in range(degree + 1)
        for factors in itertools.combinations_with_replacement(range(n), size)
    ]
    found = polynomial(values, degree)
    assert found.shape == (3, math.comb(n + degree, degree))
    assert np.sort(found[0]) == pytest.approx(np.sort([p[0] for p in products]))


def test_standardiser_drops_what_tells_nothing() -> None:
    values = np.array([[1.0, np.nan, 7.0], [3.0, np.nan, 7.0], [np.nan, np.nan, 7.0]])
    standardiser = Standardiser.fit(values, np.ones(3))
    assert standardiser.kept.tolist() == [True, False, False]
    assert standardiser.apply(values).tolist() == [[-1.0], [1.0], [0.0]]


def test_counts_are_copies() -> None:
    values, energy_j = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 3.0, 4.0])
    count = np.array([1, 3, 2])
    folded = LinearRegressor.fit(values, energy_j, count.astype(float))
    copies = LinearRegressor.fit(
        np.repeat(values, count, axis=0), np.repeat(energy_j, count), np.ones(6)
    )
    assert folded.predict(values) == pytest.approx(copies.predict(values))


# Folding and the gradient


def test_equal_layers_fold(grow: Grow) -> None:
    table = grow(1.05).take([0])  # three equal layers
    folded = FoldedTrees.of(table)
    assert len(folded.row) == 5  # model, layer, three primitives
    assert folded.trees[0].children.sum(axis=1).tolist() == [3, 3, 0, 0, 0]
    assert sorted(folded.count) == [1, 3, 3, 3, 3]
    assert (table.energy_j[folded.row][folded.node] == table.energy_j).all()


def test_nodes_that_differ_below_do_not_fold(grow: Grow) -> None:
    table = grow(1.0).take([0])
    energy_j = table.energy_j.copy()
    energy_j[table.path.index("h.1.up")] *= 2
    folded = FoldedTrees.of(replace(table, energy_j=energy_j))
    assert len(folded.row) == 7  # one layer and its changed primitive more


@pytest.mark.parametrize("weighting", ["near-one", "free", "one"])
def test_a_folded_tree_adds_up_as_the_whole_tree(grow: Grow, weighting: str) -> None:
    table = grow(1.05)
    method = make_method("irene", weighting=weighting).fit(table)
    predicted_j = method.predict(table)
    learned = method.learned_
    values = method.features.matrix(table)
    columns = method._columns(learned.standardiser, values)
    alpha = method.composition.alpha(learned.weights, columns)[0]
    summed = np.zeros(len(table))
    for row in range(len(table) - 1, 0, -1):  # children stand below their parents
        if table.parent[row] >= 0:
            summed[table.parent[row]] += alpha[row] * predicted_j[row]
    parents = table.has_children
    assert predicted_j[parents] == pytest.approx(summed[parents])


@pytest.mark.parametrize("stepwise", [False, True])
@pytest.mark.parametrize("weighting", ["near-one", "free", "one"])
def test_the_gradient_is_the_slope_of_the_loss(weighting, stepwise: bool) -> None:
    random = np.random.default_rng(0)
    children = np.zeros((6, 6))
    # Node 2 is below both 0 and 1, as folded nodes may be.
    for parent, child, times in [(0, 1, 3), (0, 2, 1), (1, 2, 2), (1, 3, 1), (2, 4, 4)]:
        children[parent, child] = times
    children[2, 5] = 1
    leaf = children.sum(axis=1) == 0
    example = Example(
        FoldedTree(slice(0, 6), children, 3),
        random.normal(size=(6, 4)),
        np.where(leaf, random.uniform(1, 2, 6), 0.0),
        random.uniform(1, 20, 6),
        np.where(leaf, 0.0, random.uniform(0.5, 2, 6)),
    )
    composition = Composition(weighting, 3.0, stepwise)
    weights, step = random.normal(size=4), 1e-6
    slopes = [
        (
            composition.loss(weights + step * axis, example)[0]
            - composition.loss(weights - step * axis, example)[0]
        )
        / (2 * step)
        for axis in np.eye(4)
    ]
    assert composition.loss(weights, example)[1] == pytest.approx(
        slopes, rel=1e-5, abs=1e-6
    )


def test_adam_starts_with_steps_of_the_learning_rate() -> None:
    weights = np.zeros(3)
    Adam(3, 0.01).step(weights, np.array([5.0, -1e-3, 0.0]))
    assert weights == pytest.approx([-0.01, 0.01, 0.0], rel=1e-4)


# The paper, on the data it published (Tables 5 to 9)


def test_sum_is_that_of_table_9(pc1: NodeTable) -> None:
    errors = score(pc1, "sum")
    assert errors.ml == pytest.approx(0.70, abs=0.005)
    assert errors.module == pytest.approx(16.40, abs=0.005)
    assert errors.model == pytest.approx(17.69, abs=0.005)


@pytest.mark.parametrize(
    ("method", "features", "ml", "module", "model"),
    [
        ("irene", "all", 0.75, 8.8, 6.9),
        ("irene", "model", 5.9, 11.8, 7.8),
        ("irene", "resource", 0.65, 9.1, 7.3),
        ("stepwise", "all", 0.75, 9.5, 15.0),
    ],
)
def test_errors_are_at_most_those_of_the_paper(
    pc1: NodeTable, method: str, features: str, ml: float, module: float, model: float
) -> None:
    errors = score(pc1, method, 3, features=features)
    assert errors.ml <= ml
    assert errors.module <= module
    assert errors.model <= model


def test_module_errors_are_those_of_table_6(pc1: NodeTable) -> None:
    result = crossvalidate(
        pc1, lambda seed: make_method("irene", seed=seed), make_split("model"), range(2)
    )
    published = {
        "bert-base-uncased": 5.37,
        "distilbert-base-uncased": 5.93,
        "roberta-base": 5.44,
        "gpt2": 14.92,
        "distilgpt2": 14.73,
        "openai-gpt": 13.98,
    }
    found = {row.held_out: row.errors.module for row in result.rows}
    assert found == pytest.approx(published, abs=0.7)


def test_without_the_tree_measured_features_suffice(pc1: NodeTable) -> None:
    errors = score(pc1, "unstructured", degree=1)
    assert max(errors.ml, errors.module, errors.model) < 0.6


def test_the_software_estimate_is_as_far_off_as_in_table_5(pc1: NodeTable) -> None:
    assert score(pc1, "utilisation").model == pytest.approx(57.8, abs=10)
    assert score(pc1, "utilisation", pue=1).model < 6
