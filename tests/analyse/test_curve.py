"""Curves: what they find is what predictions at single sizes say."""

from __future__ import annotations

import json

import pytest

import irene
from irene.analyse.curve import Curves
from irene.errors import UsageError
from irene.questions import AskComparison, AskWhatIf
from irene.serve.client.documents import read_fields


def joules(model: str, **run: int) -> float:
    return irene.predict(model, **run).energy_of(0).joules


def test_a_point_is_a_prediction():
    found = irene.curve("bert-l2-h128", batch_size=2)
    assert found.most == 512
    assert found.points([9, 300]) == {
        size: irene.predict("bert-l2-h128", batch_size=2, seq_len=size).energy_of(0)
        for size in (9, 300)
    }
    assert list(found.points())[:2] == [2, 3]  # a length of 1 is traced


@pytest.mark.parametrize(
    ("model", "run", "over"),
    [
        ("bert-l2-h128", {}, "seq_len"),
        ("llama-3.2-1b", {}, "batch_size"),
        ("llama-3.2-1b", {"phase": "generate"}, "output_len"),
        ("llama-3.2-1b", {"attention": "eager", "dtype": "fp16"}, "seq_len"),
    ],
)
def test_a_curve_shows_the_run_that_its_machine_runs(model, run, over):
    found = irene.curve(model, over=over, on="h100", most=64, **run)
    shown = found.subject.run
    for size in (found.least, 50):
        predicted = irene.predict(model, on="h100", **{**run, over: size})
        assert found.at(size) == predicted.energy_of(0)
        names = ("dtype", "attention", "phase", "batch_size", "seq_len", "chosen")
        for name in {*names} - {over}:
            assert getattr(shown, name) == getattr(predicted.spec, name)


def test_the_largest_length_under_a_budget():
    budget = joules("bert-base-uncased", seq_len=200)
    found = irene.curve("bert-base-uncased", least=2)
    assert found.largest_under(budget) == 200
    assert found.largest_under(budget * (1 - 1e-9)) == 199
    assert found.largest_under(1e9) == 512
    assert found.largest_under(0) is None


def test_no_larger_size_is_under_the_budget_where_energy_goes_up_and_down():
    curve = irene.curve("bert-base-uncased", on="h100", most=96)
    joules = {size: each.joules for size, each in curve.points(range(2, 97)).items()}
    falls = [size for size in range(3, 97) if joules[size] < joules[size - 1]]
    assert falls  # tiles that are full again
    for budget in (joules[size - 1] for size in falls):
        last = max(size for size, each in joules.items() if each <= budget)
        assert curve.largest_under(budget) == last


def test_from_which_batch_on_one_is_cheaper():
    small = irene.curve("bert-l2-h128", over="batch_size", least=2, seq_len=100)
    large = irene.curve("bert-base-uncased", over="batch_size", least=2, seq_len=100)
    assert small.cheaper_from(large) == 2
    assert large.cheaper_from(small) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"seq_len": 9}, "varies"),
        ({"most": 600}, "up to 512"),
        ({"least": 0}, "at least 1, got 0"),
        ({"least": 9, "most": 8}, "from 9 on there is no seq_len up to 8"),
        ({"most": 1}, "from 2 on"),
        ({"over": "phase"}, "one of batch_size, seq_len, .*: 'phase'"),
        ({"over": "decoder_len"}, "decoder_len means nothing to bert-l2-h128"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(UsageError, match=words):
        irene.curve("bert-l2-h128", **given)


def test_what_if_answers_with_the_largest_size():
    budget = joules("bert-base-uncased", seq_len=200)
    asked = {"model": "bert-base-uncased", "over": "seq_len", "under_j": budget}
    found = AskWhatIf.asked(asked).answer()
    assert isinstance(found, Curves)
    [line] = found.lines
    assert (line.largest, line.most, line.points[-1].size) == (200, 512, 512)
    assert line.points[0].energy.joules == joules("bert-base-uncased", seq_len=2)
    assert read_fields(Curves, json.loads(json.dumps(found.to_dict()))) == found
    assert {row["seq_len"] for row in found.table()} == {p.size for p in line.points}


def test_a_crossing_is_between_two_neighbours():
    """A model of more parameters, but shorter, is dearer only from some batch on."""
    pair = ("bert-l4-h256@s512", "bert-l2-h512@s128")
    found = AskComparison.asked({"subject": pair, "over": "batch_size"}).answer()
    assert isinstance(found, Curves)
    [crossing] = found.crossings

    def energy(name: str, batch: int) -> float:
        model, _, length = name.partition("@s")
        return joules(model, seq_len=int(length), batch_size=batch)

    assert crossing.since is not None
    at = energy(crossing.cheaper, crossing.since)
    assert at < energy(crossing.dearer, crossing.since)
    if crossing.since > 1:
        before = crossing.since - 1
        assert energy(crossing.cheaper, before) >= energy(crossing.dearer, before)
    assert crossing.surely_since is None or crossing.surely_since >= crossing.since


@pytest.mark.parametrize(
    ("question", "given", "words"),
    [
        (AskWhatIf, {"model": "gpt2", "under_j": 3}, "needs the size"),
        (AskWhatIf, {"model": "gpt2", "over": "seq_len", "seq_len": "9"}, "varies"),
        (
            AskWhatIf,
            {"model": "gpt2", "over": "seq_len", "batch_size": "1,2"},
            "alone",
        ),
        (
            AskComparison,
            {"subject": ("gpt2", "gpt2"), "over": "seq_len", "per": "token"},
            "of runs",
        ),
    ],
)
def test_curves_that_cannot_be_are_refused(question, given, words):
    def ask() -> None:
        asked = question.asked(given)
        asked.check()
        asked.answer()

    with pytest.raises(UsageError, match=words):
        ask()
