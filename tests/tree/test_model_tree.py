from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import LimitError, UsageError
from irene.tree import OWN, EnergyColumns, ModelTree, TreeBuilder

from ..made_up import tree_of_own
from .conftest import trees


def small_tree() -> ModelTree:
    """A model of two equal layers, each a product and an addition, and a head."""
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model", params=50)
    for i in range(2):
        layer = builder.add(model, f"layer.{i}", "module", "Layer", params=20)
        builder.add(layer, "fc", "ml", "Linear", flops=100, bytes_read=7, params=20)
        builder.add(layer, "add", "ml", "add", flops=5, bytes_written=3)
    builder.add(model, "head", "ml", "Linear", flops=10, params=10)
    return builder.build()


def test_costs_of_children_are_in_their_parents():
    tree = small_tree()
    assert tree.root.flops == 220
    assert tree.find("layer.1").flops == 105
    assert tree.find("layer.1").bytes == 10
    assert (tree.total().flops, tree.total().bytes_read) == (220, 14)


def test_a_tree_says_its_energy_where_it_has_one():
    tree = small_tree()
    assert repr(tree) == "<ModelTree Model: 8 nodes>"
    joules = np.arange(8.0, 0, -1)
    source = np.zeros(8, np.uint8)
    energy = EnergyColumns(joules, joules * 0.9, joules * 1.1, source, "a test")
    used = tree.with_energy(energy)
    assert repr(used) == "<ModelTree Model: 8.00 J (7.20 – 8.80), 8 nodes>"


def test_nodes_are_found_by_path():
    node = small_tree().find("layer.1.fc")
    assert (node.op, node.kind, node.params, node.name) == ("Linear", "ml", 20, "fc")
    assert node.parent.path == "layer.1"
    assert [child.name for child in node.parent.children] == ["fc", "add"]
    with pytest.raises(KeyError, match=r"no node 'layer\.7'"):
        small_tree().find("layer.7")


def test_operators_add_up_to_the_total():
    costs = small_tree().by_operator()
    assert list(costs) == ["Linear", "add"]
    assert (costs["Linear"].calls, costs["Linear"].flops) == (3, 210)
    assert costs["add"].bytes_written == 6


def test_modules_are_listed_by_path():
    costs = small_tree().by_module()
    assert list(costs) == ["", "layer.0", "layer.1"]
    assert costs["layer.0"].flops == 105


def test_folding_makes_one_node_of_equal_layers():
    tree = small_tree().fold()
    assert len(tree) == 5
    layer = tree.root.children[0]
    assert (layer.count, layer.members) == (2, ("layer.0", "layer.1"))
    assert tree.node_count == 8
    assert tree.total() == small_tree().total()
    assert tree.by_operator() == small_tree().by_operator()
    assert "layer.0…1 ×2" in tree.table()


def test_layers_that_differ_stay_apart():
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model")
    for i, flops in enumerate((1, 2, 1)):
        builder.add(model, f"layer.{i}", "ml", "Linear", flops=flops)
    tree = builder.build()
    folded = tree.fold()
    assert [node.members for node in folded.root.children] == [
        ("layer.0", "layer.2"),
        ("layer.1",),
    ]
    assert folded.unfold() == tree


def test_trees_of_one_structure_fold_by_their_own_values():
    tree = small_tree()
    assert len(tree.fold()) == 5
    for own, rows in (([0, 1, 1, 1, 1, 1, 1, 1], 5), ([0, 1, 1, 1, 1, 2, 1, 1], 8)):
        joules = tree.columns.inclusive(np.array(own, float))
        source = np.zeros(8, np.uint8)
        energy = EnergyColumns(joules, joules, joules, source, "a test")
        used = tree.with_energy(energy)
        assert used.parents is tree.parents
        assert len(used.fold()) == rows
        assert used.fold().unfold() == used


