"""Every question is written once: what it is asked with, and how it is sent."""

from __future__ import annotations

import json

import pytest

import irene
from irene.errors import UsageError
from irene.questions import QUESTIONS, question_named
from irene.questions.asker import Here

ASKED = {
    "energy": {"model": "gpt2", "on": "h100", "phase": "decode", "step_ms": 20.0},
    "tree": {"model": "gpt2", "batch_size": 2, "level": "module", "fold": False},
    "bottlenecks": {"model": "bert-l2-h128", "seq_len": 16},
    "compare": {"subject": ["bert-l2-h128", "bert-l4-h256@b2"], "per": "token"},
    "what-if": {"model": "bert-l2-h128", "set": ["num_hidden_layers=1,2"]},
    "trade-off": {"accuracies": "model,accuracy\nbert-l2-h128,3\n", "at_least": 2.0},
    "cost": {"model": "bert-l2-h128", "region": "DE", "price_per_kwh": 0.3},
    "suggest": {"model": "bert-l2-h128", "batch_size": 64},
    "leaderboard": {"search": "bert-l2", "limit": 2, "max_params": 1e9},
    "card": {"model": "gpt2", "region": "FR", "on": "h100"},
    "plan-training": {"model": "gpt2", "tokens": 2e9, "gpus": 8, "region": "DE"},
    "serve-plan": {"model": "qwen3-8b", "on": "h100,b200", "max_latency": "50ms",
                   "quantization": "bf16,fp8", "batch_size": "1,8"},
    "report": {"model": "bert-l2-h128", "without": ["sizes"], "title": "x"},
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_survives_being_sent(name) -> None:
    question = QUESTIONS[name].asked(ASKED[name])
    sent = json.loads(json.dumps(question.values()))
    assert QUESTIONS[name].asked(sent) == question
    assert sent == ASKED[name]


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_parameter_says_what_it_means(name) -> None:
    question = QUESTIONS[name]
    parameters = question.parameters()
    assert len({each.name for each in parameters}) == len(parameters)
    for each in parameters:
        assert each.words, f"{name}: {each.name}"
        assert each.words[0].isupper() or each.words[0] in "`ge"
    assert question.summary
    assert question.schema


def test_other_names_of_a_parameter_mean_the_same() -> None:
    cost = QUESTIONS["cost"]
    old = cost.asked({"model": "gpt2", "hardware": "h100", "price": 1, "intensity": 2})
    new = {"model": "gpt2", "on": "h100", "price_per_kwh": 1.0, "gco2e_per_kwh": 2.0}
    assert old.values() == new


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("cost", {}, "model is missing"),
        ("cost", {"model": "gpt2", "pue": 0.5}, "pue must be at least 1, got 0.5"),
        ("cost", {"model": "gpt2", "modle": "x"}, "'modle'; did you mean model"),
        ("compare", {"subject": ["gpt2"]}, "compare needs two or more"),
        ("what-if", {"model": "gpt2", "set": ["x"]}, "set takes FIELD=VALUE"),
        ("leaderboard", {"limit": 0}, "limit must be at least 1"),
        ("energy", {"model": "gpt2", "fold": "perhaps"}, "fold must be true or false"),
    ],
)  # fmt: skip
def test_wrong_values_get_one_clear_message(name, values, said) -> None:
    with pytest.raises(UsageError, match=said):
        question_named(name).asked(values)
    with pytest.raises(UsageError, match="no question 'weather'; there are energy"):
        question_named("weather")


def test_lists_say_what_the_base_is_and_what_is_varied() -> None:
    listed = QUESTIONS["what-if"].asked(
        {"model": "bert-l2-h128", "batch_size": "4,8", "dtype": "fp16", "norm": "none"}
    )
    assert (listed.run.batch_size, listed.run.dtype) == (4, "fp16")
    assert listed.vary == {"norm": ["none"], "batch_size": [4, 8]}
    found = Here().ask(listed)
    assert [row.settings["batch_size"] for row in found.rows] == [4, 8]


def test_a_tree_will_do_where_a_model_is_asked_for() -> None:
    tree = irene.predict("bert-l2-h128", batch_size=4, seq_len=16)
    by_name = {"batch_size": 4, "seq_len": 16}
    assert irene.cost(tree) == irene.cost("bert-l2-h128", **by_name)
    assert irene.bottlenecks(tree) == irene.bottlenecks("bert-l2-h128", **by_name)
    assert irene.compare(tree, tree).difference_j == 0
    with pytest.raises(UsageError, match="a tree has its run already"):
        irene.cost(tree, batch_size=8)


def test_a_subject_that_fails_is_listed_and_the_others_are_answered() -> None:
    asked = {"subject": ["bert-l2-h128", "bert-l2-h128@s600", "bert-l4-h256"]}
    found = Here().ask(QUESTIONS["compare"].asked({**asked, "seq_len": 8}))
    assert [each.other.name for each in found.comparisons] == ["bert-l4-h256"]
    (left_out,) = found.left_out
    assert left_out.model == "bert-l2-h128@s600"
    assert "at most 512 positions" in left_out.problem
