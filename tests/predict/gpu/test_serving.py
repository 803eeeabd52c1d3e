"""Servings predicted on data-centre GPUs: what must hold whatever the numbers are."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.errors import SpecError, UsageError
from irene.predict.api import predict
from irene.predict.machines.finding import (
    find_gpu,
    find_trained,
    known_machines,
)
from irene.predict.machines.gpu.gpu_machine import GpuMachine
from irene.predict.machines.gpu.kernel_ops import (
    Collective,
    GatherScatter,
    Gemm,
    GenerationAttention,
    Memory,
    Moe,
)
from irene.predict.machines.gpu.node_ops import serving_ops
from irene.predict.machines.gpu.serving_calibration import Calibration, OpKinds
from irene.trace.serving import serving_tree
from irene.trace.tracer import trace
from irene.tree import ModelTree
from irene.tree.generation import Generation, generation_of

CHAT = {"batch_size": 32, "prompt_len": 700, "output_len": 400}


def generation(model: str, on: str = "h100", **run: object) -> Generation:
    found = generation_of(predict(model, on=on, **{**CHAT, **run}))
    assert found is not None
    return found


def per_token(model: str, on: str = "h100", **run: object) -> float:
    return generation(model, on, **run).j_per_output_token.value


def adds_up(tree: ModelTree) -> None:
    assert tree.energy is not None
    assert tree.own_j is not None
    whole = tree.energy.joules[0]
    assert whole > 0
    leaves = tree.columns.kind >= 2
    above = tree.own_j[~leaves]
    assert np.abs(above).max() <= 1e-9 * whole
    assert (tree.energy.low <= tree.energy.joules).all()
    assert (tree.energy.joules <= tree.energy.high).all()


@pytest.mark.parametrize("on", ["h100", "h200", "b200", "a100"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-12b-text", "qwen3-30b-a3b"])
def test_children_add_up_to_their_parents(model: str, on: str) -> None:
    for run in (CHAT, {"phase": "decode", "context_len": 900, "batch_size": 8}):
        adds_up(predict(model, on=on, **run))


def test_the_summary_says_what_the_tree_says() -> None:
    tree = predict("llama-3.1-8b", on="b200", **CHAT)
    told, energy = generation_of(tree), tree.energy_of(0)
    assert told is not None
    assert energy is not None
    assert told.j_per_request.value * 32 == pytest.approx(energy.joules)
    assert told.j_per_output_token.value * 32 * 400 == pytest.approx(energy.joules)
    parts = told.prefill_j_per_request + told.decode_j_per_request
    assert parts == pytest.approx(told.j_per_request.value)
    parts = told.op_j_per_request + told.static_j_per_request
    assert parts == pytest.approx(told.j_per_request.value)
    assert 0 < told.gap_j_per_request < told.static_j_per_request
    # W × s per token = J per token of all streams
    power = told.j_per_second.value
    assert power * told.tbt_s.value == pytest.approx(32 * told.j_per_output_token.value)
    assert told.output_tokens_per_s * told.tbt_s.value == pytest.approx(32)
    assert 243 < power < 1000
    assert told.ttft_s.value > told.tbt_s.value
    assert told.j_per_request.low < told.j_per_request.value < told.j_per_request.high


def test_the_summary_is_in_the_document_and_survives_it() -> None:
    tree = predict("gpt-oss-20b", on="h200", **CHAT)
    again = ModelTree.from_json(tree.to_json())
    assert generation_of(again) == generation_of(tree)
    document = tree.fold().to_dict()["generation"]
    told = generation_of(tree)
    assert told is not None
    assert document["j_per_output_token"] == told.j_per_output_token.value
    assert document["tbt_s_low"] < document["tbt_s"] < document["tbt_s_high"]
    assert "generation" not in predict("gpt2", on="h100", phase="decode").to_dict()


def test_ops_are_read_off_nodes_alone() -> None:
    tree = serving_tree(
        "qwen3-30b-a3b", phase="decode", batch_size=5, context_len=77,
        quantization="fp8", cache_dtype="fp8", tensor_parallel=2,
    )  # fmt: skip
    again = ModelTree.from_json(tree.unfold().to_json())
    found = set(serving_ops(again).ops)
    assert Gemm(5, 2560, 2048, "fp8") in found  # (32 + 2·4)·128 / 2 ranks
    assert GenerationAttention(5, 77.0, 16, 2, 128, 0, "fp8") in found
    (moe,) = (op for op in found if isinstance(op, Moe))
    assert (moe.tokens, moe.inter, moe.topk, moe.experts) == (5, 768, 8, 128)
    assert (moe.dtype, moe.tensor_parallel) == ("fp8", 2)
    assert Collective(2.0 * 5 * 2048, 2) in found
    assert Memory(2 * 2 * 5 * 2048, 2 * 2 * 5 * 2048, 4 * 5 * 2048) in found


def test_what_runs_beside_is_counted_once() -> None:
    tree = serving_tree("llama-3.1-8b", phase="generate", **CHAT)
    nodes = serving_ops(tree)
    row = tree.find("prefill.model.layers.0.mlp.down_proj").row
    at = nodes.rows.tolist().index(row)
    assert nodes.ops[nodes.place[at]] == Gemm(700 + 31, 4096, 14336)
    assert nodes.ops[nodes.base[at]] == Gemm(31, 4096, 14336)
    assert nodes.runs[at] == 32


def test_energy_follows_work() -> None:
    usual = per_token("llama-3.1-8b")
    assert per_token("llama-3.1-8b", batch_size=128) < usual
    assert per_token("llama-3.1-8b", prompt_len=1400) > usual
    assert per_token("llama-3.1-8b", context_len=4000) > usual
    assert per_token("llama-3.1-8b", quantization="fp8") < usual
    long = {"context_len": 20_000}
    cached = per_token("llama-3.1-8b", cache_dtype="fp8", **long)
    assert cached < per_token("llama-3.1-8b", **long)
    assert per_token("llama-3.1-70b", tensor_parallel=4) > 3 * usual
    # Experts that no token is sent to are not read.
    assert per_token("qwen3-30b-a3b", batch_size=1) < per_token(
        "qwen3-32b", batch_size=1
    )


def test_a_measured_step_time_adds_idle_power_for_the_rest() -> None:
    slow, slower = (
        predict("llama-3.1-8b", on="h100", step_ms=step_ms, **CHAT).total().energy_j
        for step_ms in (50, 60)
    )
    assert slow is not None
    assert slower is not None
    idle_w = find_gpu("h100").device.sheet.idle_w
    assert slower - slow == pytest.approx(400 * 0.010 * idle_w)
    told = generation("llama-3.1-8b", step_ms=50)
    assert told.tbt_s.value == pytest.approx(0.050)


def test_a_step_that_kernels_alone_would_fill_is_doubted() -> None:
    tree = predict("llama-3.1-8b", on="h100", step_ms=0.1, **CHAT)
    assert any(note.startswith("warning: kernels alone") for note in tree.notes)
    with pytest.raises(UsageError, match="a step time is for language models"):
        predict("bert-l2-h128", on="h100", step_ms=10)


SERVERS = ("h100", "h200", "b200", "b300", "gb200", "a100", "l40s", "rtx-pro-6000")
SIZES = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 4096),
        "prompt_len": st.integers(1, 16_000),
        "output_len": st.integers(1, 8000),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    run=SIZES,
    model=st.sampled_from(["llama-3.2-1b", "llama-3.1-70b", "qwen3-30b-a3b"]),
    on=st.sampled_from([*SERVERS, "rtx4090"]),
    gpus=st.sampled_from([1, 4, 5, 32]),
    stored=st.sampled_from([None, "fp8", "fp8_block", "fp4", "int4", "q4_K_M"]),
    limit=st.sampled_from([None, 0.4, 0.9]),
    engine=st.sampled_from(["vllm", "vllm-2024", "unknown"]),
)
def test_power_stays_between_idle_and_limit(
    run: dict[str, int],
    model: str,
    on: str,
    gpus: int,
    stored: Any,
    limit: float | None,
    engine: Any,
) -> None:
    """Of a whole serving of any size, and of every decode step."""
    sheet = find_gpu(on).device.sheet
    limit_w = limit and sheet.idle_w + limit * (sheet.tdp_w - sheet.idle_w)
    options: dict[str, Any] = {
        "tensor_parallel": gpus, "quantization": stored, "power_limit_w": limit_w,
        "engine": engine, "at": "board",
    }  # fmt: skip
    tree = predict(model, on=on, **options, **run)
    for path in ("", "decode"):
        if path and run["output_len"] == 1:
            continue
        node = tree.find(path)
        assert node.energy is not None
        watts = node.energy.joules / node.features["time_s"] / gpus
        most_w = sheet.tdp_w if path else limit_w or sheet.tdp_w
        assert sheet.idle_w * 0.999 <= watts <= most_w * 1.001


DECODERS = (
    "llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "gemma-3-12b-text", "olmo-2-13b",
    "phi-4", "mistral-nemo-12b", "qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-20b",
    "deepseek-v2-lite", "qwen2-57b-a14b",
)  # fmt: skip
MEASURED = 0.06
"""By how much kernels of more rows are quicker in tables, over whole steps."""


@settings(max_examples=25, deadline=None)
@given(
    run=st.fixed_dictionaries(
        {
            "batch_size": st.sampled_from([1, 2, 4, 8, 16, 32]),
            "prompt_len": st.integers(50, 4000),
            "output_len": st.integers(50, 2000),
        }
    ),
    model=st.sampled_from(DECODERS),
    on=st.sampled_from(SERVERS),
    gpus=st.sampled_from([1, 2, 4]),
    stored=st.sampled_from([None, "fp8", "fp8_block", "fp4"]),
    more=st.sampled_from(["batch_size", "prompt_len", "output_len"]),
)
def test_more_work_takes_more_time_and_more_streams_no_more_energy_each(
    run: dict[str, int], model: str, on: str, gpus: int, stored: Any, more: str
) -> None:
    """Up to 64 streams, where weights are read for all of them at once."""
    asked = {"tensor_parallel": gpus, "quantization": stored, **run}
    trees = [predict(model, on=on, **{**asked, more: run[more] * k}) for k in (1, 2)]
    one, two = (generation_of(tree) for tree in trees)
    assert one is not None
    assert two is not None
    times = [tree.root.features["time_s"] for tree in trees]
    assert times[1] > times[0] * (1 - MEASURED)
    assert two.j_per_request.value > one.j_per_request.value * 0.48
    if more == "batch_size":
        assert two.j_per_output_token.value < one.j_per_output_token.value
    else:
        assert two.j_per_request.value > one.j_per_request.value


def test_one_stream_takes_no_longer_than_two() -> None:
    """One row takes 2.5 times two in the table of B300: padded, and it is said."""
    told = "one row takes longer than two"
    for stored in ("fp8_block", "fp8"):
        run = {"prompt_len": 500, "output_len": 300, "quantization": stored}
        one, two = (
            predict("llama-3.1-70b", on="b300", batch_size=b, **run) for b in (1, 2)
        )
        assert one.root.features["time_s"] < two.root.features["time_s"]
    assert any(told in note for note in one.notes)
    assert not any(told in note for note in two.notes)


def test_what_is_computed_takes_energy() -> None:
    """Also where a product of some more tokens is not slower by its table."""
    for batch in (8, 64, 256):
        tree = predict("llama-3.2-1b", on="h100", **{**CHAT, "batch_size": batch})
        for node in tree.nodes("ml"):
            assert node.energy is not None
            assert node.energy.joules > 0 or not node.flops, node.path


def test_one_stream_reads_its_prompt_before_it_answers() -> None:
    run = {"batch_size": 1, "prompt_len": 20_000, "output_len": 10}
    alone = generation("llama-3.1-8b", **run)
    short = generation("llama-3.1-8b", **{**run, "prompt_len": 100})
    assert alone.ttft_s.value > 20 * short.ttft_s.value
    assert alone.tbt_s.value < 2 * short.tbt_s.value


def test_what_does_not_fit_into_memory_is_said() -> None:
    tree = predict("llama-3.1-70b", on="h100", **CHAT)
    assert any("141 GB of weights" in note for note in tree.notes)
    shared = predict("llama-3.1-70b", on="h100", tensor_parallel=4, **CHAT)
    assert not any("do not fit" in note for note in shared.notes)


def test_ranks_talk_as_measured() -> None:
    tree = predict("llama-3.1-70b", on="h200", tensor_parallel=8, **CHAT)
    reduced = [node for node in tree.nodes("ml") if node.op == "all_reduce"]
    assert len(reduced) == 2 * (2 * 80 + 1)  # attention, mlp; embedding; two phases
    assert all(node.energy and node.energy.joules > 0 for node in reduced)
    assert not any("link" in note for note in tree.notes)


def test_whole_experts_on_gpus_take_kernels_that_nobody_tuned() -> None:
    shared = generation("qwen3-30b-a3b", tensor_parallel=4)
    spread = generation("qwen3-30b-a3b", expert_parallel=4)
    assert shared.tbt_s.value != spread.tbt_s.value
    sheet, told = find_gpu("h100").device.sheet, find_gpu("h100").calibration
    few = Moe(32, 2048, 768, 8, 128, expert_parallel=4)
    many = replace(few, tokens=33)  # more than the experts of a GPU
    ops = (few, many, replace(many, expert_parallel=1), replace(many, dtype="mxfp4"))
    factors = told.factors(OpKinds.of(ops, sheet))
    assert factors.tolist() == [1.0, told.untuned_time, 1.0, 1.0]
    assert told.untuned_time > 1.2
    tree = serving_tree("qwen3-30b-a3b", expert_parallel=4, phase="decode")
    (moe,) = {op for op in serving_ops(tree).ops if isinstance(op, Moe)}
    assert (moe.experts, moe.inter) == (128, 768)
    assert (moe.expert_parallel, moe.tensor_parallel) == (4, 1)
    for model, spread_over in (("llama-3.1-8b", 2), ("qwen3-30b-a3b", 256)):
        with pytest.raises(SpecError, match="expert_parallel"):
            serving_tree(model, expert_parallel=spread_over, phase="decode")


def test_what_servings_contradict_each_other_about_is_doubted() -> None:
    run = {**CHAT, "expert_parallel": 2, "quantization": "fp8_block"}
    apart, alike = (predict("qwen3-30b-a3b", on=on, **run) for on in ("b200", "h100"))
    told = [any("twice that in another" in n for n in t.notes) for t in (apart, alike)]
    assert told == [True, False]
    assert spread(apart) > spread(alike) + 0.1


def test_a_serving_of_an_older_version_says_so() -> None:
    tree = serving_tree("gpt2", batch_size=4, phase="decode", context_len=64)
    gap = tree.columns.signature[tree.find("gap").row]
    old = list(tree.signatures)
    old[gap] = old[gap]._replace(inputs=old[gap].inputs[:1])
    tree.signatures = tuple(old)
    with pytest.raises(UsageError, match="by an older version, without its vocabulary"):
        predict(tree, on="h100")


def test_groups_of_gpus_have_streams_of_their_own() -> None:
    """Of a dense model they are as many servings; experts are shared by all."""
    one = predict("llama-3.1-8b", on="h100", **{**CHAT, "batch_size": 8})
    four = predict("llama-3.1-8b", on="h100", data_parallel=4, **CHAT)
    whole, part = four.total(), one.total()
    assert whole.energy_j == pytest.approx(4 * (part.energy_j or 0))
    assert whole.flops == pytest.approx(4 * part.flops)
    assert four.root.features["time_s"] == one.root.features["time_s"]
    assert spread(four) == pytest.approx(spread(one))
    with pytest.raises(SpecError, match="divisor of both"):
        predict("llama-3.1-8b", on="h100", data_parallel=5, **CHAT)


def test_groups_that_share_experts_exchange_tokens_and_are_doubted() -> None:
    run = {"expert_parallel": 8, **CHAT}
    shared = predict("qwen3-30b-a3b", on="h100", **run)
    apart = predict("qwen3-30b-a3b", on="h100", data_parallel=8, **run)
    ops = serving_ops(serving_tree("qwen3-30b-a3b", phase="decode", batch_size=32,
                                   data_parallel=8, expert_parallel=8)).ops  # fmt: skip
    (moe,) = {op for op in ops if isinstance(op, Moe)}
    assert (moe.tokens, moe.expert_parallel) == (32, 8)
    assert {op.ranks for op in ops if isinstance(op, GatherScatter)} == {8}
    assert {op.batch for op in ops if isinstance(op, GenerationAttention)} == {4}
    assert not any(type(op) is Collective for op in ops)
    # Every group keeps the weights of all layers but experts.
    share = apart.root.features["memory_share"] / shared.root.features["memory_share"]
    assert share > 1.05
    assert any("as in no serving" in note for note in apart.notes)
    assert spread(apart) > spread(shared) + 0.3


def test_a_gpu_nobody_measured_has_wider_intervals() -> None:
    known, unknown = (generation("llama-3.1-8b", on) for on in ("h100", "a100"))
    ratio = unknown.j_per_request.high / unknown.j_per_request.value
    assert ratio > known.j_per_request.high / known.j_per_request.value


def test_encoders_are_traced_and_add_up() -> None:
    tree = predict("bert-l2-h128", on="h200", batch_size=4, seq_len=64)
    adds_up(tree)
    assert tree.spec is not None
    assert (tree.spec.dtype, tree.spec.attention) == ("bf16", "sdpa")
    eager = trace("bert-l2-h128", batch_size=4, seq_len=64, dtype="bf16")
    adds_up(predict(eager, on="h200"))


def test_a_decoder_that_cannot_be_read_is_traced_and_says_so() -> None:
    tree = predict("t5-small", on="h100", phase="decode", context_len=16)
    adds_up(tree)
    assert any("not as an engine would serve it" in note for note in tree.notes)
    with pytest.raises(UsageError, match="an engine can serve"):
        predict("t5-small", on="h100", **CHAT)


def test_fp32_takes_more_and_says_so() -> None:
    run = {"phase": "decode", "context_len": 64}
    half, full = (
        predict("gpt2", on="h100", dtype=dtype, **run) for dtype in ("bf16", "fp32")
    )
    assert (full.total().energy_j or 0) > 1.15 * (half.total().energy_j or 0)
    assert any("as with TF32" in note for note in full.notes)
    assert spread(full) > 1.2 * spread(half)


def test_other_machines_refuse_servings() -> None:
    with pytest.raises(UsageError, match="data-centre GPUs"):
        predict("gpt2", on="pc1", phase="generate")
    with pytest.raises(UsageError, match="quantization is for the serving"):
        predict("gpt2", on="pc1", quantization="fp8")


def test_machines_of_both_kinds_are_known_by_name() -> None:
    assert {"pc1", "h100", "h200", "b200", "a100"} <= set(known_machines())
    with pytest.raises(UsageError, match="kernel by kernel"):
        find_trained("h100")
    one = find_gpu("h200")
    assert one.to_dict()["digest"] == one.digest
    other = GpuMachine(one.device, Calibration(gap_s=1.0))
    assert other.hardware.predictor != one.hardware.predictor


def test_a_serving_needs_no_torch() -> None:
    code = (
        "import sys; from irene.predict.api import predict; "
        "predict('llama-3.1-70b', on='h200', prompt_len=9, output_len=9); "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


GOLDEN = {
    ("llama-3.1-8b", "b200"): {
        "": (972.1062544175214, 869.9876761305494, 1086.2114439145903),
        "prefill": (145.32522067318408, 128.60192478096872, 164.22320116654296),
        "decode": (826.7810337443374, 741.2572257738535, 922.1722959202574),
    },
    ("llama-3.1-8b", "h100"): {
        "": (975.8609452800551, 873.3547732274089, 1090.3983280514074),
        "prefill": (140.32885367144314, 124.42774159569335, 158.26203160327134),
        "decode": (835.532091608612, 748.7987461139255, 932.3117589751516),
    },
}
"""Energy of whole servings and both ends of its interval, J, by node."""


@pytest.mark.parametrize(("model", "on"), GOLDEN)
def test_whole_servings_take_what_they_took(model: str, on: str) -> None:
    run = {"batch_size": 16, "prompt_len": 1000, "output_len": 200}
    tree = predict(model, on=on, **run)
    for path, (joules, low, high) in GOLDEN[model, on].items():
        energy = tree.find(path).energy
        assert energy is not None
        assert energy.joules == pytest.approx(joules, rel=1e-9)
        assert energy.low == pytest.approx(low, rel=1e-9)
        assert energy.high == pytest.approx(high, rel=1e-9)
    told = generation_of(tree)
    assert told is not None
    whole_j = GOLDEN[model, on][""][0]
    assert told.j_per_output_token.value == pytest.approx(whole_j / 3200, rel=1e-9)


def test_what_runs_beside_decode_costs_less_than_by_itself() -> None:
    """A prompt's tokens share kernels with those that are decoded."""
    machine = find_gpu("h100")
    tree = serving_tree("llama-3.1-8b", phase="generate", **CHAT)
    nodes = serving_ops(tree)
    beside = nodes.base >= 0
    assert beside.any()
    costs = machine.device.costs(nodes.ops)
    shared = machine._own(tree, nodes, costs)
    alone = machine._own(tree, replace(nodes, base=np.full_like(nodes.base, -1)), costs)
    rows = np.unique(nodes.rows[beside])
    assert (shared.joules[rows] <= alone.joules[rows]).all()
    assert shared.joules[rows].sum() < 0.9 * alone.joules[rows].sum()


