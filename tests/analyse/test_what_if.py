"""Other sizes, settings and config fields, and which of them matter."""

from __future__ import annotations

import json

import pytest

from irene.analyse.grid import what_if
from irene.analyse.sensitivity import sensitivity
from irene.analyse.subject import Subject, subject_of_tree, tree_of
from irene.errors import ConfigError, UsageError
from irene.predict.api import predict
from irene.spec import RunSpec

from ..made_up import tree_of_own

SMALL = Subject(RunSpec("bert-l2-h128", batch_size=4, seq_len=32))


def energy_j(variant):
    return tree_of(variant).energy_of(0).joules


def test_the_grid_is_full_and_starts_from_the_model_as_it_is():
    found = what_if(SMALL, {"hidden_act": ["gelu", "relu"], "batch_size": [4, 8]})
    assert [tuple(row.settings.values()) for row in found.rows] == [
        ("gelu", 4), ("gelu", 8), ("relu", 4), ("relu", 8),
    ]  # fmt: skip
    assert found.base.settings == {"hidden_act": "gelu", "batch_size": 4}
    same = found.rows[0]
    assert same.energy == found.base.energy
    assert (same.saving_j, same.saving_is_real) == (0, False)
    document = json.loads(json.dumps(found.to_dict()))
    assert document["schema"] == "irene.what_if/1"
    assert document["rows"][3]["settings"] == {"hidden_act": "relu", "batch_size": 8}


def test_a_saving_is_the_difference_of_predictions():
    (row,) = what_if(SMALL, {"num_hidden_layers": [1]}).rows
    changed = SMALL.changed({"num_hidden_layers": 1})
    assert row.saving_j == pytest.approx((energy_j(SMALL) - energy_j(changed)) / 4)
    assert row.per_sequence_j == pytest.approx(energy_j(changed) / 4)
    assert row.per_token_j == pytest.approx(energy_j(changed) / 128)
    assert row.saving_is_real


def test_a_model_with_other_layers_is_served_as_the_model_is():
    served = Subject(RunSpec("gpt2", prompt_len=200, output_len=100), "h100")
    six, twelve = what_if(served, {"n_layer": [6, 12]}).rows
    assert six.energy.joules < twelve.energy.joules == energy_j(served)


def test_a_change_of_more_than_size_is_compared_at_the_same_size():
    choices = {"num_hidden_layers": [1], "batch_size": [4, 8]}
    four, eight = what_if(SMALL, choices).rows
    at_eight = SMALL.changed({"batch_size": 8})
    assert four.before_j == pytest.approx(energy_j(SMALL) / 4)
    assert eight.before_j == pytest.approx(energy_j(at_eight) / 8)
    changed = at_eight.changed({"num_hidden_layers": 1})
    assert eight.saving_j == pytest.approx(eight.before_j - energy_j(changed) / 8)
    (size,) = what_if(SMALL, {"batch_size": [8]}).rows
    assert size.before_j == pytest.approx(energy_j(SMALL) / 4)


def test_a_config_with_changed_fields_is_the_published_one():
    """bert-l2-h128 with twice the layers is bert-l4-h128 of the catalogue."""
    twice = tree_of(SMALL.changed({"num_hidden_layers": 4}))
    published = predict("bert-l4-h128", batch_size=4, seq_len=32)
    assert twice.energy_of(0).joules == pytest.approx(published.energy_of(0).joules)
    assert twice.root.params == published.root.params
    assert twice.spec.model == "bert-l2-h128"
    assert twice.spec.digest != tree_of(SMALL).spec.digest


def test_another_model_is_a_change_too():
    (row,) = what_if(SMALL, {"model": ["bert-l4-h128"]}).rows
    assert row.energy.joules == pytest.approx(
        energy_j(SMALL.changed({"num_hidden_layers": 4}))
    )


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        ("distilgpt2", "num_hidden_layers", 2),  # an alias of n_layer
        ("gemma-3-270m", "num_hidden_layers", 3),  # a list with one entry per layer
        ("clip-vit-base-patch32", "text_config.num_hidden_layers", 2),
        ("qwen2.5-0.5b", "num_key_value_heads", 7),
    ],
)
def test_fields_of_all_kinds_of_configs(model, field, value):
    base = Subject(RunSpec(model, batch_size=1, seq_len=16))
    tree = tree_of(base.changed({field: value}))
    assert tree.energy_of(0).joules != pytest.approx(energy_j(base), rel=1e-6)


