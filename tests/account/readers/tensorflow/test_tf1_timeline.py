from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from irene.account.events import Events
from irene.account.readers.recorded import read_trace, sniff
from irene.account.readers.tensorflow.tf1_timeline import timeline_events
from irene.errors import FormatError

TIMELINE = Path(__file__).parents[1] / "recorded" / "timeline-1.json.gz"
LAYER = (
    *("attention.self", "attention.self.query", "attention.self.key"),
    *("attention.self.value", "attention.output", "attention.output.dense"),
    *("attention.output.LayerNorm", "intermediate.dense", "output", "output.dense"),
    "output.LayerNorm",
)
MODULES = {f"bert.encoder.layer_{i}.{part}" for i in range(2) for part in LAYER}
MODULES |= {"bert.embeddings", "bert.pooler", "bert.pooler.dense", "classifier"}
CPU = "/job:localhost/replica:0/task:0/device:CPU:0 Compute"


def scopes(events: Events, phase: str) -> set[str]:
    rows = range(len(events))
    return {events.scope[row] for row in rows if events.phase[row] == phase}


def timeline(
    *records: dict[str, Any], processes: dict[int, str] | None = None
) -> Events:
    named = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in (processes or {1: CPU}).items()
    ]
    return timeline_events({"traceEvents": [*named, *records]}, "step 3", "made")


def op(
    name: str, kind: str = "MatMul", ts: float = 1.7e15, **facts: Any
) -> dict[str, Any]:
    head = {"ph": "X", "pid": 1, "tid": 0, "ts": ts, "dur": 5, **facts}
    return {**head, "name": kind, "args": {"name": name, "op": kind}}


def test_every_op_of_a_recorded_step_is_placed() -> None:
    events = read_trace(TIMELINE).events
    assert scopes(events, "forward") == MODULES
    assert scopes(events, "backward") <= MODULES | {"loss"}
    assert scopes(events, "loss") == {"loss"}
    rest = [row for row in range(len(events)) if events.phase[row] == "other"]
    assert {events.op[row] for row in rest} <= {"NoOp", "_Arg", "_Retval"}
    unplaced = [row for row in range(len(events)) if not events.scope[row]]
    assert unplaced == rest
    assert events.steps == ("step 1",)
    assert set(events.step.tolist()) == {0}


def test_an_optimizer_updates_the_weights_of_a_module() -> None:
    updated = scopes(read_trace(TIMELINE).events, "optimizer")
    weights = {
        name for name in MODULES if name.rpartition(".")[2] in ("dense", "query")
    }
    assert updated >= weights | {"bert.embeddings", "classifier"}
    assert updated - MODULES == {"Adam", "beta1_power", "beta2_power"}


def test_times_are_since_1970() -> None:
    events = read_trace(TIMELINE).events
    data = json.loads(gzip.decompress(TIMELINE.read_bytes()))
    first = min(r["ts"] for r in data["traceEvents"] if r["ph"] == "X")
    assert events.span_ns[0] == first * 1000
    assert read_trace(TIMELINE).has_clock
    assert events.notes == ()


def test_a_plain_file_reads_the_same(tmp_path: Path) -> None:
    plain = tmp_path / "timeline-42.json"
    with gzip.open(TIMELINE) as packed, plain.open("wb") as file:
        shutil.copyfileobj(packed, file)
    assert sniff(plain) == "tf1-timeline"
    events = read_trace(plain).events
    assert events.steps == ("step 42",)
    assert (events.start_ns == read_trace(TIMELINE).events.start_ns).all()


def test_the_gradient_of_an_op_belongs_to_its_module() -> None:
    events = timeline(
        op("bert/layer_0/dense/kernel", "VarHandleOp"),
        op("gradients/bert/layer_0/dense/Tensordot/MatMul_grad/MatMul_1"),
        op("gradients/AddN_2", "AddN", ts=1.7e15 + 5),
        op("gradients_1/bert/layer_0/add_3_grad/Sum", "Sum", ts=1.7e15 + 20),
    )
    found = [(events.scope[row], events.phase[row]) for row in range(1, 4)]
    assert sorted(found) == [
        ("bert.layer_0", "backward"),
        ("bert.layer_0.dense", "backward"),
        ("bert.layer_0.dense", "backward"),
    ]


def test_kernels_count_once_and_launches_are_the_cpu_s() -> None:
    gpu = "/job:localhost/replica:0/task:0/device:GPU:0"
    events = timeline(
        op("bert/dense/MatMul", pid=1),
        op("bert/dense/MatMul", pid=2),
        op("bert/dense/MatMul:MatMul", pid=3),
        op("bert/dense/MatMul:MatMul", pid=4),
        processes={
            1: CPU,
            2: f"{gpu} Compute",
            3: f"{gpu}/stream:all Compute",
            4: f"{gpu}/stream:13 Compute",
        },
    )
    devices = [events.device[row] for row in range(len(events))]
    assert sorted(devices) == ["cpu", "cpu", "cuda:0"]
    assert {events.scope[row] for row in range(len(events))} == {"bert.dense"}


def test_a_clock_of_its_own_is_said() -> None:
    events = timeline(op("bert/dense/MatMul", ts=12.5))
    assert "do not count from 1970" in events.notes[0]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "no traceEvents"),
        ({"traceEvents": []}, "no ops"),
        ({"traceEvents": [{"ph": "X", "args": {"x": 1}}, 3, None]}, "no ops"),
        ({"traceEvents": [op("a/b", ts="soon")]}, "has no times"),  # type: ignore[arg-type]
        ({"traceEvents": [op("a/b", ts=float("nan"))]}, "has no times"),
        ({"traceEvents": [op("a/b", ts=-5e20)]}, "not a time"),
    ],
)
def test_other_documents_are_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        timeline_events(document, "step", "made")


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    text = gzip.decompress(TIMELINE.read_bytes())
    for name, data in (
        ("timeline-1.json", text[: len(text) // 2]),
        ("timeline-2.json.gz", TIMELINE.read_bytes()[:9000]),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(FormatError, match=name):
            read_trace(path)