def test_a_tree_that_was_folded_goes_to_another_process():
    tree = small_tree()
    folded = tree.fold()
    assert folded.find("layer.0.fc").call == 1
    for each in (tree, folded):
        assert pickle.loads(pickle.dumps(each)) == each


def test_siblings_without_a_number_are_not_folded():
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model")
    for name in ("query", "key", "value"):
        builder.add(model, name, "ml", "Linear", flops=1)
    assert len(builder.build().fold()) == 4


def test_calls_of_one_module_are_numbered_and_fold():
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model")
    for _ in range(3):
        group = builder.add(model, "shared", "module", "Layer")
        builder.add(group, "fc", "ml", "Linear", flops=1)
    tree = builder.build()
    assert [n.call for n in tree.nodes() if n.path == "shared.fc"] == [1, 2, 3]
    assert tree.find("shared.fc", call=3).row == 6
    folded = tree.fold()
    assert (folded.root.children[0].count, folded.unfold()) == (3, tree)


def test_a_module_called_from_elsewhere_keeps_its_path():
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model")
    decoder = builder.add(model, "decoder", "module", "Decoder")
    builder.add(decoder, "/shared", "ml", "Embedding")
    tree = builder.build()
    assert tree.find("shared").parent.path == "decoder"
    assert ModelTree.from_json(tree.to_json()) == tree


def test_cutting_keeps_costs():
    cut = small_tree().at_level("module")
    assert [node.kind for node in cut.nodes()] == ["model", "module", "module"]
    assert cut.total().flops == 220
    with pytest.raises(UsageError, match="level must be one of"):
        small_tree().at_level("layer")


def test_costs_past_63_bits_are_refused():
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model")
    builder.add(model, "a", "ml", "Linear", flops=2**62)
    builder.add(model, "b", "ml", "Linear", flops=2**62)
    with pytest.raises(LimitError, match="63 bits"):
        builder.build()
    builder.add(model, "c", "ml", "Linear", flops=2**70)
    with pytest.raises(LimitError, match="63 bits"):
        builder.build()


def test_energy_needs_one_value_per_node():
    ones = np.ones(3)
    energy = EnergyColumns(ones, ones, ones, np.zeros(3, np.uint8), "a test")
    with pytest.raises(UsageError, match="3 energies for a tree of 8"):
        small_tree().with_energy(energy)


def carrying(tree: ModelTree, own_j: list[float]) -> ModelTree:
    """The tree with energies of which every node adds its own to its children's."""
    joules = tree.columns.inclusive(np.array(own_j))
    source = np.zeros(len(tree), np.uint8)
    return tree.with_energy(EnergyColumns(joules, joules, joules, source, "a test"))


def test_energies_of_a_folded_tree_by_hand():
    # The model 1 J, each layer 0.5 J beside its product of 2 J and sum of 0.25 J.
    tree = carrying(small_tree(), [1, 0.5, 2, 0.25, 0.5, 2, 0.25, 1]).fold()
    assert [node.count for node in tree.nodes()] == [1, 2, 1, 1, 1]
    assert [node.energy.joules for node in tree.nodes()] == [7.5, 2.75, 2, 0.25, 1]
    assert [node.own_j for node in tree.nodes()] == [1, 0.5, 2, 0.25, 1]
    operators = {op: cost.energy_j for op, cost in tree.by_operator().items()}
    assert operators == {"Linear": 5.0, OWN: 2.0, "add": 0.5}
    modules = {path: cost.energy_j for path, cost in tree.by_module().items()}
    assert modules == {"": 7.5, "layer.0": 5.5}


