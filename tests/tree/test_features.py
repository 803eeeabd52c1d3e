"""Measured values beside the energy, through everything a tree can become."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import FormatError, UsageError
from irene.tree import ModelTree

from ..made_up import tree_of_own
from .conftest import trees

VALUES = st.sampled_from((np.nan, 0.0, 0.5, 2.0))


@st.composite
def trees_with_features(draw):
    tree = draw(trees())
    columns = {
        name: np.array(
            draw(st.lists(VALUES, min_size=len(tree), max_size=len(tree))), float
        )
        for name in ("times_mean", "cpu")
    }
    return tree.with_features(columns)


@given(trees_with_features())
def test_they_survive_json_and_folding(tree):
    assert ModelTree.from_json(tree.to_json()) == tree
    assert tree.fold().unfold() == tree
    assert ModelTree.from_json(tree.fold().to_json()) == tree.fold()


@given(trees_with_features())
def test_they_stay_with_their_nodes(tree):
    cut = tree.at_level("module")
    kept = [node for node in tree.nodes() if node.kind != "ml"]
    assert [n.features for n in cut.nodes()] == [n.features for n in kept]


def test_layers_that_were_measured_apart_do_not_fold():
    tree = tree_of_own()
    times = np.arange(len(tree), dtype=float)
    assert any(node.count == 2 for node in tree.fold().nodes())
    apart = tree.with_features({"times_mean": times}).fold()
    assert all(node.count == 1 for node in apart.nodes())


def test_only_what_is_known_is_told():
    tree = tree_of_own()
    values = np.full(len(tree), np.nan)
    values[2] = 0.5
    tree = tree.with_features({"times_mean": values})
    document = json.loads(tree.to_json())
    assert "features" not in document["tree"]
    layer = document["tree"]["children"][0]
    assert layer["children"][0]["features"] == {"times_mean": 0.5}
    assert tree.find("layer.0.fc").features == {"times_mean": 0.5}
    assert tree.root.features == {}


def test_a_document_without_features_is_read_as_before():
    tree = tree_of_own()
    assert "features" not in tree.to_json()
    assert ModelTree.from_json(tree.to_json()).features == {}


def test_the_page_tells_the_latency():
    tree = tree_of_own()
    times = {"times_mean": np.full(len(tree), 0.00125), "cpu": np.full(len(tree), 98.0)}
    page = tree.with_features(times).to_html()
    assert "times 1.25 ms · cpu 98 %" in page


@pytest.mark.parametrize("values", [np.zeros(2), np.full(7, np.inf)])
def test_a_column_that_does_not_fit_is_refused(values):
    with pytest.raises(UsageError, match="times_mean"):
        tree_of_own().with_features({"times_mean": values})


@pytest.mark.parametrize("features", ['{"cpu": "a lot"}', "[1]", '{"cpu": 1e999}'])
def test_damaged_features_are_found(features):
    text = (
        tree_of_own()
        .to_json()
        .replace('"children"', f'"features": {features}, "children"', 1)
    )
    with pytest.raises(FormatError, match="corrupt"):
        ModelTree.from_json(text)
