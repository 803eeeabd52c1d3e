"""`irene.measure` as a caller meets it."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import irene
from irene.errors import LimitError, MeterError, UsageError
from irene.measure.alone.node_by_node import Progress
from irene.measure.api import measure, plan_measurement
from irene.meters.channel import Channel
from irene.tree import ModelTree

from .made_up_nodes import BRISK, WATTS, Stack, SteadyMeter, WithOnce, stack_input

TINY = "bert-l2-h128"


def of_stack(**options) -> ModelTree:
    settings = {"protocol": BRISK, "meters": [SteadyMeter()]} | options
    return measure(Stack(), stack_input(), **settings)


@pytest.fixture(scope="module")
def bert() -> ModelTree:
    return measure(
        TINY, batch_size=2, seq_len=8, protocol=BRISK, meters=[SteadyMeter()], threads=1
    )


def test_every_node_down_to_primitives_has_energy(bert):
    assert not np.isnan(bert.energy.joules).any()
    assert {node.kind for node in bert.nodes()} == {"model", "module", "ml"}
    ops = {node.op for node in bert.nodes()}
    assert {"BertModel", "BertLayer", "Linear", "LayerNorm", "softmax"} <= ops
    assert {"matmul", "copy", "GELUActivation"} <= ops


def test_energy_is_what_the_meter_says(bert):
    for node in bert.nodes():
        expected = WATTS * node.features["times_mean"]
        assert node.energy.joules == pytest.approx(expected, rel=0.1)
        assert node.energy.low <= node.energy.joules <= node.energy.high


def test_children_and_own_add_up(bert):
    for node in bert.nodes():
        children = sum(child.energy.joules for child in node.children)
        assert children + node.own_j == pytest.approx(node.energy.joules)


def test_equal_layers_have_one_measurement(bert):
    first, second = (bert.find(f"encoder.layer.{i}") for i in (0, 1))
    assert first.energy == second.energy
    assert first.features == second.features
    assert any(node.count == 2 for node in bert.fold().nodes())


def test_the_tree_says_where_it_is_from(bert):
    assert bert.spec.model == TINY
    assert bert.hardware.name == "this-machine"
    assert bert.hardware.covers == "wall"
    assert bert.root.energy.source == "measured"
    assert bert.root.energy.produced_by == "wall, 2 × 0.004 s"
    told = bert.provenance
    assert told["torch"] == torch.__version__
    assert told["threads"] == "1"
    assert {"cpu", "kernel", "counted", "idle_power", "rounds", "measured"} <= set(told)


def test_it_survives_json(bert):
    assert ModelTree.from_json(bert.to_json()) == bert


def test_the_package_is_the_function():
    tree = irene.measure(
        Stack(), stack_input(), protocol=BRISK, meters=[SteadyMeter()], rounds=1
    )
    assert tree.root.features["rounds"] == 1


def test_a_module_of_ones_own_is_run_as_it_is():
    model = Stack()
    before = {name: p.clone() for name, p in model.named_parameters()}
    tree = measure(model, (stack_input(),), protocol=BRISK, meters=[SteadyMeter()])
    assert tree.root.op == "Stack"
    assert tree.find("layers.0", call=2).energy == tree.find("layers.0").energy
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    assert torch.is_grad_enabled()


def test_a_node_that_cannot_be_run_alone_is_said():
    x = torch.ones(2, 4)
    tree = measure(WithOnce(), x, protocol=BRISK, meters=[SteadyMeter()])
    assert tree.find("once").energy is None
    assert tree.find("dense").energy is not None
    assert tree.root.energy is not None
    (note,) = [note for note in tree.notes if "energy not known" in note]
    assert "once (Once)" in note
    assert "pop from empty list" in note
    assert note.startswith("warning:")
    assert ModelTree.from_json(tree.to_json()).find("once").energy is None
    assert "–" in tree.to_html()


def test_idle_power_is_taken_off_the_net_energy():
    tree = of_stack(protocol=replace(BRISK, idle_s=0.01))
    assert tree.root.features["net_energy_mean"] == pytest.approx(0.0, abs=1e-4)
    assert tree.provenance["idle_power"].startswith("20.00 W")


def test_a_busy_machine_is_said_and_its_rounds_are_repeated():
    load = Channel("proc:cpu", "percent", counted=False)
    power = Channel("wall:power", "power_w", "wall")
    meter = SteadyMeter([power, load], [WATTS, 500.0])
    steps: list[Progress] = []
    tree = of_stack(
        meters=[meter], progress=steps.append, protocol=replace(BRISK, round_s=0.02)
    )
    assert tree.root.features["rounds_busy"] == BRISK.rounds
    assert tree.root.features["rounds_repeated"] == BRISK.extra_rounds
    assert any("another process was busy" in step.message for step in steps)
    assert any(note.startswith("warning: another process") for note in tree.notes)
    assert tree.root.features["cpu"] == pytest.approx(500.0)


def test_progress_tells_what_is_left():
    steps: list[Progress] = []
    of_stack(progress=steps.append)
    assert (steps[0].done, steps[0].node) == (0, "Stack")
    assert steps[-1].done == steps[-1].total
    assert steps[-1].left_s == 0.0
    assert all(step.left_s > 0 for step in steps[:-1])


# Meters -----------------------------------------------------------------------


def test_a_meter_that_is_lost_for_good_leaves_the_latencies():
    meter = SteadyMeter(readings_left=12)
    steps: list[Progress] = []
    tree = of_stack(meters=[meter], progress=steps.append)
    unknown = [node for node in tree.nodes() if node.energy is None]
    assert unknown
    assert all(node.features["times_mean"] > 0 for node in unknown)
    assert any("a meter was lost" in step.message for step in steps)
    assert any("a meter was lost, latency is known" in note for note in tree.notes)


def test_a_meter_that_comes_back_has_its_round_repeated():
    meter = SteadyMeter(readings_left=6, back_after=8)
    tree = of_stack(meters=[meter], protocol=replace(BRISK, extra_rounds=5))
    assert all(node.energy is not None for node in tree.nodes())


def test_without_a_meter_that_counts_there_is_a_clear_error():
    with pytest.raises(MeterError, match="irene doctor"):
        of_stack(meters=["proc"])


def test_meters_by_name_run_in_a_process_of_their_own():
    tree = of_stack(meters=["estimate", "proc"], protocol=replace(BRISK, round_s=0.03))
    assert tree.root.energy.source == "estimated"
    assert tree.root.energy.produced_by.startswith("estimate")
    assert tree.root.features["mem"] > 0
    assert "estimate:cpu" in tree.provenance["counted"]


# Requests that cannot be met --------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"phase": "train"}, "irene account"),
        ({"device": "meta"}, "runs nothing"),
        ({"device": "nowhere"}, "no device"),
        ({"device": "cuda:99"}, "torch sees"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"protocol": "slow"}, "no protocol"),
        ({"rounds": 0}, "rounds must be"),
        ({"meters": ["thermometer"]}, "no meter"),
    ],
)
def test_what_cannot_be_met_is_said(options, message):
    settings = {"protocol": BRISK, "meters": [SteadyMeter()]} | options
    with pytest.raises((UsageError, MeterError), match=message):
        measure(TINY, seq_len=8, **settings)


def test_a_model_that_does_not_fit_is_refused_before_it_is_built(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 90 kB\nMemAvailable:  80 kB\n")
    monkeypatch.setenv("IRENE_PROC_ROOT", str(tmp_path))
    with pytest.raises(LimitError, match=r"weights of bert-l2-h128 take 17\.6 MB"):
        measure(TINY, protocol=BRISK, meters=[SteadyMeter()], device="cpu")


def test_a_module_without_weights_is_refused():
    model = nn.Linear(2, 2, device="meta")
    with pytest.raises(UsageError, match="no weights"):
        measure(model, torch.ones(1, 2), meters=[SteadyMeter()])


def test_the_threads_are_given_back():
    before = torch.get_num_threads()
    of_stack(threads=1)
    assert torch.get_num_threads() == before


# The plan ---------------------------------------------------------------------


def test_a_plan_runs_nothing_and_tells_what_would_be_run():
    plan = plan_measurement("bert-base-uncased", batch_size=8, protocol="paper")
    document = json.loads(json.dumps(plan.to_dict()))
    assert document["schema"] == "irene.measure-plan/1"
    layers = [node for node in plan.nodes if node.op == "BertLayer"]
    assert [node.times for node in layers] == [12]
    assert document["nodes_in_tree"] == sum(node.times for node in plan.nodes)
    assert plan.total_s > 5 * 20 * len(plan.nodes)


# Journals ---------------------------------------------------------------------


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    journal = tmp_path / "journal.jsonl"
    seen: list[str] = []

    def stop(step: Progress) -> None:
        seen.append(step.node)
        if step.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        of_stack(journal=journal, progress=stop)
    kept = journal.read_text().splitlines()
    assert len(kept) == 1 + 3
    seen.clear()
    tree = of_stack(journal=journal, progress=lambda step: seen.append(step.node))
    assert "Stack" not in seen
    assert journal.read_text().splitlines()[:4] == kept
    measured_before = json.loads(kept[1])["rounds"][0]["latency_s"]
    times = [r["latency_s"] for r in json.loads(kept[1])["rounds"]]
    assert measured_before in times
    assert min(times) <= tree.root.features["times_mean"] <= max(times)


def test_a_finished_run_is_read_back_and_fresh_measures_again(tmp_path):
    journal = tmp_path / "journal.jsonl"
    tree = of_stack(journal=journal)
    again = of_stack(journal=journal)
    assert again.energy.joules.tolist() == tree.energy.joules.tolist()
    meter = SteadyMeter(values=[2 * WATTS])
    fresh = of_stack(journal=journal, fresh=True, meters=[meter])
    watts = fresh.root.energy.joules / fresh.root.features["times_mean"]
    assert watts == pytest.approx(2 * WATTS, rel=0.1)


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.measure.made_up_nodes import BRISK, Stack, SteadyMeter, stack_input
from irene.measure.api import measure

def say(step):
    print(step.done, flush=True)
    if step.done == 4:
        sys.stdin.read()

tree = measure(
    Stack(), stack_input(), protocol=BRISK, meters=[SteadyMeter()],
    journal=Path(sys.argv[1]), progress=say,
)
"""


def test_a_killed_run_goes_on_in_another_process(tmp_path):
    journal = tmp_path / "journal.jsonl"
    root = str(Path(__file__).resolve().parents[2])
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(journal), root],
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    while child.stdout.readline().strip() not in ("4", ""):
        time.sleep(0)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    kept = journal.read_text().splitlines()
    assert len(kept) == 1 + 4
    tree = of_stack(journal=journal)
    lines = journal.read_text().splitlines()
    assert lines[:5] == kept
    assert len(lines) > len(kept)
    keys = [json.loads(line)["key"] for line in lines[1:]]
    assert len(keys) == len(set(keys))
    assert math.isfinite(tree.root.energy.joules)
