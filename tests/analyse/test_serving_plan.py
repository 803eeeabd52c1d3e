"""The cheapest serving that is quick enough: chosen, told, and the same everywhere."""

from __future__ import annotations

import json

import pytest

import irene
from irene.analyse.serving_plan import ServingPlan
from irene.errors import UsageError
from irene.predict.api import predict
from irene.questions import AskServePlan
from irene.serve.client.documents import read_fields
from irene.tree.generation import generation_of

LENGTHS = {"prompt_len": 300, "output_len": 200}


@pytest.fixture(scope="module")
def plan() -> ServingPlan:
    return irene.serve_plan(
        "qwen3-8b", on="h100,b200", max_latency="15ms", batch_size=[1, 32, 256],
        tensor_parallel=[1, 2], **LENGTHS,
    )  # fmt: skip


def test_the_best_is_the_cheapest_that_is_quick_enough(plan: ServingPlan) -> None:
    quick = [each for each in plan.options if each.tbt_s <= 0.015]
    assert 0 < len(quick) < len(plan.options) == 12
    assert plan.best == min(quick, key=lambda each: each.j_per_output_token)
    assert [each.meets for each in plan.options] == [e in quick for e in plan.options]


def test_the_front_has_what_nothing_beats(plan: ServingPlan) -> None:
    for one in plan.options:
        is_beaten = any(
            other.j_per_output_token < one.j_per_output_token
            and other.tbt_s <= one.tbt_s
            for other in plan.options
        )
        assert one.on_front != is_beaten


def test_numbers_are_those_of_predict(plan: ServingPlan) -> None:
    best = plan.best
    assert best is not None
    tree = predict(
        "qwen3-8b", on=best.on, batch_size=best.batch_size,
        tensor_parallel=best.gpus, **LENGTHS,
    )  # fmt: skip
    found = generation_of(tree)
    assert found is not None
    assert best.j_per_output_token == found.j_per_output_token.value
    assert best.tbt_s == found.tbt_s.value


def test_what_does_not_fit_names_the_fewest_gpus() -> None:
    plan = irene.serve_plan(
        "llama-3.1-70b", on="h100", batch_size=[1], tensor_parallel=[1, 4], **LENGTHS
    )
    assert [each.gpus for each in plan.options] == [4]
    assert plan.left_out[0].model == "h100, tensor_parallel=1"
    assert "--tensor-parallel 2" in plan.left_out[0].problem
    with pytest.raises(UsageError, match="--tensor-parallel 2"):
        irene.serve_plan(
            "llama-3.1-70b", on="h100", batch_size=1, tensor_parallel=1, **LENGTHS
        )


def test_a_warning_of_predict_names_the_fewest_gpus_too() -> None:
    tree = predict("llama-3.1-70b", on="h100", batch_size=64, **LENGTHS)
    assert any("--tensor-parallel 4" in note for note in tree.notes)
    assert tree.root.features["memory_share"] > 2
    held = predict(
        "llama-3.1-70b", on="h100", batch_size=64, tensor_parallel=4, **LENGTHS
    )
    assert held.root.features["memory_share"] < 1


def test_a_question_travels_as_it_was_asked(plan: ServingPlan) -> None:
    asked = AskServePlan.asked(
        {"model": "qwen3-8b", "on": "h100", "max_latency": "50ms",
         "batch_size": "1,8:16:8", "quantization": "bf16,fp8", "prompt_len": 9}
    )  # fmt: skip
    assert asked.choices["batch_size"] == (1, 8, 16)
    assert AskServePlan.asked(asked.values()) == asked
    assert read_fields(ServingPlan, json.loads(json.dumps(plan.to_dict()))) == plan


@pytest.mark.parametrize("text", ["50", "fast", "-1ms", "0s", "1e400ms", "5 min"])
def test_a_time_has_a_unit(text: str) -> None:
    with pytest.raises(UsageError, match="max_latency is a time such as 50ms"):
        AskServePlan.asked({"model": "qwen3-8b", "max_latency": text})


def test_machines_that_serve_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="data-centre GPUs"):
        irene.serve_plan("qwen3-8b", on="pc1")
