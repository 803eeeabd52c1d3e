"""Every rule speaks where it applies and is silent where it does not.

A saving is what `what_if` says for the same change.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from irene.analyse.config_fields import ACTIVATIONS
from irene.analyse.grid import what_if
from irene.analyse.subject import Subject
from irene.analyse.suggest import EFFORTS, RULES, Situation, suggestions
from irene.analyse.suggest.activation import SAME_FUNCTION
from irene.analyse.suggest.distilled import RELATIVES
from irene.spec import RunSpec
from irene.trace import catalogue


def variant(model, run):
    run = {"batch_size": 4, "seq_len": 32, **run}
    on = run.pop("on", "pc1")
    return Subject(RunSpec(model, **run), on)


def asked(rule, model, **run):
    return list(RULES[rule](Situation(variant(model, run))))


SPEAKS = [
    ("batch size", "bert-l2-h128", {"batch_size": 1}),
    ("padding", "bert-l2-h128", {"seq_len": 512}),
    ("tiles", "bert-base-uncased", {"batch_size": 8, "seq_len": 129}),
    ("attention", "bert-l2-h128", {"seq_len": 128}),
    ("precision", "bert-l2-h768", {"batch_size": 16, "seq_len": 128}),
    ("quantization", "qwen3-8b", {"on": "h100", "phase": "decode"}),
    ("activation", "distilgpt2", {"seq_len": 64}),
    ("vocabulary head", "pythia-14m", {"batch_size": 8, "seq_len": 128}),
    ("layers", "bert-l6-h128", {}),
    ("distilled relative", "gpt2", {}),
]
SILENT = [
    ("batch size", "bert-l2-h128", {"batch_size": 512}),
    ("batch size", "bert-l2-h128", {"phase": "train"}),
    ("padding", "bert-l2-h128", {"seq_len": 128}),
    ("tiles", "bert-l2-h128", {"seq_len": 128}),
    ("attention", "bert-l2-h128", {"attention": "sdpa"}),
    ("precision", "bert-l2-h128", {"dtype": "bf16"}),
    ("quantization", "bert-l2-h128", {}),
    ("activation", "mobilebert-uncased", {}),
    ("vocabulary head", "bert-l2-h128", {}),
    ("vocabulary head", "pythia-14m", {"phase": "decode"}),
    ("layers", "bert-l2-h128", {}),
    ("layers", "pythia-14m", {}),
    ("distilled relative", "bert-l2-h128", {}),
]


@pytest.mark.parametrize(("rule", "model", "run"), SPEAKS)
def test_a_rule_speaks_and_its_saving_is_that_of_what_if(rule, model, run):
    found = asked(rule, model, **run)
    assert found
    base = variant(model, run)
    for each in found:
        assert each.rule == rule
        assert each.effort in EFFORTS
        assert each.saving_j > 0
        assert 0.01 <= each.share < 1
        assert each.title
        assert each.why
        assert each.accuracy
        choices = {name: [value] for name, value in each.change.items()}
        (row,) = what_if(base, choices).rows
        assert each.saving_j == pytest.approx(row.saving_j)
        assert each.half_j == pytest.approx(row.saving_half_j)
        assert each.is_real == row.saving_is_real


@pytest.mark.parametrize(("rule", "model", "run"), SILENT)
def test_a_rule_that_does_not_apply_is_silent(rule, model, run):
    assert asked(rule, model, **run) == []


def test_a_batch_is_as_large_as_saves_a_tenth_of_what_is_left():
    run = {"on": "h100", "phase": "generate", "prompt_len": 500, "output_len": 200}
    (found,) = asked("batch size", "llama-3.2-1b", **run, batch_size=1, seq_len=None)
    chosen = found.change["batch_size"]
    assert chosen > 16  # 16 save nine tenths, and 64 of them half of the rest
    sizes = [chosen // 2, chosen, *(2**k for k in range(10) if 2**k > chosen)]
    base = variant("llama-3.2-1b", {**run, "batch_size": 1, "seq_len": None})
    rows = what_if(base, {"batch_size": sizes}).rows
    smaller, mine, *larger = (row.per_sequence_j for row in rows)
    assert larger
    assert min(mine, *larger) >= 0.9 * mine
    assert min(mine, *larger) < 0.9 * smaller


def test_every_rule_is_tested():
    assert {rule for rule, _, _ in SPEAKS} == {rule for rule, _, _ in SILENT}
    assert {rule for rule, _, _ in SPEAKS} == set(RULES)


def test_advice_is_in_order_of_effort_and_of_what_is_sure():
    base = Subject(RunSpec("distilbert-base-uncased", batch_size=4, seq_len=32))
    found = suggestions(base)
    order = found.suggestions
    keys = [(EFFORTS.index(s.effort), s.half_j - s.saving_j) for s in order]
    assert keys == sorted(keys)
    # so of equal effort what is certain comes before what is not
    settings = [s.is_real for s in order if s.effort == "setting"]
    assert settings == sorted(settings, reverse=True)
    assert set(settings) == {True, False}
    said = {each.rule for each in found.suggestions}
    assert said | set(found.silent) == set(RULES)
    assert not said & set(found.silent)
    document = json.loads(json.dumps(found.to_dict()))
    assert document["schema"] == "irene.suggestions/1"
    assert document["model"] == "distilbert-base-uncased"


def test_relatives_are_in_the_catalogue_and_say_what_they_cost():
    for teacher, students in RELATIVES.items():
        assert catalogue.find(teacher) is not None, teacher
        for student, paper in students:
            assert catalogue.find(student) is not None, student
            assert paper
    (distil,) = asked("distilled relative", "roberta-base")
    assert "SST-2 92.5 % instead of 94.8 % (-2.3 points)" in distil.accuracy


def test_same_functions_are_the_same_to_rounding():
    torch = pytest.importorskip("torch")
    from transformers.activations import ACT2FN

    assert set(ACT2FN) >= ACTIVATIONS
    x = torch.linspace(-6, 6, 1001)
    for stepwise, fused in SAME_FUNCTION.items():
        assert torch.allclose(ACT2FN[stepwise](x), ACT2FN[fused](x), atol=1e-5)


IN_A_NEW_PROCESS = """
import sys
from irene.analyse.subject import Subject
from irene.analyse.suggest import suggestions
from irene.spec import RunSpec

rules = {each.rule for each in suggestions(Subject(RunSpec("bert-base-uncased"), "pc1"))
         .suggestions}
assert {"layers", "distilled relative"} <= rules, rules
served = Subject(RunSpec("llama-3.1-8b", prompt_len=750, output_len=500), "h200")
words = [each.title for each in suggestions(served).suggestions]
assert any("streams at once instead of" in each for each in words), words
assert not {"torch", "transformers"} & set(sys.modules)
"""


def test_changed_configs_of_known_models_need_no_pytorch(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS], check=True)
