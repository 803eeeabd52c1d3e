"""The exam of a predictor: what is drawn, what is compared, what is kept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irene.cli import main
from irene.collect.validation import choose_runs, compare_with_store
from irene.dataset.store import Origin, Store
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.predict.learning.join import OwnRun
from irene.predict.learning.own_data import Choice, read_for_training
from irene.predict.learning.training_runs import train
from irene.predict.machines.domain import Domain
from irene.predict.machines.finding import find_trained
from irene.trace import catalogue
from irene.trace.tracer import trace
from irene.tree import EnergyColumns, ModelTree

HERE = Hardware("here", "cpu-package", "a CPU")
LEARNED = ("bert-l2-h128", "bert-l4-h256", "pythia-14m")
DOMAIN = Domain(
    LEARNED, (16, 256), (16, 64), (128, 1024), ("gemm",), "fp32", "eager attention"
)


def made_up_run(model: str, batch: int, length: int, factor: float = 1.0) -> ModelTree:
    """Measured on a made-up CPU: so much per FLOP, byte, op and module."""
    tree = trace(model, batch_size=batch, seq_len=length)
    columns = tree.columns
    moved = columns.bytes_read + columns.bytes_written
    own_j = 20e-12 * (columns.own(columns.flops))
    own_j = own_j + 500e-12 * (columns.own(moved))
    own_j = own_j + np.where(columns.kind == 3, 1e-5, 0.0)
    own_j = own_j + np.where(columns.kind == 1, 5e-5, 0.0)
    joules = factor * columns.inclusive(own_j)
    energy = EnergyColumns(
        joules, joules, joules, np.zeros(len(tree), np.uint8), "made up"
    )
    timed = tree.with_features({"times_mean": joules / 10})
    told = {**timed.provenance, "device": "cpu"}
    return timed.with_provenance(told).with_energy(energy, HERE)


def fill(path: Path, models: tuple[str, ...], factor: float = 1.0) -> None:
    store = Store.open(path, create=True)
    for model in models:
        for batch, length in ((1, 16), (4, 32), (2, 64)):
            tree = made_up_run(model, batch, length, factor)
            store.add(tree, Origin.of_tree(tree, meter="estimate:cpu"))


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("validation")
    fill(folder / "lab", LEARNED)
    fill(folder / "exam", ("bert-l2-h256",))
    read = read_for_training(folder / "lab")
    assert read.joiner.own == OwnRun("fp32", "eager", "cpu")
    train(read.table, HERE, {"date": "today"}, read.joiner).save(folder / "here.json")
    return folder


def test_runs_are_drawn_of_models_that_were_not_learned_from() -> None:
    runs = choose_runs(DOMAIN, 8, largest=60e6, seed=1)
    assert len(runs) == len(set(runs)) == 8
    seen = {catalogue.entries()[name].family for name in LEARNED}
    families = [catalogue.entries()[run.model].family for run in runs]
    assert not seen & set(families[:3])
    for run in runs:
        assert run.model not in LEARNED
        assert 16 <= run.tokens <= 256
        assert 16 <= run.seq_len <= 64
    assert runs == choose_runs(DOMAIN, 8, largest=60e6, seed=1)
    assert runs != choose_runs(DOMAIN, 8, largest=60e6, seed=2)


def test_a_model_that_was_learned_from_is_refused() -> None:
    with pytest.raises(UsageError, match="learned from"):
        choose_runs(DOMAIN, 2, models=["pythia-14m"])


def test_an_exam_compares_and_keeps_the_record(
    learned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["validate", "--on", str(learned / "here.json"), "--compare-only"]
    words += ["--store", str(learned / "exam"), "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    kept = json.loads((learned / "exam" / "validation.json").read_text())
    assert document["evaluation"] == kept["evaluation"]
    assert document["schema"] == "irene.validation/1"
    assert document["evaluation"]["average"]["model"] < 5.0
    assert [run["covered"] for run in document["runs"]] == [True] * 3
    assert any("time × estimated power" in note for note in document["notes"])


def test_runs_that_were_learned_from_are_no_exam(
    learned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for store, is_exam in (("exam", True), ("lab", False)):
        words = ["validate", "--on", str(learned / "here.json"), "--compare-only"]
        out = str(learned / f"{store}-record.json")
        assert main([*words, "--store", str(learned / store), "--out", out]) == 0
        told = capsys.readouterr().out
        assert ("no exam: the predictor learned from runs of" in told) != is_exam


def test_a_machine_twice_as_slow_fails_its_exam(
    learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "slow", ("bert-l2-h256",), factor=2.0)
    words = ["validate", "--on", str(learned / "here.json"), "--compare-only"]
    assert main([*words, "--store", str(tmp_path / "slow")]) == 0
    told = capsys.readouterr().out
    errors = re.findall(r"([+-]\d+\.\d) %", told)
    assert [float(error) for error in errors] == pytest.approx([-50.0] * 3, abs=3.0)
    assert re.findall(r"% +(yes|no)", told) == ["no"] * 3


def test_what_was_disturbed_is_counted_and_weighs_a_quarter(
    learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three runs one took twice as long, and its rounds say why."""

    def errors(store: Path, disturbed: bool) -> tuple[dict[str, Any], list[float]]:
        kept = Store.open(store, create=True)
        for batch, length in ((1, 16), (4, 32), (2, 64)):
            tree = made_up_run("bert-l2-h256", batch, length, 1 + (batch == 4))
            if disturbed and batch == 4:
                tree = tree.with_features(
                    {**tree.features, "rounds_busy": np.ones(len(tree))}
                )
            kept.add(tree, Origin.of_tree(tree, meter="rapl"))
        words = ["validate", "--on", str(learned / "here.json"), "--compare-only"]
        assert main([*words, "--store", str(store), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        each = [abs(run["error_percent"]) for run in document["runs"]]
        return document, sorted(each)

    document, each = errors(tmp_path / "busy", True)
    flagged = [
        run["spec"]["batch_size"] for run in document["runs"] if run["disturbed"]
    ]
    assert flagged == [4]
    (row,) = document["evaluation"]["rows"]
    assert row["disturbed"] > 0
    assert row["model"] == pytest.approx((each[0] + each[1] + each[2] / 4) / 2.25)
    assert any("another process was busy" in note for note in document["notes"])
    calm, each = errors(tmp_path / "calm", False)
    (row,) = calm["evaluation"]["rows"]
    assert row["disturbed"] == 0
    assert row["model"] == pytest.approx(sum(each) / 3)


def test_a_store_can_be_trained_from(learned: Path, tmp_path: Path) -> None:
    out = tmp_path / "lab.json"
    assert main(["train", str(learned / "lab"), "--out", str(out)]) == 0
    hardware = json.loads(out.read_text())["hardware"]
    assert hardware["name"] == "here"
    assert hardware["covers"] == "cpu-package"


def test_only_some_models_of_a_store_are_read(learned: Path) -> None:
    choice = Choice(models=("pythia-14m",))
    assert read_for_training(learned / "lab", choice).table.models == ("pythia-14m",)


def test_compare_needs_something_to_compare_with(learned: Path, tmp_path: Path) -> None:

    Store.open(tmp_path / "empty", create=True)
    with pytest.raises(UsageError, match="no measured forward pass"):
        compare_with_store(find_trained(str(learned / "here.json")), tmp_path / "empty")
