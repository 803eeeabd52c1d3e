"""Accuracy against energy: no dominated point on the front, clear tables."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.analyse.pareto import (
    AccuracyRow,
    Candidate,
    TradeOff,
    pareto_front,
    parse_accuracies,
    published_accuracies,
    read_accuracies,
    trade_off,
)
from irene.energy import Energy
from irene.errors import UsageError
from irene.spec import RunSpec
from irene.trace import catalogue


def candidate(name, accuracy, energy_j, width=0.0):
    ends = energy_j * (1 - width), energy_j * (1 + width)
    return Candidate(name, accuracy, Energy(energy_j, *ends, "measured", "a test"))


points = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=15
)


@given(points)
def test_no_point_of_the_front_is_dominated(pairs):
    made = [candidate(str(i), a, float(e)) for i, (a, e) in enumerate(pairs)]
    placed = pareto_front(made)
    assert len(placed) == len(made)
    for each in placed:
        better = [
            other
            for other in placed
            if (other.energy.joules, -other.accuracy)
            != (each.energy.joules, -each.accuracy)
            and other.energy.joules <= each.energy.joules
            and other.accuracy >= each.accuracy
        ]
        assert each.on_front == (not better)
        if better:
            assert each.beaten_by in {other.model for other in better}


@given(points, st.integers(0, 20), st.integers(1, 20))
def test_the_choice_keeps_to_budget_and_accuracy(pairs, at_least, budget_j):
    made = [candidate(str(i), a, float(e)) for i, (a, e) in enumerate(pairs)]
    placed = pareto_front(made)
    cheapest = TradeOff(placed, at_least=at_least).chosen
    good = [c.energy.joules for c in made if c.accuracy >= at_least]
    assert (cheapest.energy.joules if cheapest else None) == min(good, default=None)
    best = TradeOff(placed, budget_j=budget_j).chosen
    cheap = [c.accuracy for c in made if c.energy.joules <= budget_j]
    assert (best.accuracy if best else None) == max(cheap, default=None)


def test_overlapping_intervals_may_be_on_the_front():
    placed = pareto_front(
        [
            candidate("sure", 90, 1.0, 0.1),
            candidate("near", 90, 1.1, 0.1),
            candidate("far", 90, 2.0, 0.1),
        ]
    )
    assert [each.maybe for each in placed] == [False, True, False]


def test_the_front_is_unsure_where_a_better_model_may_take_no_more():
    placed = pareto_front([
        candidate("cheap", 80, 0.5, 0.1),
        candidate("good", 90, 1.0, 0.1),
        candidate("better", 92, 1.05, 0.1),
    ])  # fmt: skip
    assert [each.on_front for each in placed] == [True] * 3
    assert [each.maybe for each in placed] == [False, True, False]
    assert [each.beaten_by for each in placed] == ["", "better", ""]


def test_models_are_predicted_unless_the_file_has_their_energy():
    rows = [
        AccuracyRow("bert-l2-h128", 83.2),
        AccuracyRow("bert-l4-h256", 85.9),
        AccuracyRow("something else", 80.0, energy_j=1e-6),
    ]
    found = trade_off(rows, RunSpec(batch_size=4, seq_len=32), at_least=84)
    assert [each.model for each in found.front] == [
        "something else", "bert-l2-h128", "bert-l4-h256",
    ]  # fmt: skip
    assert found.chosen.model == "bert-l4-h256"
    assert [each.energy.source for each in found.front] == [
        "measured", "predicted", "predicted",
    ]  # fmt: skip
    document = json.loads(json.dumps(found.to_dict()))
    assert document["schema"] == "irene.trade_off/1"
    assert document["chosen"] == "bert-l4-h256"


def test_a_model_that_fails_is_left_out_and_the_others_are_answered():
    rows = [
        AccuracyRow("bert-l2-h129", 1.0),
        AccuracyRow("gpt22", 2.0),
        AccuracyRow("bert-l2-h128", 3.0),
    ]
    found = trade_off(rows, RunSpec(batch_size=1, seq_len=8))
    assert [each.model for each in found.candidates] == ["bert-l2-h128"]
    assert [each.model for each in found.left_out] == ["bert-l2-h129", "gpt22"]
    assert "did you mean bert-l2" in found.left_out[0].problem
    assert found.to_dict()["left_out"][1]["model"] == "gpt22"
    with pytest.raises(UsageError, match="unknown model 'bert-l2-h129'"):
        trade_off(rows[:2], RunSpec())


def test_every_published_accuracy_has_a_model_and_a_source():
    rows = published_accuracies()
    assert len(rows) >= 20
    for row in rows:
        assert catalogue.find(row.model) is not None, row.model
        assert row.source
        assert row.split in ("test", "dev")
        assert 80 < row.accuracy < 100
    scores = {row.model: row.accuracy for row in rows}
    assert scores["bert-l2-h128"] == 83.2
    assert scores["bert-base-uncased"] == 93.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("model,accuracy\n", "has no rows"),
        ("name,score\nbert,3\n", "no column accuracy and model"),
        ("model,accuracy\ngpt2,high\n", "accuracy of gpt2 is 'high'"),
        ("model,accuracy\ngpt2,-1\n", "which cannot be"),
        ("model,accuracy\ngpt2,nan\n", "which cannot be"),
        ("model,accuracy\n,90\n", "names no model"),
        ("model,accuracy\ngpt2,90\ngpt2,91\n", "has gpt2 twice"),
    ],
)
def test_wrong_tables_get_one_clear_message(tmp_path, text, said):
    file = tmp_path / "mine.csv"
    file.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_accuracies(file)


@pytest.mark.parametrize("text", ["model,accuracy\rbert,3", "model,accuracy\nb,3\rc"])
def test_what_is_no_csv_is_said_to_be_none(text):
    with pytest.raises(UsageError, match="the table cannot be read"):
        parse_accuracies(text, "the table")


def test_a_table_of_a_spreadsheet_is_read(tmp_path):
    file = tmp_path / "mine.csv"
    text = "\ufeffModel, Accuracy ,energy_j\r\ngpt2, 91.5%,\r\nmine,80,0.5\r\n"
    file.write_bytes(text.encode())
    assert read_accuracies(file) == [
        AccuracyRow("gpt2", 91.5),
        AccuracyRow("mine", 80.0, 0.5),
    ]
    with pytest.raises(UsageError, match="cannot read"):
        read_accuracies(tmp_path / "missing.csv")
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not text"):
        read_accuracies(file)
