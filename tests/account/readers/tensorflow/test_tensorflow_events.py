"""Traces of TensorFlow 2: recorded ones, made ones, and one of a live run.

The live run needs `.venv-tf`, which `make test` makes.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irene.account.align.attribution import attribute
from irene.account.align.power import PowerSeries
from irene.account.events import Events
from irene.account.readers.recorded import read_trace
from irene.account.readers.tensorflow.name_scopes import NameScopes
from irene.account.readers.tensorflow.xplane import read_xspace
from irene.errors import FormatError, MissingExtraError
from tests.account.readers.tensorflow.xplane_bytes import (
    START_NS,
    MadePlane,
    environment,
    space,
)

ROOT = Path(__file__).parents[4]
RECORDED = Path(__file__).parents[1] / "recorded"
TENSORFLOW = ROOT / ".venv-tf" / "bin" / "python"
PATIENCE_S = 300
BLOCK = (
    *("", ".attention", ".attention.query", ".attention.key", ".attention.value"),
    *(".attention.attention_output", ".attention_norm", ".intermediate"),
    *(".output_dense", ".output_norm", ".dropout"),
)
LAYERS = {f"transformer.layer_{i}{part}" for i in range(2) for part in BLOCK}
LAYERS |= {f"transformer.{part}" for part in ("embeddings", "pooler", "classifier")}
PLUMBING = {"Placeholder", "_Send", "_Recv", "_Arg", "_Retval", "NoOp", "Const"}


def ops(events: Events) -> list[int]:
    return np.flatnonzero(~events.is_mark).tolist()


def scopes(events: Events, phase: str) -> set[str]:
    return {events.scope[row] for row in ops(events) if events.phase[row] == phase}


def check_every_op_is_placed(events: Events, optimizer: str) -> None:
    """Every op of the training step of the transformer has its layer and phase."""
    assert scopes(events, "forward") == LAYERS
    # Taking the mean over a sequence has no op of its own backward that XLA or the
    # graph optimizer always keeps; every other layer has one.
    loss = "compile_loss.sparse_categorical_crossentropy"
    backward = scopes(events, "backward")
    assert LAYERS - backward <= {"transformer.pooler"}
    assert backward - LAYERS == {loss}
    assert scopes(events, "optimizer") == {optimizer}
    assert scopes(events, "loss") == {loss, "compile_metrics"}
    assert scopes(events, "data") == {""}
    rest = Counter(
        events.op[row]
        for row in ops(events)
        if events.phase[row] == "other" and not events.name[row].startswith("Eager")
    )
    assert set(rest) <= PLUMBING
    in_steps = [row for row in ops(events) if events.step[row] >= 0]
    assert not [
        events.name[row]
        for row in in_steps
        if not events.scope[row] and events.phase[row] not in ("data", "other")
    ]


def test_every_op_of_a_recorded_training_step_is_placed() -> None:
    events = read_trace(RECORDED / "keras_fit.xplane.pb.gz").events
    check_every_op_is_placed(events, "adam_w")
    assert events.notes == ()
    assert events.steps == ("step 0", "step 1")
    counts = Counter(events.step[ops(events)].tolist())
    # The same ops in both steps; how work is handed to threads may differ.
    assert 0.8 < counts[0] / counts[1] < 1.25


def test_the_sums_of_gradients_belong_to_the_layer_they_come_from() -> None:
    events = read_trace(RECORDED / "keras_fit.xplane.pb.gz").events
    sums = [row for row in ops(events) if "/AddN" in events.name[row]]
    assert {events.phase[row] for row in sums} == {"backward"}
    assert all(events.scope[row].startswith("transformer.layer_") for row in sums)


def test_work_of_pool_threads_belongs_to_the_op_that_handed_it_out() -> None:
    events = read_trace(RECORDED / "keras_fit.xplane.pb.gz").events
    pool = [row for row in ops(events) if "Eigen" in events.lane[row]]
    assert len(pool) > 50
    for row in pool:
        same = events.name.codes == events.name.codes[row]
        elsewhere = same & (events.lane.codes != events.lane.codes[row])
        started = events.start_ns[elsewhere] <= events.start_ns[row]
        assert started.any()


def test_times_are_those_of_the_profile() -> None:
    path = RECORDED / "keras_fit.xplane.pb.gz"
    (environment,) = read_xspace(path).named("Task Environment")
    begin, end = read_trace(path).events.span_ns
    stats = environment.stats
    assert stats["profile_start_time"] <= begin < end <= stats["profile_stop_time"]


def test_a_layer_called_twice_is_one_module_and_names_of_keras_are_kept() -> None:
    events = read_trace(RECORDED / "keras_shared.xplane.pb.gz").events
    forward = scopes(events, "forward") - {""}
    block = {f"functional.shared{part}" for part in BLOCK}
    named = ("embedding", "dense", "dense_1", "dense_2", "global_average_pooling1d")
    assert forward == {"functional"} | block | {f"functional.{n}" for n in named}
    queries = [
        row
        for row in ops(events)
        if events.scope[row] == "functional.shared.attention.query"
        and events.phase[row] == "forward"
        and events.op[row] == "BatchMatMulV2"
        and "Eigen" not in events.lane[row]
    ]
    assert len(queries) == 2
    assert events.steps == ("train 7",)
    assert scopes(events, "loss") == {"sparse_categorical_crossentropy"}
    assert scopes(events, "optimizer") == {"sgd"}


def test_compiled_instructions_have_the_layer_of_the_op_they_were_made_from() -> None:
    events = read_trace(RECORDED / "keras_compiled.xplane.pb.gz").events
    only = {layer for layer in LAYERS if "layer_1" not in layer}
    assert scopes(events, "forward") <= only | {""}
    assert only - scopes(events, "forward") - scopes(events, "backward") == set()
    assert scopes(events, "optimizer") == {"sgd"}
    (note,) = events.notes
    assert note.startswith("3 compiled instructions have no op_name")


def test_the_names_of_keras_2_have_no_number_too_many() -> None:
    names = [
        ("model/dense/MatMul/ReadVariableOp", "ReadVariableOp"),
        ("model/dense/MatMul", "MatMul"),
        ("model/dense_1/Tensordot/ReadVariableOp", "ReadVariableOp"),
        ("model/dense_1/Tensordot/MatMul", "MatMul"),
        ("model/bert/layer_._0/LayerNorm/batchnorm/ReadVariableOp", "ReadVariableOp"),
        ("model/bert/layer_._0/LayerNorm/batchnorm/mul", "Mul"),
        ("model/lstm/while/body/_31/model/lstm/while/lstm_cell/MatMul", "MatMul"),
        ("gradient_tape/model/dense_1/Tensordot/MatMul/MatMul_1", "MatMul"),
        ("Adam/Adam/update/ResourceApplyAdam", "ResourceApplyAdam"),
        ("mine/update_w/ResourceApplyFtrl", "ResourceApplyFtrl"),
    ]
    placed = NameScopes(names)
    found = {(p.scope, p.phase) for p in (placed.place(*name) for name in names)}
    assert found == {
        ("model.dense", "forward"),
        ("model.dense_1", "forward"),
        ("model.bert.layer_0.LayerNorm", "forward"),
        ("model.lstm.lstm_cell", "forward"),
        ("model.dense_1", "backward"),
        ("Adam", "optimizer"),
        ("mine", "optimizer"),
    }


def read_made(folder: Path, *planes: MadePlane) -> Events:
    path = folder / "made.xplane.pb"
    path.write_bytes(space(*planes, environment()))
    return read_trace(path).events


def test_kernels_are_on_their_gpu_and_stream(tmp_path: Path) -> None:
    kernels = MadePlane(
        "/device:GPU:1",
        {
            "Stream #14(Compute)": [
                ("sgemm_128", 50, 30, {"tf_op": "m_1/dense_1/MatMul:MatMul"}),
                (
                    "sgemm_64",
                    90,
                    9,
                    {"tf_op": "gradient_tape/m_1/dense_1/MatMul:MatMul"},
                ),
            ],
            "Stream #15(MemcpyH2D)": [("MemcpyH2D", 10, 20)],
            "TensorFlow Name Scope": [("m_1", 50, 30)],
        },
    )
    reads = [("m_1/dense_1/Cast/ReadVariableOp:ReadVariableOp", 1, 2)]
    events = read_made(tmp_path, MadePlane("/host:CPU", {"tf_Compute": reads}), kernels)
    gpu = [row for row in ops(events) if events.device[row] == "cuda:1"]
    seen = [
        (events.name[r], events.op[r], events.scope[r], events.phase[r]) for r in gpu
    ]
    assert sorted(seen) == [
        ("MemcpyH2D", "MemcpyH2D", "", "other"),
        ("sgemm_128", "MatMul", "m.dense", "forward"),
        ("sgemm_64", "MatMul", "m.dense", "backward"),
    ]
    assert len({events.lane[row] for row in gpu}) == 2
    assert events.start_ns[gpu].min() == START_NS + 10


def test_eager_ops_are_counted_without_a_module_and_that_is_said(
    tmp_path: Path,
) -> None:
    line = [("EagerLocalExecute: MatMul", 10 * i, 5) for i in range(9)]
    events = read_made(tmp_path, MadePlane("/host:CPU", {"python": line}))
    assert {events.op[row] for row in ops(events)} == {"MatMul"}
    assert "9 ops ran eagerly" in events.notes[0]


def test_a_trace_without_ops_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="has no ops"):
        read_made(tmp_path, MadePlane("/host:CPU", {"python": [("nothing", 1, 2)]}))


def test_a_recorded_step_and_power_make_a_ledger() -> None:
    events = read_trace(RECORDED / "keras_fit.xplane.pb.gz").events
    begin, end = events.span_ns
    times = np.linspace(begin - 1000, end + 1000, 50).astype(np.int64)
    power = PowerSeries.from_power("made", times, np.full(50, 20.0), device="cpu")
    ledger = attribute(events, [power])
    assert ledger.measured_j == pytest.approx(20 * (end - begin) * 1e-9)
    modules = {row.path: row for row in ledger.by_module()}
    assert set(modules) >= LAYERS
    layers = [modules[f"transformer.layer_{index}"].energy for index in range(2)]
    assert all(energy is not None and energy.joules > 0 for energy in layers)
    joules = {row.name: row.energy.joules for row in ledger.by_phase() if row.energy}
    placed = ("forward", "backward", "optimizer", "loss", "data")
    assert min(joules[phase] for phase in placed) > 0
    assert sum(joules.values()) == pytest.approx(ledger.attributed_j)


# Live ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `keras_live.py` wrote."""
    if not TENSORFLOW.exists():
        pytest.skip("there is no .venv-tf: `make test` makes it where pip can")
    folder = tmp_path_factory.mktemp("keras")
    done = subprocess.run(
        [TENSORFLOW, Path(__file__).parent / "keras_live.py", folder],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.fixture(scope="module")
def facts(live: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((live / "facts.json").read_text())
    return found


live_group = pytest.mark.xdist_group("tensorflow")


@live_group
def test_every_op_of_a_live_training_step_is_placed(live: Path) -> None:
    check_every_op_is_placed(read_trace(live / "fit.xplane.pb").events, "adam")


@live_group
def test_a_live_trace_is_read_as_tensorflow_reads_it(
    live: Path, facts: dict[str, Any]
) -> None:
    found = read_xspace(live / "fit.xplane.pb")
    ours = {
        plane.name: [
            [
                line.id,
                line.name,
                len(line),
                int((line.start_ns - (found.start_ns or 0)).sum()),
                sum(line.name_id),
                sum(map(len, line.stats_at)),
            ]
            for line in plane.lines
        ]
        for plane in found.planes
    }
    assert ours == facts["peer"]


@live_group
def test_the_callback_makes_a_ledger_of_training(facts: dict[str, Any]) -> None:
    fit = facts["fit"]
    assert fit["is_callback"]
    assert not fit["torch"]
    assert fit["steps"] == ["train 2", "train 3", "train 4"]
    assert fit["measured_j"] > 0
    assert max(map(abs, fit["difference_j"])) <= 1e-9 * fit["measured_j"]
    assert {"forward", "backward", "optimizer", "loss"} <= set(fit["phases"])
    assert set(fit["modules"]) >= LAYERS


@live_group
def test_the_callback_makes_a_ledger_of_prediction(facts: dict[str, Any]) -> None:
    predict = facts["predict"]
    assert predict["steps"] == ["predict 0", "predict 1"]
    assert "backward" not in predict["phases"]
    assert set(predict["modules"]) >= LAYERS - {
        f"transformer.layer_{index}.dropout" for index in range(2)
    }
    assert facts["kept"] == [".csv", ".pb"]


@live_group
def test_the_callback_says_why_it_cannot_record(facts: dict[str, Any]) -> None:
    assert "running already" in facts["busy"]
    assert "nothing was recorded: 8 steps are over" in facts["short"]


@pytest.mark.skipif(
    find_spec("tensorflow") is not None, reason="TensorFlow is installed here"
)
def test_without_tensorflow_the_callback_names_what_to_install() -> None:
    from irene.account.callbacks.keras_callback import EnergyCallback

    with pytest.raises(MissingExtraError, match="pip install 'tensorflow"):
        EnergyCallback()
