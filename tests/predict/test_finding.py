"""Machines by name or file: one way for all, and always as the file is now."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import irene
from irene.errors import UsageError
from irene.predict.machines.finding import (
    add_machine,
    find_gpu,
    find_machine,
    find_trained,
    known_machines,
)
from irene.predict.machines.predictor import Predictor
from irene.spec import RunSpec
from irene.trace.tracer import trace
from irene.tree import ModelTree


@pytest.fixture(scope="module")
def tree() -> ModelTree:
    return trace("bert-l2-h128", batch_size=1, seq_len=16)


def doubled(predictor: Predictor) -> Predictor:
    """A machine whose kernels and streams take twice as much."""
    from irene.predict.learning.scaling import PARTS, scaled

    return replace(predictor, model=scaled(predictor.model, dict.fromkeys(PARTS, 2.0)))


def joules(tree: ModelTree, on: str) -> float:
    energy = irene.predict(tree, on=on).energy_of(0)
    assert energy is not None
    return energy.joules


def test_a_file_that_is_overwritten_counts_at_once(
    tree: ModelTree, tmp_path: Path
) -> None:
    file, known = tmp_path / "lab.json", find_trained("pc1")
    known.save(file)
    before, digest = joules(tree, str(file)), find_machine(str(file)).digest
    assert before == joules(tree, "pc1")
    doubled(known).save(file)
    assert joules(tree, str(file)) == pytest.approx(2 * before)
    assert find_machine(str(file)).digest != digest
    known.save(file)
    assert (joules(tree, str(file)), find_machine(str(file)).digest) == (before, digest)


def test_an_added_machine_is_replaced_at_once(
    tree: ModelTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRENE_HOME", str(tmp_path / "home"))
    file, known = tmp_path / "lab.json", find_trained("pc1")
    known.save(file)
    assert add_machine(file, "lab")[0] == "lab"
    before, digest = joules(tree, "lab"), find_machine("lab").digest
    doubled(known).save(file)
    add_machine(file, "lab")
    assert joules(tree, "lab") == pytest.approx(2 * before)
    assert find_machine("lab").digest != digest


def test_a_datasheet_that_is_overwritten_counts_at_once(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    text = "hbm_tb_s = 2\ntdp_w = {}\nidle_w = 60\n[tflops]\nbf16 = 300\n"
    file.write_text(text.format(300))
    first = find_gpu(str(file))
    file.write_text(text.format(350))
    again = find_gpu(str(file))
    assert (first.device.sheet.tdp_w, again.device.sheet.tdp_w) == (300, 350)
    assert first.digest != again.digest
    assert again.hardware.name == "tiny"


def test_a_file_that_stays_is_read_once() -> None:
    assert find_machine("h100") is find_machine("h100")
    assert find_machine("pc1") is find_trained("pc1")


@pytest.mark.parametrize("name", known_machines())
def test_all_machines_answer_alike(name: str) -> None:
    machine = find_machine(name)
    assert machine.hardware.name == name
    assert machine.hardware.predictor == f"{name} {machine.digest[:8]}"
    assert machine.to_dict()["digest"] == machine.digest
    assert machine.to_dict()["provenance"] == machine.provenance
    usual = (machine.usual_dtype, machine.usual_attention)
    assert usual == (("bf16", "sdpa") if machine.serves else ("fp32", "eager"))
    assert machine.serves == (name != "pc1")


def test_streams_that_nobody_gave_are_as_many_as_were_measured() -> None:
    desktop, h100 = find_machine("rtx4090"), find_machine("h100")
    left_open = RunSpec("gpt2", prompt_len=100)
    assert left_open.resolved(desktop).batch_size == 1
    assert "batch_size" in left_open.resolved(desktop).chosen
    assert left_open.resolved(h100).batch_size == 8
    assert left_open.chosen_as(batch_size=16).resolved(h100).batch_size == 16
    assert RunSpec("gpt2", 4, prompt_len=100).resolved(desktop).batch_size == 4
    assert RunSpec("gpt2").resolved(desktop).batch_size == 8


def test_a_machine_of_the_other_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="fitted to no measured trees"):
        find_trained("h100")
    with pytest.raises(UsageError, match="not predicted kernel by kernel"):
        find_gpu("pc1")
    with pytest.raises(UsageError, match="unknown hardware 'pc7'; there is pc1, a100"):
        find_machine("pc7")
    with pytest.raises(UsageError, match=r"cannot read .*none\.json: No such file"):
        find_machine("none.json")


def test_a_prediction_imports_no_data_and_no_paper() -> None:
    program = (
        "import irene, json, sys; irene.predict('bert-l2-h128', on='pc1'); "
        "print(json.dumps(sorted(m for m in sys.modules if m.startswith('irene'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = json.loads(done.stdout)
    assert "irene.predict.api" in loaded
    needless = ("irene.dataset", "irene.predict.paper", "irene.predict.learning")
    needless += ("irene.predict.exams", "irene.predict.machines.gpu.")
    assert [name for name in loaded if name.startswith(needless)] == []
