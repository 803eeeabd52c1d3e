from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from irene.account import Events
from irene.account.events import RecordedTrace
from irene.account.readers.kineto import read_kineto
from irene.account.readers.kineto.linking import link_kernels
from irene.errors import FormatError
from tests.account.readers.kineto.linked_parts import (
    backward_s,
    launched,
    linked_trace,
    only_annotated,
)
from tests.account.readers.kineto.small_traces import BASE_NS, event, of_2022, today

DATA = Path(os.environ.get("IRENE_DATA_DIR", "")) / "gpu-traces"
needs_data = pytest.mark.skipif(
    not os.environ.get("IRENE_DATA_DIR") or not DATA.is_dir(),
    reason="recorded traces are not here: set IRENE_DATA_DIR",
)


def read(tmp_path: Path, document: dict) -> RecordedTrace:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    return read_kineto(path)


def rows(events: Events, name: str) -> list[int]:
    return [i for i in range(len(events)) if events.name[i] == name]


def facts(events: Events, name: str) -> tuple[str, str, str, str]:
    row = rows(events, name)[0]
    return (
        events.op[row], events.scope[row], events.phase[row], events.device[row],
    )  # fmt: skip


def test_times_are_since_1970(tmp_path: Path) -> None:
    trace = read(tmp_path, today())
    row = rows(trace.events, "aten::addmm")[0]
    assert trace.events.start_ns[row] == BASE_NS + 120_000
    assert trace.events.end_ns[row] == BASE_NS + 180_000
    assert trace.has_clock
    old = read(tmp_path, of_2022())
    assert old.has_clock
    assert old.events.start_ns.min() == BASE_NS + 10_000


def test_a_trace_without_a_clock_base_says_so(tmp_path: Path) -> None:
    document = today()
    del document["baseTimeNanoseconds"]
    trace = read(tmp_path, document)
    assert not trace.has_clock
    assert any("baseTimeNanoseconds" in note for note in trace.events.notes)


def test_kernels_take_op_module_and_phase_of_what_launched_them(tmp_path: Path) -> None:
    events = read(tmp_path, today()).events
    assert facts(events, "void gemm<float>(x)") == (
        "aten::addmm", "fc", "forward", "cuda:0",
    )  # fmt: skip
    assert facts(events, "void gemm<float>(y)") == (
        "aten::mm", "fc", "backward", "cuda:0",
    )  # fmt: skip
    assert facts(events, "add") == ("aten::add_", "", "optimizer", "cuda:0")


def test_kernels_of_another_accelerator_are_linked_alike(tmp_path: Path) -> None:
    document = today()
    meta = {"kernel": "mtia_ccp_events", "cuda_runtime": "mtia_runtime"}
    for each in document["traceEvents"]:
        kind = str(each.get("cat"))
        each["cat"] = meta.get(kind, kind)
    events = read(tmp_path, document).events
    assert facts(events, "void gemm<float>(x)")[:3] == ("aten::addmm", "fc", "forward")


def test_phases_of_the_host(tmp_path: Path) -> None:
    events = read(tmp_path, today()).events
    assert facts(events, "aten::stack") == ("aten::stack", "", "data", "cpu")
    assert facts(events, "aten::linear")[1:3] == ("fc", "forward")
    assert facts(events, "aten::mse_loss")[1:3] == ("", "loss")
    assert facts(events, "AddmmBackward0")[1:3] == ("fc", "backward")
    mark = facts(events, "mod:fc")
    assert mark == ("(python)", "fc", "forward", "cpu")
    assert events.is_mark[rows(events, "mod:fc")[0]]


def test_a_collective_is_communication_wherever_it_runs(tmp_path: Path) -> None:
    document = today()
    backward = event("cpu_op", "autograd::engine::evaluate_function: Reduce", 900, 90)
    reduce = event("cpu_op", "c10d::allreduce_", 910, 50)
    document["traceEvents"] += [backward, reduce, event("cpu_op", "aten::div", 920, 10)]
    events = read(tmp_path, document).events
    assert facts(events, "c10d::allreduce_")[2] == "communication"
    assert facts(events, "aten::div")[2] == "communication"
    assert facts(events, backward["name"])[2] == "backward"


def test_a_gradient_is_accumulated_for_the_module_that_made_it(tmp_path: Path) -> None:
    trace = read(tmp_path, today())
    name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    assert facts(trace.events, name)[1:3] == ("fc", "backward")
    all_s, linked_s = backward_s(linked_trace(tmp_path / "trace.json"))
    assert all_s == linked_s > 0


