from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from irene.serve.jobs.bounds import Bounds
from irene.serve.jobs.limited_process import LimitedProcess, ProcessError

BOUNDS = Bounds(wall_s=300, cpu_s=300, memory_bytes=4_000_000_000)


def order(**changes: Any) -> dict[str, Any]:
    arguments = {"model": "upload:x", "run": {"seq_len": 8}, "hardware": "pc1"}
    config = {"model_type": "bert", "num_hidden_layers": 1, "auto_map": {"A": "b.C"}}
    arguments["configs"] = {"upload:x": config}
    return {"kind": "predict", "protocol": "quick", "arguments": arguments} | changes


def run(asked: dict[str, Any], folder: Path) -> bytes:
    process = LimitedProcess(asked, BOUNDS, folder)
    return process.run(lambda done, total, text: None, lambda: True)


def test_a_config_is_predicted_under_the_name_it_was_given(tmp_path: Path) -> None:
    document = json.loads(run(order(), tmp_path))
    assert document["schema"] == "irene.tree/1"
    assert document["spec"]["model"] == "upload:x"
    assert document["energy_j"] > 0
    assert [file.name for file in tmp_path.iterdir()] == ["log.txt"]


def test_what_cannot_be_measured_is_said(tmp_path: Path) -> None:
    asked = order(kind="measure")
    asked["arguments"]["run"] = {"no_such_field": 1}
    with pytest.raises(ProcessError, match="no no_such_field"):
        run(asked, tmp_path)
