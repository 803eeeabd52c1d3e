"""Rounds of a cross-validation: the same to the last digit wherever they run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from irene.cli import main
from irene.collect.folds import EngineFolds, make_folds, predict_fold, trace_trees
from irene.dataset import MeasuredNode, NodeTable, TreeKey, write_data
from irene.dataset.measured_data import table_of
from irene.errors import FormatError, IreneError, UsageError
from irene.hardware import Hardware
from irene.predict import CrossValidation, crossvalidate, make_method, make_split
from irene.predict.learning.join import Joiner, OwnRun
from irene.predict.learning.training_runs import train
from irene.tree import EnergyColumns
from irene.work.engines.engine import LocalEngine
from irene.work.engines.ray_engine import RayEngine
from irene.work.engines.slurm_engine import SlurmEngine, SlurmSettings
from irene.work.task import Task

from ..work.made_up_tasks import noted

HERE = Hardware("here", "cpu-package", "a CPU")
OPTIONS = {"features": "model", "epochs": 3}
SIZES = ((1, 16), (4, 32), (2, 64))


@pytest.fixture(scope="module")
def table() -> NodeTable:
    """Three models of products whose energy is a matter of FLOPs, with noise."""
    noise = np.random.default_rng(0)
    trees = []
    for layers, model in ((1, "one"), (2, "two"), (3, "three")):
        for size in SIZES:
            flops = float(np.prod(size))
            nodes = [_node("", "model", model, layers * flops, -1, noise)]
            nodes += [
                _node(f"fc.{i}", "ml", "Linear", flops, 0, noise) for i in range(layers)
            ]
            trees.append((TreeKey(model, *size), nodes))
    return NodeTable.from_trees("made-up", trees)


def _node(
    path: str, kind: str, op: str, flops: float, parent: int, noise: np.random.Generator
) -> MeasuredNode:
    features = {"flops": flops, "mem_bytes": flops / 2, "num_parameters": 1.0}
    energy_j = (0.01 + 2e-3 * flops) * float(noise.uniform(0.9, 1.1))
    return MeasuredNode(path, kind, op, energy_j, features, parent)


@pytest.fixture(scope="module")
def traced() -> tuple[NodeTable, Joiner]:
    """Trees of two models "measured" on a CPU, and what has traced them."""
    from irene.trace.tracer import trace

    trees = []
    for model in ("bert-l2-h128", "pythia-14m"):
        for batch, length in SIZES:
            tree = trace(model, batch_size=batch, seq_len=length)
            joules = tree.columns.flops * 2e-11 + 1e-4
            source = np.zeros(len(tree), np.uint8)
            energy = EnergyColumns(joules, joules, joules, source, "made up")
            trees.append(tree.with_energy(energy, HERE))
    return table_of(trees), Joiner(own=OwnRun())


def validated(
    table: NodeTable, folds: EngineFolds | None = None, seeds: int = 1, **more
) -> CrossValidation:
    return crossvalidate(
        table,
        lambda seed: make_method("irene", **OPTIONS, seed=seed),
        make_split("model"),
        range(seeds),
        predict_rounds=folds.rounds(table, Joiner(), "irene", OPTIONS)
        if folds
        else None,
        **more,
    )


def assert_same(found: CrossValidation, expected: CrossValidation) -> None:
    assert found.to_dict() == expected.to_dict()
    for level, errors in expected.node_errors.items():
        np.testing.assert_array_equal(found.node_errors[level], errors)


# Where they run ---------------------------------------------------------------


def test_two_processes_give_the_same_to_the_last_digit(table):
    told: list[tuple[int, int, str]] = []
    with make_folds("local", 2) as folds:
        found = validated(table, folds, 2, progress=lambda *step: told.append(step))
    assert_same(found, validated(table, seeds=2))
    assert [done for done, _, _ in told] == [1, 2, 3, 4, 5, 6]
    assert {total for _, total, _ in told} == {6}
    assert {what for _, _, what in told} == {"one", "two", "three"}


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    """Ray on this machine, with two CPUs."""
    ray = pytest.importorskip("ray", reason="needs pip install 'irene-energy[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray.init(
            "local",  # not what another test may have left running
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
        )
        try:
            yield
        finally:
            ray.shutdown()


@pytest.mark.xdist_group("ray")
def test_ray_gives_the_same_to_the_last_digit(ray_here, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with EngineFolds(RayEngine()) as folds:
        assert_same(validated(table, folds), validated(table))
    assert not list(tmp_path.iterdir())  # the file that all machines see is gone


def test_slurm_gives_the_same_to_the_last_digit(table, tmp_path, monkeypatch):
    pytest.importorskip("submitit", reason="needs pip install 'irene-energy[slurm]'")
    monkeypatch.chdir(tmp_path)
    settings = SlurmSettings(cluster="local", folder=str(tmp_path / "jobs"))
    with EngineFolds(SlurmEngine(settings), jobs=2) as folds:
        assert_same(validated(table, folds), validated(table))


def test_training_elsewhere_gives_the_same_predictor(traced, monkeypatch):
    monkeypatch.setattr("irene.collect.folds.TREES_PER_TASK", 3)
    table, joiner = traced
    here = train(table, HERE, {}, joiner)
    elsewhere = Joiner(own=OwnRun())
    with make_folds("local", 2) as folds:
        folds.trace(table, elsewhere)
        assert not elsewhere.untraced(table)
        rounds = folds.rounds(table, elsewhere, "specs", {})
        found = train(table, HERE, {}, elsewhere, predict_rounds=rounds)
    assert found.to_dict() == here.to_dict()
    assert found.to_dict()["provenance"]["held_out_errors_percent"]["model"]["ml"] > 0


def test_two_tasks_that_only_compute_run_side_by_side(log, tmp_path):
    gate = tmp_path / "gate"
    with LocalEngine(jobs=2) as engine:
        for words in "abc":
            argument = {"words": words, "until": str(gate)}
            engine.submit(Task(words, "tests.work.made_up_tasks:echo", argument))
        while len(noted(log)) < 2:
            assert engine.wait(0.02) == []
        gate.touch()
        found = []
        while len(found) < 3:
            found += engine.wait(1.0)
    assert sorted(outcome.task for outcome in found) == ["a", "b", "c"]
    assert [line.split()[0] for line in noted(log)[:2]] == ["begin", "begin"]


# What goes wrong --------------------------------------------------------------


class Killing(LocalEngine):
    """Its second task is killed, as the system does when memory runs out."""

    submitted = 0

    def submit(self, task: Task) -> None:
        super().submit(task)
        self.submitted += 1
        if self.submitted == 2:
            os.kill(self._children[-1].process.pid, signal.SIGKILL)


def test_a_round_whose_process_is_killed_is_told_and_the_others_end(table):
    engine = Killing(jobs=2)
    with (
        EngineFolds(engine) as folds,
        pytest.raises(
            IreneError, match=r"holding out \w+ failed: .* killed by SIGKILL"
        ),
    ):
        validated(table, folds)
    assert not engine._children


def test_a_round_that_fails_is_told_with_its_reason(table):
    joiner = Joiner(unknown=dict.fromkeys(table.models, "nobody knows it"))
    with (
        make_folds("local", 1) as folds,
        pytest.raises(IreneError, match="holding out one failed: no model of made-up"),
    ):
        crossvalidate(
            *(table, lambda _: make_method("specs"), make_split("model")),
            predict_rounds=folds.rounds(table, joiner, "specs", {}),
        )


def test_a_machine_that_does_not_see_the_files_says_so(tmp_path):
    argument = {"trees": str(tmp_path / "none"), "sha256": "", "threads": {}}
    with pytest.raises(UsageError, match="all machines must see that folder"):
        predict_fold(argument)
    (tmp_path / "none").write_bytes(b"something else")
    with pytest.raises(FormatError, match="not the file"):
        predict_fold(argument)
    configs = {"mine": str(tmp_path / "mine.json")}
    with pytest.raises(UsageError, match=r"mine\.json is not on this machine"):
        trace_trees({"keys": [], "configs": configs, "own": None, "threads": {}})


# As a user meets them ---------------------------------------------------------


@pytest.fixture
def data(table: NodeTable, tmp_path: Path) -> str:
    write_data(table, tmp_path / "made-up.jsonl", "jsonl")
    return str(tmp_path / "made-up.jsonl")


def test_commands_say_the_same_with_processes(data, tmp_path, capsys):
    words = ["crossvalidate", data, "--method", "irene", "--features", "model"]
    said = []
    for more in ([], ["--jobs", "2"]):
        assert main([*words, "--json", *more]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    words = ["train", data, "--method", "irene", "--features", "model"]
    for name, more in (("a", []), ("b", ["--engine", "local", "--jobs", "2"])):
        assert main([*words, "--out", str(tmp_path / name), *more]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_no_job_is_refused(data, capsys):
    assert main(["crossvalidate", data, "--method", "irene", "--jobs", "0"]) == 2
    assert "--jobs must be at least 1, got 0" in capsys.readouterr().err