def test_the_last_forward_op_with_a_number_owns_it(tmp_path: Path) -> None:
    document = today()
    early = event("cpu_op", "aten::view", 60, 5, **{"Sequence number": 5})
    mark = event("user_annotation", "mod:other", 55, 20)
    document["traceEvents"] += [early, mark]
    events = read(tmp_path, document).events
    assert facts(events, "aten::view")[1] == "other"
    assert facts(events, "AddmmBackward0")[1] == "fc"


def test_ops_of_the_model_itself_are_forward_too(tmp_path: Path) -> None:
    document = today()
    document["traceEvents"] += [
        event("user_annotation", "mod:", 300, 40),
        event("cpu_op", "aten::embedding", 310, 20),
        event("cpu_op", "aten::rand", 350, 5),
    ]
    events = read(tmp_path, document).events
    assert facts(events, "aten::embedding")[1:3] == ("", "forward")
    assert facts(events, "aten::rand")[1:3] == ("", "other")


def test_steps_are_the_profilers_own(tmp_path: Path) -> None:
    events = read(tmp_path, today()).events
    assert events.steps == ("#3",)
    assert set(events.step.tolist()) == {0}
    assert not rows(events, "ProfilerStep#3")


def test_ops_nest(tmp_path: Path) -> None:
    events = read(tmp_path, today()).events
    inner, outer = rows(events, "aten::addmm")[0], rows(events, "aten::linear")[0]
    assert events.parent[inner] == outer
    assert events.parent[rows(events, "void gemm<float>(x)")[0]] == -1


def test_old_traces_are_linked_through_the_runtime_call(tmp_path: Path) -> None:
    trace = read(tmp_path, of_2022())
    events = trace.events
    assert facts(events, "gemm")[0] == "aten::bmm"
    assert facts(events, "add")[0] == "aten::add"
    fused = facts(events, "adam")
    assert fused == ("Optimizer.step#FusedAdam.step", "", "optimizer", "cuda:2")
    linked = linked_trace(tmp_path / "trace.json")
    assert launched(linked)[0] == (4, 3)
    assert only_annotated(linked) == 1
    assert facts(events, "stray")[0] == "stray"
    assert any("1 of 4 kernels" in note for note in events.notes)


def test_weights_of_kernels(tmp_path: Path) -> None:
    events = read(tmp_path, today()).events
    first, second = (rows(events, f"void gemm<float>({x})")[0] for x in "xy")
    assert events.weights["threads"][first] == 80 * 128
    assert events.weights["sm"][[first, second]].tolist() == [1.0, 1.0]
    assert np.isnan(events.weights["sm"][rows(events, "aten::addmm")[0]])


def test_modules_that_the_profiler_recorded_give_paths(tmp_path: Path) -> None:
    document = {
        "traceEvents": [
            event("python_function", "nn.Module: Bert_0", 0, 100),
            event("python_function", "torch/nn/modules/module.py(1): call", 1, 98),
            event("python_function", "nn.Module: Layer_0", 10, 50),
            event("cpu_op", "aten::mm", 20, 10),
            event("python_function", "nn.Module: Layer_1", 61, 20),
            event("cpu_op", "aten::add", 65, 10),
        ],
        "baseTimeNanoseconds": BASE_NS,
    }
    trace = read(tmp_path, document)
    assert facts(trace.events, "aten::mm")[1] == "Bert_0.Layer_0"
    assert facts(trace.events, "aten::add")[1] == "Bert_0.Layer_1"
    assert len(trace.events) == 5


def test_annotations_give_paths_if_there_is_nothing_better(tmp_path: Path) -> None:
    document = {
        "traceEvents": [
            event("user_annotation", "## forward ##", 0, 100),
            event("user_annotation", "tower v1.2", 10, 50),
            event("cpu_op", "aten::mm", 20, 10),
            event("user_annotation", "nccl:all_reduce", 70, 10),
            event("user_annotation", "## load_batch ##", 110, 10),
            event("cpu_op", "aten::stack", 112, 2),
        ],
        "baseTimeNanoseconds": BASE_NS,
    }
    trace = read(tmp_path, document)
    assert facts(trace.events, "aten::mm")[1] == "## forward ##.tower v1_2"
    assert facts(trace.events, "nccl:all_reduce")[1:3] == (
        "## forward ##", "communication",
    )  # fmt: skip
    assert facts(trace.events, "aten::mm")[2] == "forward"
    assert facts(trace.events, "aten::stack")[2] == "data"


def test_identifiers_as_text_and_events_without_time(tmp_path: Path) -> None:
    document = today()
    for one in document["traceEvents"]:
        args = one.get("args", {})
        for key in ("External id", "correlation"):
            if key in args:
                args[key] = str(args[key])
    document["traceEvents"] += [
        event("cpu_op", "aten::lost", None, 5),  # type: ignore[arg-type]
        event("cpu_op", "aten::odd", 5, -3),
    ]
    trace = read(tmp_path, document)
    assert launched(linked_trace(tmp_path / "trace.json"))[0] == (3, 3)
    assert any("2 events have no usable time" in note for note in trace.events.notes)


