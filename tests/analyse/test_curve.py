"""Curves: what they find is what predictions at single sizes say."""

from __future__ import annotations

import pytest

import irene
from irene.errors import UsageError


def joules(model: str, **run: int) -> float:
    return irene.predict(model, **run).energy_of(0).joules


def test_a_point_is_a_prediction():
    found = irene.curve("bert-l2-h128", batch_size=2)
    assert found.most == 512
    assert found.points([9, 300]) == {
        size: irene.predict("bert-l2-h128", batch_size=2, seq_len=size).energy_of(0)
        for size in (9, 300)
    }
    assert list(found.points())[:2] == [1, 2]


def test_the_largest_length_under_a_budget():
    budget = joules("bert-base-uncased", seq_len=200)
    found = irene.curve("bert-base-uncased", least=2)
    assert found.largest_under(budget) == 200
    assert found.largest_under(budget * (1 - 1e-9)) == 199
    assert found.largest_under(1e9) == 512
    assert found.largest_under(0) is None


def test_from_which_batch_on_one_is_cheaper():
    small = irene.curve("bert-l2-h128", over="batch_size", least=2, seq_len=100)
    large = irene.curve("bert-base-uncased", over="batch_size", least=2, seq_len=100)
    assert small.cheaper_from(large) == 2
    assert large.cheaper_from(small) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [({"seq_len": 9}, "varies"), ({"most": 600}, "up to 512")],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(UsageError, match=words):
        irene.curve("bert-l2-h128", least=2, **given)