@given(trees(with_energy=True))
def test_energies_of_a_folded_tree_add_up_as_those_of_the_whole(tree):
    folded = tree.fold()
    root_j = tree.root.energy.joules
    assert (folded.own_j * folded.multiplicity).sum() == pytest.approx(root_j)
    assert sum(c.energy_j for c in folded.by_operator().values()) == pytest.approx(
        root_j
    )
    whole = {op: cost.energy_j for op, cost in tree.by_operator().items()}
    found = {op: cost.energy_j for op, cost in folded.by_operator().items()}
    assert found == pytest.approx(whole)
    assert folded.by_module()[""].energy_j == pytest.approx(root_j)
    assert sum(c.energy_j for c in folded.by_module().values()) == pytest.approx(
        sum(c.energy_j for c in tree.by_module().values())
    )


@given(trees(with_energy=True))
def test_children_plus_own_is_the_total(tree):
    for node in tree.nodes():
        parts = sum(child.energy.joules * child.count for child in node.children)
        assert node.own_j + parts == pytest.approx(node.energy.joules)
    operators = tree.by_operator()
    assert operators[OWN].energy_j >= 0
    assert sum(c.energy_j for c in operators.values()) == pytest.approx(
        tree.total().energy_j
    )


@given(trees())
def test_folding_loses_nothing(tree):
    folded = tree.fold()
    assert folded.unfold() == tree
    assert folded.fold() == folded
    assert folded.node_count == len(tree)
    before, after = tree.total(), folded.total()
    assert (after.calls, after.flops, after.bytes) == (
        before.calls,
        before.flops,
        before.bytes,
    )


@given(trees())
def test_what_becomes_equal_folds_as_in_the_whole_tree(tree):
    def without_costs(of):
        return of._derive(replace(of.columns, flops=np.zeros_like(of.columns.flops)))

    again = without_costs(tree.fold()).fold()
    assert again == without_costs(tree).fold()
    assert again.unfold() == without_costs(tree)


@given(trees(), st.sampled_from(("module", "ml", "math")))
def test_a_folded_tree_is_cut_as_the_whole_one(tree, level):
    cut = tree.fold().at_level(level)
    assert cut.unfold() == tree.at_level(level)
    assert cut == tree.at_level(level).fold() or not tree.fold().members


@given(trees())
def test_json_is_lossless(tree):
    assert ModelTree.from_json(tree.to_json()) == tree
    folded = tree.fold()
    again = ModelTree.from_json(folded.to_json())
    assert again == folded
    assert again.unfold() == tree


@given(trees())
def test_walking_visits_every_node_once(tree):
    rows = [node.row for node in tree.root.walk()]
    assert rows == list(range(len(tree)))
    for node in tree.nodes():
        assert all(child.parent == node for child in node.children)


def test_a_table_shows_energy_where_there_is_some():
    lines = tree_of_own().table().splitlines()
    assert lines[0].split() == [
        "op",
        "energy",
        "share",
        "interval",
        "FLOPs",
        "bytes",
        "params",
    ]
    assert re.search(r"layer.0…1 ×2 +Layer +8\.00 J +80\.0% +±10%", "\n".join(lines))
    assert len({len(line.rstrip()) for line in lines[:2]}) == 1


def test_a_table_leaves_out_what_costs_next_to_nothing():
    builder = TreeBuilder()
    root = builder.add(-1, "", "model", "Model")
    builder.add(root, "view", "ml", "view")
    builder.add(root, "product", "ml", "Linear", flops=10**9)
    tree = builder.build()
    *shown, hidden = tree.table().splitlines()
    assert [line.split()[0] for line in shown] == ["op", "(model)", "product"]
    assert hidden == "nodes that cost nothing, not shown: 1"
    assert f"% {hidden}" in tree.to_latex()


def test_a_table_for_papers_compiles_and_can_be_cited():
    text = tree_of_own().to_latex(depth=1)
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len({row.count(" & ") for row in rows}) == 1
    assert r"layer.0\dots{}1 $\times$2 & Layer & 8.00 J & 80.0\% & $\pm$10\%" in text
    assert (
        "% Model · predicted for pc1 (a desk) · covers wall · by made-up rates 1"
        in text
    )
