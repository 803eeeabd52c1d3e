"""A machine that runs one op after the other, learned from runs of known truth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irene.dataset import NodeTable
from irene.dataset.measured_data import table_of
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.predict.exams.crossvalidation import crossvalidate
from irene.predict.exams.splits import make_split
from irene.predict.learning.join import Joiner, OwnRun
from irene.predict.learning.machine_calibration import calibrate
from irene.predict.learning.training_runs import train
from irene.predict.machines.finding import find_trained
from irene.predict.machines.predictor import Predictor
from irene.predict.machines.serial_machine import SerialModel, serial_work
from irene.predict.machines.specs.specs_method import SpecsMethod
from irene.trace.tracer import trace
from irene.tree import EnergyColumns, ModelTree

HERE = Hardware("here", "cpu-package", "a CPU")
MODELS = ("bert-l2-h128", "bert-l4-h256", "minilm-l3-h384", "pythia-14m")
SIZES = ((1, 16), (4, 32), (2, 64))


def run_on_made_up_cpu(tree: ModelTree) -> ModelTree:
    """20 pJ per FLOP, 500 pJ per byte, 10 µJ per op, 50 µJ per module, all in order."""
    columns = tree.columns
    moved = columns.bytes_read + columns.bytes_written
    own_flops = columns.own(columns.flops)
    own_bytes = columns.own(moved)
    own_j = own_flops * 20e-12 + own_bytes * 500e-12
    own_j = own_j + np.where(columns.kind == 3, 1e-5, 0)
    own_j = own_j + np.where(columns.kind == 1, 5e-5, 0)
    joules = columns.inclusive(own_j)
    energy = EnergyColumns(
        joules, joules, joules, np.zeros(len(tree), np.uint8), "made-up CPU"
    )
    return tree.with_energy(energy, HERE)


@pytest.fixture(scope="module")
def trees() -> list[ModelTree]:
    return [
        run_on_made_up_cpu(trace(model, batch_size=batch, seq_len=length))
        for model in MODELS
        for batch, length in SIZES
    ]


@pytest.fixture(scope="module")
def table(trees: list[ModelTree]) -> NodeTable:
    return table_of(trees)


@pytest.fixture(scope="module")
def joiner() -> Joiner:
    return Joiner(own=OwnRun())


@pytest.fixture(scope="module")
def predictor(table: NodeTable, joiner: Joiner) -> Predictor:
    return train(table, HERE, {}, joiner)


def test_a_model_that_was_left_out_is_predicted(
    table: NodeTable, joiner: Joiner
) -> None:
    found = crossvalidate(table, lambda _: SpecsMethod(joiner), make_split("model"))
    assert found.average.model < 1.0
    assert found.average.module < 2.0
    assert found.average.ml < 5.0


def test_own_runs_match_their_traces_node_by_node(
    table: NodeTable, joiner: Joiner
) -> None:
    for index in range(len(table.keys)):
        joined = joiner.join(table, index)
        assert joined is not None
        assert not joined.unmatched
        assert (joined.nodes >= 0).all()


def test_parts_of_a_prediction_add_up(predictor: Predictor) -> None:
    tree = predictor.predict(trace("bert-l2-h256", batch_size=2, seq_len=32))
    assert tree.energy is not None
    joules = tree.energy.joules
    assert (tree.columns.own(joules) > -1e-9 * joules[0]).all()
    assert joules[0] > 0


def test_prediction_is_near_the_truth_for_a_new_architecture(
    predictor: Predictor,
) -> None:
    tree = trace("opt-125m", batch_size=2, seq_len=32)
    predicted, true = predictor.predict(tree), run_on_made_up_cpu(tree)
    assert predicted.total().energy_j == pytest.approx(true.total().energy_j, rel=0.05)


def test_a_serial_machine_is_saved_and_read(
    predictor: Predictor, tmp_path: Path
) -> None:
    predictor.save(tmp_path / "here.json")
    again = find_trained(str(tmp_path / "here.json"))
    assert isinstance(again.model, SerialModel)
    tree = trace("bert-l2-h128", batch_size=1, seq_len=16)
    assert again.predict(tree).total() == predictor.predict(tree).total()
    assert json.loads((tmp_path / "here.json").read_text())["model"]["form"] == "serial"


def test_ops_never_measured_are_marked_by_a_wider_interval(
    table: NodeTable, joiner: Joiner
) -> None:
    encoders = [i for i, key in enumerate(table.keys) if key.model != "pythia-14m"]
    model = SpecsMethod(joiner).fit(table.take(encoders)).machine()
    assert isinstance(model, SerialModel)
    tree = trace("pythia-14m", batch_size=1, seq_len=16)
    _, is_indirect = model.tree_energies(tree)
    unknown = {node.op for node in tree.nodes() if is_indirect[node.row]}
    assert unknown
    assert "Linear" not in unknown


def test_views_inside_a_primitive_are_measured_with_it() -> None:
    tree = trace("bert-l2-h128", batch_size=1, seq_len=16)
    work = serial_work(tree)
    linear = next(n for n in tree.nodes() if n.op == "Linear" and len(n.children) > 1)
    leaf = work.only_op(linear.row)
    assert leaf is not None
    assert leaf.kind == "gemm"
    assert leaf.sizes == (1, 16, 128, 128)


def test_a_cpu_is_no_start_for_calibration(
    predictor: Predictor, table: NodeTable, joiner: Joiner
) -> None:
    with pytest.raises(UsageError, match="train one from the trees"):
        calibrate(predictor, table, HERE, {}, joiner)


def test_what_was_disturbed_weighs_less(table: NodeTable, joiner: Joiner) -> None:
    rng = np.random.default_rng(3)
    busy = rng.random(len(table)) < 0.4
    longer = np.where(busy, 1.0 + rng.random(len(table)), 1.0)
    told = replace(table, energy_j=table.energy_j * longer, disturbed=busy)
    silent = replace(told, disturbed=np.zeros(len(table), bool))

    def off(data: NodeTable) -> float:
        found = SpecsMethod(joiner).fit(data).predict(table)
        return float(np.nanmean(np.abs(found / table.energy_j - 1.0)))

    assert off(told) < 0.7 * off(silent)