def test_a_cut_trace_is_used_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    document = {"baseTimeNanoseconds": BASE_NS, **today()}
    text = json.dumps(document)
    path.write_text(text[: text.index('"AddmmBackward0"')])
    trace = read_kineto(path)
    assert rows(trace.events, "aten::addmm")
    assert any("cut off at byte" in note for note in trace.events.notes)


def test_a_trace_without_ops_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no events of ops"):
        read(tmp_path, {"traceEvents": []})


# Traces of real machines ------------------------------------------------------


@needs_data
@pytest.mark.parametrize(
    ("name", "kernels", "copies", "fills", "annotated"),
    [
        ("v100-resnet-2024", 4350, 1600, 145, 0),
        ("a100-2022", 8568, 228, 654, 48),
        ("a100-alexnet-2023", 79, 16, 3, 0),
        ("a100-sampled-rank0", 1154, 40, 10, 16),
        ("mi250-rocm6-2024", 14, 2, 0, 0),
    ],
)
def test_everything_that_ran_on_a_gpu_is_linked(
    name: str, kernels: int, copies: int, fills: int, annotated: int
) -> None:
    linked = linked_trace(DATA / f"{name}.json.gz")
    counts = (kernels, copies, fills)
    assert launched(linked) == [(count, count) for count in counts]
    assert only_annotated(linked) == annotated


@needs_data
def test_both_ways_to_link_agree_on_a_trace_that_has_both() -> None:
    linked = linked_trace(DATA / "v100-resnet-2024.json.gz")
    columns, by_id = linked.columns, linked.links
    on_gpu = columns.kind >= 4
    columns.external[on_gpu] = columns.correlation[on_gpu]  # as in 2022
    by_call = link_kernels(columns, linked.start_ns, linked.end_ns, linked.host)
    assert (by_id.host >= 0).sum() >= 6095
    assert by_id.host.tolist() == by_call.host.tolist()


@needs_data
def test_backward_is_linked_on_real_traces() -> None:
    for name in ("v100-resnet-2024", "a100-2022", "mi250-rocm6-2024"):
        all_s, linked_s = backward_s(linked_trace(DATA / f"{name}.json.gz"))
        assert linked_s > 0.99 * all_s


# The profiler of the torch that is installed ----------------------------------


def test_a_training_step_recorded_by_torch_itself(tmp_path: Path) -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
    marks: list[record_function] = []

    def enter(path: str) -> None:
        marks.append(record_function(f"mod:{path}"))
        marks[-1].__enter__()

    for path, module in model.named_children():
        module.register_forward_pre_hook(lambda *_, path=path: enter(path))
        module.register_forward_hook(lambda *_: marks.pop().__exit__(None, None, None))
    optimizer = torch.optim.SGD(model.parameters())
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule) as profiler:
        for _ in range(3):
            model(torch.randn(32, 64)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = read_kineto(tmp_path / "trace.json")
    events = trace.events
    assert trace.has_clock
    assert len(events.steps) == 2
    assert {"0", "1"} <= set(events.scope.names)
    assert {"forward", "backward", "optimizer"} <= {
        events.phase[i] for i in range(len(events))
    }
    all_s, linked_s = backward_s(linked_trace(tmp_path / "trace.json"))
    assert linked_s > 0.99 * all_s
    scopes = {
        events.scope[i] for i in range(len(events)) if events.phase[i] == "backward"
    }
    assert {"0", "1"} <= scopes


def test_shapes_of_inputs_tell_ops_apart_where_wanted(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    document = today()
    path.write_text(json.dumps(document))
    bare = read_kineto(path, shapes=True).events
    assert any("record_shapes" in note for note in bare.notes)
    for each in document["traceEvents"]:
        if each.get("name") == "aten::addmm":
            each["args"]["Input Dims"] = [[4], [2, 8], [8, 4], [], []]
    path.write_text(json.dumps(document))
    told = read_kineto(path, shapes=True).events
    ops = {told.op[row] for row in rows(told, "aten::addmm")}
    assert ops == {"aten::addmm 4, 2×8, 8×4"}
    kernels = {told.op[i] for i in range(len(told)) if told.device[i] != "cpu"}
    assert "aten::addmm 4, 2×8, 8×4" in kernels  # with what launched them
    silent = read_kineto(path).events
    assert {silent.op[row] for row in rows(silent, "aten::addmm")} == {"aten::addmm"}
