"""A predictor on disk, and what the shipped one says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import irene
from irene.dataset import NodeTable, TreeKey
from irene.errors import FormatError, UsageError
from irene.predict.machines.finding import (
    find_machine,
    find_trained,
    known_predictors,
)
from irene.predict.machines.predictor import Predictor
from irene.tree import ModelTree

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def pc1_predictor() -> Predictor:
    return find_trained("pc1")


@pytest.fixture(scope="module")
def bert() -> ModelTree:
    return irene.trace("bert-base-uncased", batch_size=16, seq_len=128)


@pytest.fixture(scope="module")
def predicted(pc1_predictor: Predictor, bert: ModelTree) -> ModelTree:
    return pc1_predictor.predict(bert)


# On disk


def test_a_saved_predictor_predicts_the_same(
    pc1_predictor: Predictor, predicted: ModelTree, bert: ModelTree, tmp_path: Path
) -> None:
    pc1_predictor.save(tmp_path / "machine.json")
    again = find_trained(str(tmp_path / "machine.json"))
    assert again.hardware == pc1_predictor.hardware
    assert again.to_dict() == pc1_predictor.to_dict()
    assert again.predict(bert).to_json() == predicted.to_json()


@pytest.mark.parametrize("name", known_predictors())
def test_shipped_files_are_small_and_whole(name: str) -> None:
    assert known_predictors()[name].stat().st_size < MEGABYTE
    assert find_trained(str(known_predictors()[name])).hardware.name == name


def damaged(change) -> bytes:
    fields = json.loads(known_predictors()["pc1"].read_bytes())
    change(fields)
    return json.dumps(fields).encode()


def another_rate(fields: dict) -> None:
    fields["model"]["composition"]["launch_j"] *= 2


DAMAGE = {
    "empty": (b"", "not JSON"),
    "not text": (b"\xff\xfe\x00", "not JSON"),
    "truncated": (known_predictors()["pc1"].read_bytes()[:5000], "not JSON"),
    "a list": (b"[1, 2]", "not an object"),
    "nested too deeply": (b"[" * 100_000, "not JSON"),
    "foreign": (b'{"schema": "irene.tree/1"}', "schema is 'irene.tree/1'"),
    "newer": (
        damaged(lambda f: f.update(schema="irene.predictor/2")),
        "a newer file needs a newer irene",
    ),
    "another digest": (damaged(lambda f: f.update(digest="0" * 64)), "digest"),
    "no digest": (damaged(lambda f: f.pop("digest")), "digest"),
    "a changed rate": (damaged(another_rate), "does not match its digest"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_told_with_the_path(what: str, tmp_path: Path) -> None:
    content, said = DAMAGE[what]
    file = tmp_path / "machine.json"
    file.write_bytes(content)
    with pytest.raises(FormatError) as raised:
        find_trained(str(file))
    assert str(file) in str(raised.value)
    assert said in str(raised.value)


def test_nothing_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        find_trained(str(tmp_path / "none.json"))
    with pytest.raises(UsageError, match="unknown hardware 'pc7'; there is pc1"):
        find_machine("pc7")


# What the shipped machine says


def test_bert_is_within_five_percent_of_its_measurement(
    pc1: NodeTable, predicted: ModelTree
) -> None:
    tree = pc1.keys.index(TreeKey("bert-base-uncased", 16, 128))
    measured_j = pc1.energy_j[pc1.starts[tree]]
    energy = predicted.root.energy
    assert energy is not None
    assert energy.joules == pytest.approx(measured_j, rel=0.05)
    assert energy.low <= measured_j <= energy.high


def test_parts_add_up_and_own_is_never_negative(predicted: ModelTree) -> None:
    for node in predicted.nodes():
        assert node.energy is not None
        below = sum(child.energy.joules * child.count for child in node.children)
        own_j = node.energy.joules - below
        assert own_j >= -1e-9 * node.energy.joules
        assert node.energy.low <= node.energy.joules <= node.energy.high


def test_folded_and_unfolded_trees_take_the_same(
    pc1_predictor: Predictor, bert: ModelTree, predicted: ModelTree
) -> None:
    folded = pc1_predictor.predict(bert.fold())
    assert len(folded) < len(predicted)
    assert folded.total().energy_j == pytest.approx(predicted.total().energy_j)
    layer, unfolded = (t.find("encoder.layer.0") for t in (folded, predicted))
    assert layer.energy.joules == pytest.approx(unfolded.energy.joules)


def test_more_work_takes_more(pc1_predictor: Predictor) -> None:
    joules = [
        pc1_predictor.predict(irene.trace("bert-l2-h768", batch_size=b, seq_len=128))
        .total()
        .energy_j
        for b in (1, 4, 8, 16, 32)
    ]
    assert (np.diff(joules) > 0).all()


def test_a_measured_size_is_no_extrapolation(predicted: ModelTree) -> None:
    assert [n for n in predicted.notes if n.startswith("extrapolation")] == []


@pytest.mark.parametrize(
    ("model", "run", "said"),
    [
        ("bert-l2-h768", {"dtype": "bf16"}, "in bf16, which was never measured"),
        (
            "distilgpt2",
            {"phase": "decode", "context_len": 64},
            "of phase decode, which was never measured",
        ),
        (
            "bert-l2-h768",
            {"seq_len": 512},
            "length never measured (512, not 32 to 256)",
        ),
        ("bert-large-uncased", {}, "a width never measured (4,096, not 768 to 3,072)"),
        ("bert-l2-h128", {}, "a width never measured (128, not 768 to 3,072)"),
    ],
)
def test_extrapolation_is_said_and_widens(
    pc1_predictor: Predictor, predicted: ModelTree, model: str, run: dict, said: str
) -> None:
    tree = pc1_predictor.predict(irene.trace(model, **{"batch_size": 8, **run}))
    assert any(said in note for note in tree.notes), tree.notes
    assert spread(tree) > 1.03 * spread(predicted)


def spread(tree: ModelTree) -> float:
    energy = tree.root.energy
    assert energy is not None
    return energy.high / energy.joules - 1


def test_a_tree_without_math_ops_is_refused(
    pc1_predictor: Predictor, bert: ModelTree
) -> None:
    with pytest.raises(UsageError, match="trace it anew"):
        pc1_predictor.predict(bert.at_level("ml"))
