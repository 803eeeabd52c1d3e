"""Errors, splits and the command that reports them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.cli import main
from irene.dataset import MeasuredNode, NodeTable, TreeKey, write_folder
from irene.errors import UsageError
from irene.predict import SPLITS, Errors, crossvalidate, make_split
from irene.predict.exams.crossvalidation import percent_errors
from irene.predict.exams.splits import (
    by_model,
    families,
    larger_than,
    likeness,
    smaller_than,
)
from irene.show.picture.answer_pictures import error_picture

Grow = Callable[[float], NodeTable]


@dataclass
class Cheat:
    """Knows the answers of one table, and changes them."""

    truth: NodeTable
    change: Callable[[np.ndarray], np.ndarray] = lambda energy_j: energy_j
    name: str = "cheat"

    def fit(self, table: NodeTable) -> Cheat:
        return self

    def predict(self, table: NodeTable) -> np.ndarray:
        trees = [self.truth.keys.index(key) for key in table.keys]
        return self.change(self.truth.take(trees).energy_j)


# Errors


def test_the_truth_has_no_error(grow: Grow) -> None:
    table = grow(1.0)
    result = crossvalidate(table, lambda _: Cheat(table), by_model)
    assert result.average == result.node_weighted == Errors(0, 0, 0)
    assert [row.held_out for row in result.rows] == list(table.models)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_errors_are_percent_of_the_truth(grow: Grow, factor: float) -> None:
    table = grow(1.0)
    percent = percent_errors(table.energy_j * factor, table)
    assert percent == pytest.approx(10)


def test_average_counts_rounds_and_node_weighted_counts_nodes(grow: Grow) -> None:
    table = grow(1.0)

    def worse_if_small(energy_j: np.ndarray) -> np.ndarray:
        return energy_j * (1.4 if len(energy_j) == 9 * 9 else 1.1)  # 9 trees of 9

    result = crossvalidate(table, lambda _: Cheat(table, worse_if_small), by_model)
    assert result.average.module == pytest.approx((40 + 10) / 2)
    assert result.node_weighted.module == pytest.approx((40 * 2 + 10 * 3) / 5)
    assert result.node_weighted.model == pytest.approx(25)


def test_the_method_does_not_see_what_it_predicts(grow: Grow) -> None:
    table = grow(1.0)

    class Peeking(Cheat):
        def predict(self, table: NodeTable) -> np.ndarray:
            return table.energy_j

    result = crossvalidate(table, lambda _: Peeking(table), by_model)
    assert math.isnan(result.node_weighted.ml)
    assert sum(row.unpredicted for row in result.rows) == len(table)


def test_errors_are_averaged_over_seeds(grow: Grow) -> None:
    table = grow(1.0)
    result = crossvalidate(
        table,
        lambda seed: Cheat(table, lambda energy_j: energy_j * (1 + seed / 10)),
        by_model,
        seeds=(1, 3),
    )
    assert result.average.model == pytest.approx(20)
    assert result.to_dict()["seeds"] == [1, 3]
    with pytest.raises(UsageError, match="seed"):
        crossvalidate(table, lambda _: Cheat(table), by_model, seeds=())


def test_nodes_without_a_prediction_are_counted(grow: Grow) -> None:
    table = grow(1.0)

    def drop_first(energy_j: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(energy_j)) == 0, np.nan, energy_j)

    result = crossvalidate(table, lambda _: Cheat(table, drop_first), by_model)
    assert [row.unpredicted for row in result.rows] == [1, 1, 1, 1]
    assert result.average == Errors(0, 0, 0)


def test_errors_of_every_node_are_kept_for_the_picture(grow: Grow) -> None:
    table = grow(1.0)
    result = crossvalidate(
        table, lambda _: Cheat(table, lambda energy_j: energy_j * 1.1), by_model
    )
    assert sum(map(len, result.node_errors.values())) == len(table)
    for errors in result.node_errors.values():
        assert errors == pytest.approx(10)
    drawn = [row[1] for row in error_picture(result).rows]
    assert drawn
    assert drawn == pytest.approx([10] * len(drawn))


def test_the_document_is_the_promised_one(grow: Grow) -> None:
    table = grow(1.0)
    result = crossvalidate(table, lambda _: Cheat(table), by_model)
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    levels = {"ml": 0.0, "module": 0.0, "model": 0.0}
    covered = {"coverage_percent": {"ml": 100.0, "module": 100.0, "model": 100.0}}
    assert document == {
        "schema": "irene.crossvalidation/1",
        "dataset": "grown",
        "method": "cheat",
        "features": "all",
        "split": "model",
        "rows": [{"held_out": m, **levels, **covered} for m in table.models],
        "average": levels,
        "node_weighted": levels,
    }


def test_coverage_is_told_per_held_out_group(grow: Grow) -> None:
    table = grow(1.0)
    row = crossvalidate(table, lambda _: Cheat(table), by_model).rows[0]
    assert row.coverage is not None
    assert row.to_dict()["coverage_percent"] == row.coverage.to_dict()
    assert row.coverage.model == 100.0  # no error, so every interval holds
    single = crossvalidate(table, lambda _: Cheat(table), lambda t: by_model(t)[:1])
    assert single.rows[0].coverage is None


def test_a_level_without_nodes_is_null() -> None:
    assert Errors(1.0, math.nan, 2.0).to_dict() == {"ml": 1, "module": None, "model": 2}


def test_progress_is_told_and_nothing_printed(grow: Grow, capsys) -> None:
    table = grow(1.0)
    told: list[tuple[int, int, str]] = []
    crossvalidate(
        table, lambda _: Cheat(table), by_model, progress=lambda *t: told.append(t)
    )
    assert told == [(i + 1, 4, model) for i, model in enumerate(table.models)]
    assert capsys.readouterr() == ("", "")


# Splits


@st.composite
def tables(draw) -> NodeTable:
    """Trees of one root and one leaf, of random models and sizes."""
    keys = draw(
        st.lists(
            st.builds(
                TreeKey,
                st.sampled_from(("a", "b", "c", "d")),
                st.integers(1, 64),
                st.integers(1, 128),
            ),
            min_size=1,
            max_size=12,
            unique=True,
        )
    )
    ops = {model: draw(st.sampled_from(("Linear", "Conv1D"))) for model in "abcd"}
    trees = [
        (
            key,
            [
                MeasuredNode("", "model", key.model, 2.0, {}, -1),
                MeasuredNode("x", "ml", ops[key.model], 1.0, {}, 0),
                MeasuredNode("y", "ml", "Softmax", draw(st.floats(0.1, 9)), {}, 0),
            ],
        )
        for key in keys
    ]
    return NodeTable.from_trees("random", trees)


@given(table=tables(), name=st.sampled_from(sorted(SPLITS)))
def test_train_and_test_are_apart_and_complete(table: NodeTable, name: str) -> None:
    try:
        folds = make_split(name)(table)
    except UsageError:
        return  # one model, one family or one size only: the message says so
    everything = list(range(len(table.keys)))
    assert folds
    for fold in folds:
        assert len(fold.train)
        assert len(fold.test)
        assert sorted([*fold.train, *fold.test]) == everything
    if name in ("model", "family", "length", "batch"):
        assert sorted(i for fold in folds for i in fold.test) == everything


@given(tables())
def test_families_part_the_models(table: NodeTable) -> None:
    try:
        found = families(table)
    except UsageError:
        assert np.allclose(likeness(table), 1) or len(table.models) == 1
        return
    assert len(found) > 1
    assert sorted(m for family in found for m in family) == sorted(table.models)


def test_sizes_are_tokens(grow: Grow) -> None:
    table = grow(1.0)
    (small,) = smaller_than(table, tokens=64)
    (large,) = make_split("large", tokens=256)(table)
    assert {table.keys[i][1:] for i in small.test} == {(2, 16), (2, 32), (4, 16)}
    assert {table.keys[i][1:] for i in large.test} == {(8, 64)}
    assert (small.held_out, large.held_out) == ("tokens ≤ 64", "tokens > 256")
    assert len(make_split("size", small=64, large=256)(table)) == 2 + 3 + 3


def test_a_split_that_leaves_nothing_says_so(grow: Grow) -> None:
    table = grow(1.0)
    with pytest.raises(UsageError, match="to predict"):
        larger_than(table, tokens=10**9)
    with pytest.raises(UsageError, match="to learn from"):
        by_model(table.take([0, 1]))
    with pytest.raises(UsageError, match=r"no split 'x'.*family"):
        make_split("x")


def test_families_are_found_in_the_trees_not_in_the_names(grow: Grow) -> None:
    table = grow(1.0)
    names = dict(zip(table.models, ("p", "q", "r", "s"), strict=True))
    keys = tuple(TreeKey(names[k.model], *k[1:]) for k in table.keys)
    assert families(table) == [("a-large", "a-small"), ("b-large", "b-small")]
    assert families(replace(table, keys=keys)) == [("p", "q"), ("r", "s")]


def test_families_of_the_measured_data(pc1: NodeTable) -> None:
    assert [set(family) for family in families(pc1)] == [
        {"bert-base-uncased", "distilbert-base-uncased", "roberta-base"},
        {"distilgpt2", "gpt2", "openai-gpt"},
    ]


# The command


@pytest.fixture
def folder(grow: Grow, tmp_path: Path) -> str:
    write_folder(grow(1.0), tmp_path / "grown")
    return str(tmp_path / "grown")


def test_the_command_prints_a_table(folder: str, capsys) -> None:
    assert main(["crossvalidate", folder, "--method", "sum"]) == 0
    out = capsys.readouterr().out
    assert "sum" in out
    assert out.splitlines()[-1].split() == ["node-weighted", "0.00", "0.00", "0.00"]
    assert "a-large" in out


def test_the_command_draws_how_errors_are_distributed(
    folder: str, tmp_path: Path, capsys
) -> None:
    plot = tmp_path / "errors.svg"
    words = ["--method", "sum", "--plot", str(plot), "--json"]
    assert main(["crossvalidate", folder, *words]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "sum"
    assert "whole models" in plot.read_text(encoding="utf-8")
    lines = (tmp_path / "errors.csv").read_text(encoding="utf-8").splitlines()
    parts = [float(line.rpartition(",")[2]) for line in lines[1:]]
    assert max(parts) == pytest.approx(100)


def test_the_command_writes_one_document(folder: str, capsys) -> None:
    words = ["--split", "family", "--features", "model", "--seeds", "2", "--json"]
    assert main(["crossvalidate", folder, "--method", "irene", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "irene.crossvalidation/1"
    assert (document["split"], document["features"]) == ("family", "model")
    assert len(document["rows"]) == 2
    assert document["seeds"] == [0, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "x"], "no method 'x'"),
        (["--features", "x"], "no features 'x'"),
        (["--split", "x"], "no split 'x'"),
        (["--seeds", "0"], "--seeds"),
    ],
)
def test_a_wrong_word_is_explained(words: list[str], message: str, capsys) -> None:
    assert main(["crossvalidate", "nowhere", *words]) == 2
    assert message in capsys.readouterr().err
