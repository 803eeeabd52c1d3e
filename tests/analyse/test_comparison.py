"""Comparing: nothing with itself, the reverse for the reverse, sums that hold."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from irene.analyse.comparison import compare
from irene.errors import UsageError
from irene.tree import TreeBuilder

from ..made_up import tree_of_own, with_made_up_energy
from .made_trees import trees


@settings(max_examples=40)
@given(trees())
def test_a_tree_and_itself_do_not_differ(tree):
    found = compare(tree, tree)
    assert found.differences("role") == []
    assert found.differences("path") == []
    assert found.difference_j == 0
    assert not found.is_real
    assert found.ratio == pytest.approx(1)


@pytest.mark.parametrize(("more_j", "rows"), [(1e-6, 0), (1e-3, 1)])
def test_what_nobody_could_see_is_no_difference(more_j, rows):
    tree = tree_of_own()
    joules = tree.energy.joules + more_j * np.isin(np.arange(len(tree)), [0, 6])
    other = tree.with_energy(replace(tree.energy, joules=joules), tree.hardware)
    assert len(compare(tree, other).differences("path")) == rows


@settings(max_examples=40)
@given(trees(), trees())
def test_the_reverse_is_the_negative(a, b):
    there, back = compare(a, b), compare(b, a)
    assert there.difference_j == pytest.approx(-back.difference_j)
    assert there.half_j == pytest.approx(back.half_j)
    assert there.is_real == back.is_real
    for rows, others in ((there.by_role, back.by_role), (there.by_path, back.by_path)):
        reverse = {row.name: row for row in others}
        assert {row.name for row in rows} == set(reverse)
        for row in rows:
            other = reverse[row.name]
            for term in ("difference_j", "flops_j", "bytes_j", "efficiency_j"):
                mine, theirs = getattr(row, term), getattr(other, term)
                assert mine == pytest.approx(-theirs, abs=1e-9)


@settings(max_examples=40)
@given(trees(), trees())
def test_contributions_add_up_to_the_difference(a, b):
    found = compare(a, b, "sequence")
    for rows in (found.by_role, found.by_path):
        whole = math.fsum(row.difference_j for row in rows)
        assert whole == pytest.approx(found.difference_j, abs=1e-9)
        for row in rows:
            parts = row.flops_j + row.bytes_j + row.efficiency_j
            assert parts == pytest.approx(row.difference_j, abs=1e-9)
    assert json.loads(json.dumps(found.to_dict()))["schema"] == "irene.comparison/1"


def test_half_the_layers_is_half_the_work(predicted):
    found = compare(
        predicted("bert-base-uncased", batch_size=8, seq_len=128),
        predicted("distilbert-base-uncased", batch_size=8, seq_len=128),
    )
    assert found.aligned_by == "role"
    assert found.is_real
    assert found.ratio == pytest.approx(0.5, abs=0.02)
    rows = {row.name: row for row in found.by_role}
    feed_forward = rows["feed-forward"]
    assert abs(feed_forward.efficiency_j) < 0.02 * abs(feed_forward.difference_j)
    assert rows["head"].other_count == 0  # DistilBERT has no pooler


def test_another_machine_is_another_efficiency(predicted):
    tree = predicted("bert-l4-h256")
    found = compare(tree, with_made_up_energy(tree))
    for row in found.by_role:
        assert abs(row.flops_j) + abs(row.bytes_j) < 1e-9
        assert row.efficiency_j == pytest.approx(row.difference_j, abs=1e-9)


def test_equal_names_are_aligned_by_path(predicted):
    found = compare(predicted("bert-l4-h256"), predicted("bert-l4-h512"))
    assert found.aligned_by == "path"
    assert found.shared == pytest.approx(1)
    paths = {row.name for row in found.differences()}
    assert "encoder.layer.*.attention.self" in paths


def test_what_two_predictions_share_is_not_uncertain(predicted):
    sizes = {"batch_size": 8, "seq_len": 128}
    models = ("bert-base-uncased", "roberta-base", "bert-base-uncased")
    bert, roberta, again = (predicted(m, **sizes) for m in models)
    halves = [(e.high - e.low) / 2 for e in (bert.energy_of(0), roberta.energy_of(0))]
    found = compare(bert, roberta)
    assert found.half_j < 0.6 * math.hypot(*halves)
    same = compare(bert, again)
    assert (same.difference_j, same.half_j) == (0.0, 0.0)
    assert (same.found.ratio_low, same.found.ratio_high) == (1.0, 1.0)


def test_two_sources_with_overlapping_intervals_do_not_really_differ(predicted):
    tree = with_made_up_energy(predicted("bert-l2-h128"))
    near = with_made_up_energy(predicted("bert-l2-h128"))
    energy = near.energy
    scaled = type(energy)(
        energy.joules * 1.01,
        energy.low * 1.01,
        energy.high * 1.01,
        energy.source,
        "another predictor",
    )
    found = compare(tree, near.with_energy(scaled, near.hardware))
    assert found.differences("role")
    assert not found.is_real


def test_per_sequence_takes_the_batch_out(predicted):
    small, large = (predicted("gpt2", batch_size=b, seq_len=64) for b in (4, 16))
    run, sequence = compare(small, large), compare(small, large, "sequence")
    assert run.difference_j > 0 > sequence.difference_j
    assert sequence.base.energy_j == pytest.approx(run.base.energy_j / 4)
    token = compare(small, large, "token")
    assert token.base.energy_j == pytest.approx(run.base.energy_j / 256)


def test_what_cannot_be_compared_is_refused():
    builder = TreeBuilder()
    builder.add(-1, "", "model", "Model")
    with pytest.raises(UsageError, match="carries no energy"):
        compare(tree_of_own(), builder.build())
    with pytest.raises(UsageError, match="has no sizes"):
        compare(tree_of_own(), tree_of_own(), "sequence")
    with pytest.raises(UsageError, match="per must be one of"):
        compare(tree_of_own(), tree_of_own(), "year")
