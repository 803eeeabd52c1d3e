"""What a training takes: sums, intervals, and what widens them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import training

from irene.analyse import training_plan
from irene.analyse.costs import CostTerms
from irene.analyse.training_plan import TrainingPlan, plan_training
from irene.errors import UsageError
from irene.predict.api import predict_run
from irene.spec import RunSpec
from irene.tree import ModelTree

CONFIG = {
    "model_type": "gpt2", "n_layer": 1, "n_embd": 64, "n_head": 2, "vocab_size": 500,
    "architectures": ["GPT2LMHeadModel"],
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> RunSpec:
    path = tmp_path_factory.mktemp("model") / "config.json"
    path.write_text(json.dumps(CONFIG))
    return RunSpec(str(Path(path)), batch_size=4, seq_len=32)


@pytest.fixture(scope="module")
def plan(model: RunSpec) -> TrainingPlan:
    terms = CostTerms(price_per_kwh=0.5, pue=1.2, gco2e_per_kwh=100)
    return plan_training(model, "h100", 128e4, terms=terms, price_per_gpu_hour=2)


def test_steps_and_sums(plan: TrainingPlan) -> None:
    assert plan.steps == 10_000
    joules = sum(plan.parts.values()) * plan.steps * plan.gpus * plan.pue
    assert plan.kwh.value == pytest.approx(joules / 3.6e6)
    assert plan.kg_co2e.value == pytest.approx(plan.kwh.value * 0.1)
    assert plan.hours is not None
    assert plan.money is not None
    cost = 0.5 * plan.kwh.value + 2 * plan.hours.value
    assert plan.money.value == pytest.approx(cost)
    for amount in (plan.kwh, plan.hours, plan.money, plan.kg_co2e):
        assert amount.low < amount.value < amount.high


def test_more_gpus_take_as_much_energy_and_less_time(
    model: RunSpec, plan: TrainingPlan
) -> None:
    eight = plan_training(model, "h100", 128e4, 8, terms=CostTerms(pue=1.2))
    assert eight.steps == plan.steps / 8
    assert eight.kwh.value >= plan.kwh.value * 0.999
    assert eight.hours is not None
    assert plan.hours is not None
    assert eight.hours.value < plan.hours.value / 4
    assert eight.hours.high / eight.hours.value >= plan.hours.high / plan.hours.value


def test_checkpointing_computes_forward_again(
    model: RunSpec, plan: TrainingPlan
) -> None:
    again = plan_training(model, "h100", 128e4, checkpointing=True)
    assert 0 < again.parts["recomputed"] < again.parts["forward_backward"]
    assert again.kwh.value * 1.2 > plan.kwh.value


def test_a_machine_without_times_has_energy_alone(model: RunSpec) -> None:
    found = plan_training(model, "pc1", 128e4)
    assert found.hours is None
    assert any("knows no times" in note for note in found.notes)
    with pytest.raises(UsageError, match="no GPU"):
        plan_training(model, "pc1", 128e4, 8)
    with pytest.raises(UsageError, match="price per GPU hour"):
        plan_training(model, "pc1", 128e4, price_per_gpu_hour=2)


def test_what_does_not_fit_is_sharded_or_said() -> None:
    run = RunSpec("llama-3.1-8b", batch_size=1, seq_len=2048)
    one, eight = (plan_training(run, "h100", 1e9, gpus) for gpus in (1, 8))
    assert one.notes[0].startswith("warning: 128 GB of weights, gradients and moments")
    assert "--gpus 2" in one.notes[0]
    assert eight.shards == 8
    assert "sharded over 8 GPUs" in eight.notes[0]
    assert eight.parts["optimiser"] == pytest.approx(one.parts["optimiser"] / 8)
    assert plan_training(run, "b200", 1e9, 8).shards == 1


def test_notes_of_a_step_are_kept_but_for_the_room_of_one_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def noted(run: RunSpec, machine: object) -> ModelTree:
        return predict_run(run, machine).with_notes("warning: a note of another kind")

    monkeypatch.setattr(training_plan, "predict_run", noted)
    run = RunSpec("llama-3.1-8b", batch_size=1, seq_len=2048)
    notes = plan_training(run, "h100", 1e9, 8).notes
    assert "warning: a note of another kind" in notes
    assert not any("smaller batches" in note for note in notes)


def test_a_step_is_no_faster_than_published_trainings() -> None:
    run = RunSpec("llama-3.1-8b", batch_size=1, seq_len=8192)
    plan = plan_training(run, "h100", 1e9, 8)
    assert plan.hours is not None
    gpu_s = plan.hours.value * 3600 * 8
    model_flops = 6 * plan.params * plan.tokens
    assert model_flops / gpu_s / 989e12 < 0.41
    assert plan.kwh.value * 3.6e6 / gpu_s == pytest.approx(0.91 * 700)
    assert plan.parts["beyond_kernels"] > 0
    (told,) = [note for note in plan.notes if "kernels alone" in note]
    assert "41% of the peak" in told
    assert "to 25% of the peak at the power limit" in told
    assert plan.kwh.low < plan.kwh.value < plan.kwh.high


def test_small_steps_are_told(model: RunSpec, plan: TrainingPlan) -> None:
    share = plan.parts["optimiser"] / sum(plan.parts.values())
    told = any("the optimiser takes" in note for note in plan.notes)
    assert told == (share > 0.1)
    assert plan.kwh.high / plan.kwh.value >= 1.2


@pytest.mark.parametrize(("row", "ratio"), [(2, 2.37), (7, 1.02), (8, 0.62)])
def test_what_is_said_of_published_trainings_holds(row: int, ratio: float) -> None:
    published = training.PUBLISHED[row]
    plan = training.planned(published)
    assert plan.hours is not None
    rate = plan.tokens / (3600 * plan.hours.value * plan.gpus)
    assert rate / published.tokens_per_s == pytest.approx(ratio, abs=0.005)
    assert f"{ratio:.2f}" in training_plan.BESIDE_PUBLISHED


def test_inputs_are_counted_where_no_tokens_are_read() -> None:
    run = RunSpec("vit-base-patch16-224", batch_size=4)
    plan = plan_training(run, "h100", 400)
    assert plan.steps == 100
    assert "inputs are counted" in plan.notes[0]
