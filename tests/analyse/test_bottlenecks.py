"""Where the energy goes: shares add up, the paper's modules, what is wasted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from irene.analyse.bottlenecks import (
    VIEWS,
    BestRates,
    best_rates,
    find_bottlenecks,
    machine_rates,
)
from irene.analyse.parts import parts_of
from irene.errors import UsageError
from irene.trace.tracer import trace

from ..made_up import tree_of_own
from .made_trees import trees


@settings(max_examples=40)
@given(trees())
def test_every_view_adds_up_to_the_whole(tree):
    found = find_bottlenecks(tree)
    whole = tree.total()
    for rows in found.views.values():
        assert sum(row.energy_j for row in rows) == pytest.approx(whole.energy_j)
        assert sum(row.flops for row in rows) == whole.flops
        assert sum(row.share for row in rows) == pytest.approx(1)
        assert all(row.wasted_j >= 0 for row in rows)
        assert sum(row.wasted_j for row in rows) == pytest.approx(found.wasted_j)
    assert json.loads(json.dumps(found.to_dict()))["schema"] == "irene.bottlenecks/1"


@settings(max_examples=40)
@given(trees())
def test_the_top_reaches_its_share_and_no_smaller_set_does(tree):
    found = find_bottlenecks(tree)
    for view in VIEWS:
        top = found.top(0.9, view)
        shares = sorted((row.share for row in found.views[view]), reverse=True)
        assert sum(row.share for row in top) >= 0.9 - 1e-9
        assert sum(shares[: len(top) - 1]) < 0.9


def test_the_modules_of_the_papers_tables(predicted):
    classes = {
        row.name: row.share
        for row in find_bottlenecks(predicted("bert-base-uncased", batch_size=8)).views[
            "class"
        ]
        if row.share > 1e-6
    }
    assert set(classes) == {
        "BertSelfAttention",
        "BertIntermediate",
        "BertOutput",
        "BertSelfOutput",
        "BertEmbeddings",
        "BertPooler",
    }
    # Table 12: 29.26, 27.97, 31.89, 9.74 %, averaged over all sizes.
    assert 0.25 < classes["BertSelfAttention"] < 0.40
    assert 0.24 < classes["BertOutput"] < 0.35
    assert 0.07 < classes["BertSelfOutput"] < 0.12


def test_primitives_beside_modules_count_by_themselves(predicted):
    rows = find_bottlenecks(predicted("gpt2")).views["module"]
    names = {row.name for row in rows}
    assert {"h.*.mlp", "h.*.attn", "h.*.ln_1", "wte"} <= names
    assert not any(name.startswith("h.*.mlp.") for name in names)


def test_layers_are_counted_in_running_order(predicted):
    rows = find_bottlenecks(predicted("albert-base-v2")).views["layer"]
    layers = [row for row in rows if row.name.startswith("layer ")]
    assert [row.name for row in layers] == [f"layer {i}" for i in range(1, 13)]
    assert layers[0].share == pytest.approx(layers[-1].share)


def test_energy_without_a_child_stays_with_its_module():
    found = find_bottlenecks(tree_of_own())
    levels = {row.name: row.energy_j for row in found.views["level"]}
    assert levels == pytest.approx({"ml": 7.9025, "module": 2.0, "model": 0.0975})


def test_unknown_leaves_leave_their_energy_with_the_node_above():
    tree = tree_of_own()
    joules = tree.energy.joules.copy()
    joules[2] = np.nan
    holed = tree.with_energy(replace(tree.energy, joules=joules), tree.hardware)
    parts = {part.path: part.energy_j for part in parts_of(holed)}
    assert parts["layer.0"] == pytest.approx(4.0)
    assert sum(parts.values()) == pytest.approx(10.0)


def test_a_module_measured_below_its_children_wastes_nothing():
    """Nodes that were measured one by one need not add up."""
    tree = tree_of_own()
    joules = tree.energy.joules.copy()
    joules[1] = 2.0  # a layer whose product alone was measured at 3 J
    low = np.minimum(tree.energy.low, joules)
    energy = replace(tree.energy, joules=joules, low=low)
    found = find_bottlenecks(tree.with_energy(energy, tree.hardware))
    for rows in found.views.values():
        assert sum(row.energy_j for row in rows) == pytest.approx(10)
        assert all(row.wasted_j <= row.energy_j + 1e-9 for row in rows)


def test_a_product_is_bound_by_compute_and_a_sum_by_memory(predicted):
    tree = predicted("bert-base-uncased", batch_size=16, seq_len=128)
    rows = {row.name: row for row in find_bottlenecks(tree).views["primitive"]}
    assert rows["Linear"].bound == "compute"
    assert rows["add"].bound == "memory"
    assert rows["Linear"].flop_per_byte > find_bottlenecks(tree).best.ridge


def test_a_tiny_run_is_bound_by_overhead(predicted):
    found = find_bottlenecks(predicted("bert-l2-h128", batch_size=1, seq_len=8))
    assert found.views["level"][0].bound == "overhead"
    assert found.wasted_j > 0.5 * found.energy.joules


def test_nothing_is_wasted_at_the_best_rates():
    best = BestRates(1e-11, 1e-9, "made up")
    assert best.ridge == pytest.approx(100)
    assert best.at_best_j(1000, 1) == pytest.approx(1e-8)
    assert best.bound(1e-8, 1000, 1) == "compute"
    assert best.bound(2e-9, 10, 2) == "memory"
    assert best.bound(1.0, 10, 2) == "overhead"


def test_rates_of_the_machine_bound_those_of_the_tree(predicted):
    tree = predicted("bert-l2-h128", batch_size=1, seq_len=8)
    known = machine_rates(tree.hardware)
    alone = best_rates(parts_of(tree))
    both = best_rates(parts_of(tree), known)
    assert both.joules_per_flop <= min(alone.joules_per_flop, known.joules_per_flop)
    assert machine_rates(replace(tree.hardware, name="elsewhere")) is None
    assert machine_rates(replace(tree.hardware, predictor="pc1 other")) is None


def test_a_tree_without_energy_is_refused():
    with pytest.raises(UsageError, match="carries no energy"):
        find_bottlenecks(trace("bert-l2-h128", seq_len=8))


def test_a_folded_tree_answers_the_same(predicted):
    tree = predicted("bert-l4-h256")
    folded, flat = (find_bottlenecks(t).to_dict() for t in (tree.fold(), tree))
    for view, rows in flat["views"].items():
        for a, b in zip(rows, folded["views"][view], strict=True):
            assert a["name"] == b["name"]
            assert a["energy_j"] == pytest.approx(b["energy_j"])