def spread(tree: ModelTree) -> float:
    energy = tree.root.energy
    assert energy is not None
    return math.log(energy.high / energy.joules)


def test_errors_of_equal_layers_are_one_error() -> None:
    """A parent of equal layers is as uncertain as each, folded or not."""
    machine = find_gpu("h100")
    for tree in (made := serving_tree("llama-3.1-8b", phase="decode", batch_size=8),
                 made.unfold()):  # fmt: skip
        told = machine.predict(tree)
        layers, layer = told.find("model").energy, told.find("model.layers.0").energy
        assert math.log(layers.high / layers.low) == pytest.approx(
            math.log(layer.high / layer.low), rel=1e-9
        )


def test_what_no_table_has_is_wide_by_its_share() -> None:
    run = {"batch_size": 32, "prompt_len": 500, "output_len": 200, "on": "h100"}
    plain = predict("llama-3.1-8b", **run)
    four = predict("llama-3.1-8b", quantization="fp4", **run)
    long = predict("llama-3.1-8b", **(run | {"prompt_len": 50_000}))
    assert spread(four) > 2 * spread(plain)  # Hopper has no units for fp4
    assert any("no table of gemm in fp4" in note for note in four.notes)
    assert spread(long) > 1.5 * spread(plain)
    assert any("prompts of 50,000 tokens" in note for note in long.notes)
    assert not any(note.startswith("extrapolation") for note in plain.notes)


def test_a_longer_prompt_takes_more_and_later_wherever_steps_end() -> None:
    found = [
        generation("llama-3.1-8b", batch_size=8, prompt_len=length)
        for length in (8192, 8193, 16384, 16385)
    ]
    joules = [each.j_per_output_token.value for each in found]
    first_s = [each.ttft_s.value for each in found]
    assert (joules, first_s) == (sorted(joules), sorted(first_s))
    assert first_s[1] < 1.01 * first_s[0]
