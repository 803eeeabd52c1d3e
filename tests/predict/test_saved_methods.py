"""Methods in files: the same predictions after a round trip, and damage is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irene.dataset import FEATURES, NodeTable, TreeKey
from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.predict import METHODS
from irene.predict.exams.evaluation import evaluate_method
from irene.predict.learning.join import Joiner
from irene.predict.learning.training_runs import (
    SavedMethod,
    is_saved_method,
    load_method,
    train_method,
)
from irene.predict.machines.finding import find_machine
from irene.saved import digest_of

LAB = Hardware("lab", "wall")


@pytest.fixture(scope="module")
def table(measure, made_up_keys: Sequence[TreeKey]) -> NodeTable:
    """Made-up trees, whose features follow their energy."""
    measured = measure(find_machine("pc1").model, made_up_keys[:8])
    noise = np.random.default_rng(1).uniform(0.5, 2, (len(FEATURES), len(measured)))
    features = {
        name: measured.energy_j * factor
        for name, factor in zip(FEATURES, noise, strict=True)
    }
    return replace(measured, features=features)


def trained(
    table: NodeTable, name: str, joiner: Joiner | None = None, **options
) -> SavedMethod:
    options = {"features": "all", "seed": 1, **options}
    return train_method(table, name, options, LAB, {"data": "made-up"}, joiner)


@pytest.mark.parametrize("name", METHODS)
def test_a_saved_method_predicts_the_same(
    name: str, table: NodeTable, made_up_joiner: Joiner, tmp_path: Path
) -> None:
    file = tmp_path / "method.json"
    saved = trained(table, name, made_up_joiner)
    saved.save(file)
    again = load_method(file)
    again.use(made_up_joiner)
    expected = saved.method.predict(table)
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(again.method.predict(table), expected)
    assert again.to_dict() == saved.to_dict()
    assert is_saved_method(file)
    assert file.stat().st_size < 1_000_000
    told = again.provenance
    assert (told["data"], told["trees"], told["method"]) == ("made-up", 8, name)
    assert told["held_out_errors_percent"]["model"]["model"] >= 0


def test_options_come_back(table: NodeTable, tmp_path: Path) -> None:
    options = {"degree": 2, "tau": 5.0, "weighting": "free", "features": "model"}
    saved = trained(table, "irene", **options)
    saved.save(tmp_path / "method.json")
    again = load_method(tmp_path / "method.json")
    assert again.options == {**options, "seed": 1}
    np.testing.assert_array_equal(
        again.method.predict(table), saved.method.predict(table)
    )


def test_an_evaluation_has_errors_and_no_intervals(table: NodeTable) -> None:
    result = evaluate_method(trained(table, "counters"), table)
    document = result.to_dict()
    assert len(document["rows"]) == 2
    assert result.average.model > 0
    assert result.predictor.startswith("lab counters ")
    assert "coverage" not in document
    assert "outside_domain" not in document["rows"][0]


def changed(fields: dict, **changes) -> bytes:
    """A file whose digest fits its changed content."""
    content = {k: v for k, v in {**fields, **changes}.items() if k != "digest"}
    return json.dumps({**content, "digest": digest_of(content)}).encode()


def test_damage_is_told_with_the_path(table: NodeTable, tmp_path: Path) -> None:
    fields = trained(table, "irene").to_dict()
    text = json.dumps(fields).encode()
    other = {**fields["state"], "weights": [1.0]}
    file = tmp_path / "method.json"
    for content, said in (
        (b"", "not JSON"),
        (text[:3000], "not JSON"),
        (b"[1]", "not an object"),
        (only_schema("irene.tree/1"), "schema is 'irene.tree/1'"),
        (only_schema("irene.method/2"), "a newer file needs a newer irene"),
        (text.replace(b'"seed": 1', b'"seed": 2'), "does not match its digest"),
        (changed(fields, state=other), "numbers are expected"),
        (changed(fields, state={}), "KeyError"),
        (changed(fields, state=[]), "TypeError"),
        (changed(fields, method="magic"), "no method 'magic'"),
        (changed(fields, options={"depth": 1}), "no option 'depth'"),
        (changed(fields, options={"features": "model"}), "features are expected"),
    ):
        file.write_bytes(content)
        with pytest.raises(FormatError) as raised:
            load_method(file)
        assert str(raised.value).startswith(f"{file}: ")
        assert said in str(raised.value)


def only_schema(schema: str) -> bytes:
    return json.dumps({"schema": schema}).encode()


def test_what_cannot_be_kept_is_not_written(table: NodeTable, tmp_path: Path) -> None:
    file = tmp_path / "method.json"
    saved = trained(table, "counters")
    saved.method.rates_ = np.array([np.nan, 0, 0])
    with pytest.raises(UsageError, match="finite"):
        saved.save(file)
    long = replace(saved, provenance={"data": "x" * 1_000_000})
    long.method.rates_ = np.ones(3)
    with pytest.raises(UsageError, match="bytes"):
        long.save(file)
    assert not file.exists()
    with pytest.raises(UsageError, match="cannot read"):
        load_method(file)
    assert not is_saved_method(file)
