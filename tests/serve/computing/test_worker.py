from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from irene.work.child import Child
from irene.work.task import Outcome, Task


def argument(**changes: Any) -> dict[str, Any]:
    arguments = {"model": "upload:x", "run": {"seq_len": 8}, "hardware": "pc1"}
    config = {"model_type": "bert", "num_hidden_layers": 1, "auto_map": {"A": "b.C"}}
    arguments["configs"] = {"upload:x": config}
    return {
        "protocol": "quick",
        "memory_bytes": 4_000_000_000,
        "arguments": {**arguments, **changes},
    }


def run(kind: str, asked: dict[str, Any], folder: Path) -> Outcome:
    child = Child(folder=folder)
    try:
        child.begin(Task("a", f"irene.serve.computing.worker:{kind}_job", asked))
        outcome = child.wait(240)
    finally:
        child.end(0.0)
    assert outcome is not None
    return outcome


def test_a_config_is_predicted_under_the_name_it_was_given(tmp_path: Path) -> None:
    outcome = run("predict", argument(), tmp_path)
    assert outcome.payload is not None, outcome
    document = json.loads(outcome.payload)
    assert document["schema"] == "irene.tree/1"
    assert document["spec"]["model"] == "upload:x"
    assert document["energy_j"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_prediction_takes_no_more_memory_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # it has to be traced
    outcome = run("predict", {**argument(), "memory_bytes": 150_000_000}, tmp_path)
    assert outcome.fault in ("memory", "killed"), outcome  # both say how much


def test_what_cannot_be_measured_is_said(tmp_path: Path) -> None:
    outcome = run("measure", argument(run={"no_such_field": 1}), tmp_path)
    assert (outcome.fault, outcome.error) == ("refused", "UsageError")
    assert "no no_such_field" in outcome.problem