def test_other_norms_stand_in():
    rows = what_if(SMALL, {"norm": ["layer_norm", "rms_norm", "none"]}).rows
    layer_norm, rms_norm, none = rows
    assert layer_norm.energy.joules == pytest.approx(energy_j(SMALL))
    assert none.energy.joules < layer_norm.energy.joules
    tree = tree_of(SMALL.changed({"norm": "rms_norm"}))
    ops = tree.by_operator()
    assert "RMSNorm" in ops
    assert "LayerNorm" not in ops
    assert tree.spec.model == "bert-l2-h128"
    assert rms_norm.params < layer_norm.params  # no bias
    assert tree.spec.digest != tree_of(SMALL).spec.digest


def test_what_cannot_run_is_a_row_that_says_why():
    fine, too_long = what_if(SMALL, {"seq_len": [64, 600]}).rows
    assert fine.problem == ""
    assert too_long.energy is None
    assert "at most 512 positions" in too_long.problem


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hiden_act": "relu"}, "no config field 'hiden_act'; did you mean hidden_act"),
        ({"xyzzy": 1}, "no config field 'xyzzy'; there are .*hidden_size"),
        ({"hidden_act": "rely"}, "no activation 'rely'.*did you mean relu"),
        ({"hidden_size": 129}, "a width of 129 cannot be shared by 2 heads; take a"),
        ({"num_hidden_layers": "six"}, r"is a number \(2\), got 'six'"),
        ({"num_hidden_layers": 0}, "must be more than 0"),
        ({"num_hidden_layers": 1.5}, "must be a whole number"),
        ({"use_cache": 3}, "is a truth value"),
        ({"dtype": "fp8"}, "dtype must be one of fp32, fp16, bf16"),
        ({"norm": "batch_norm"}, "norm must be one of layer_norm"),
        ({"model": "bert-l2-h129"}, "unknown model 'bert-l2-h129'; did you mean"),
        ({"num_hidden_layers": 10**6}, "the limit is 1,000"),
    ],
)
def test_wrong_changes_get_one_clear_message(changes, said):
    with pytest.raises(UsageError, match=said):
        what_if(SMALL, {name: [value] for name, value in changes.items()})


def test_too_many_combinations_are_refused_before_the_work():
    with pytest.raises(UsageError, match="10,000 combinations"):
        what_if(SMALL, {"batch_size": range(1, 101), "seq_len": range(1, 101)})
    with pytest.raises(UsageError, match="no value for batch_size"):
        what_if(SMALL, {"batch_size": []})


def test_a_config_that_transformers_refuses():
    base = Subject(RunSpec("qwen2.5-0.5b", seq_len=16))
    with pytest.raises((ConfigError, UsageError), match="key-value heads"):
        tree_of(base.changed({"num_key_value_heads": 5}))


def test_progress_tells_what_is_tried():
    told = []
    what_if(SMALL, {"batch_size": [1, 2]}, lambda *each: told.append(each))
    assert told == [(0, 2, "batch_size=1"), (1, 2, "batch_size=2")]


def test_elasticities_say_what_matters():
    base = Subject(RunSpec("bert-l2-h512", batch_size=16, seq_len=128))
    found = {row.field: row for row in sensitivity(base).fields}
    assert found["num_hidden_layers"].elasticity == pytest.approx(1, abs=0.1)
    assert found["hidden_size"].elasticity > 0.5
    assert 0 < found["batch_size"].elasticity <= 1.1
    assert found["vocab_size"].elasticity == 0
    assert found["hidden_size"].lower % 8 == 0  # it has eight heads
    assert "pad_token_id" not in found
    strengths = [abs(row.elasticity or 0) for row in found.values()]
    assert strengths == sorted(strengths, reverse=True)


def test_at_the_limit_of_positions_one_side_does():
    base = Subject(RunSpec("bert-l2-h128", batch_size=1, seq_len=512))
    found = {row.field: row for row in sensitivity(base).fields}
    assert (found["seq_len"].lower, found["seq_len"].upper) == (384, 512)
    assert found["seq_len"].elasticity > 0


def test_a_saved_tree_says_what_to_start_from():
    tree = predict("bert-l2-h128", batch_size=4, seq_len=32)
    assert energy_j(subject_of_tree(tree, "pc1")) == pytest.approx(energy_j(SMALL))
    with pytest.raises(UsageError, match="does not say how the model is built"):
        subject_of_tree(tree_of_own(), "pc1")
