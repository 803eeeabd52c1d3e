"""A comparison as notebooks show it, and as a data frame."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from irene.analyse.comparison import compare

from ..analyse.made_trees import trees
from ..made_up import tree_of_own
from .test_notebook import shown, words


def test_what_differs_is_told_with_its_interval(predicted):
    found = compare(predicted("bert-l4-h256"), predicted("bert-l2-h128"), "sequence")
    text = words(shown(found))
    assert "bert-l4-h256 → bert-l2-h128: −" in text
    assert "per sequence" in text
    assert "a real difference: its interval leaves zero out" in text
    assert "feed-forward" in text
    assert f"{found.ratio - 1:+.1%}".replace("-", "−") in text


def test_a_tree_and_itself():
    tree = tree_of_own()
    text = words(shown(compare(tree, tree)))
    assert "no real difference" in text
    assert text.count("nothing differs") == 2


@settings(max_examples=15)
@given(trees(), trees())
def test_any_two_trees_can_be_shown(a, b):
    shown(compare(a, b))


def test_a_data_frame_adds_up_to_the_difference(predicted):
    pytest.importorskip("pandas")
    found = compare(predicted("bert-l4-h256"), predicted("bert-l2-h128"))
    for by in ("role", "path"):
        frame = found.to_pandas(by)
        assert frame.difference_j.sum() == pytest.approx(found.difference_j)
        assert list(frame.columns[:3]) == ["name", "base_j", "other_j"]
