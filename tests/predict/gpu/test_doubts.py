"""Doubts about servings: what none of them had, and what two of them share."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.made_up import tree_of_own

from irene.energy import Energy, difference
from irene.predict.intervals import Beyond, with_beyond
from irene.predict.machines.finding import find_gpu
from irene.predict.machines.gpu.doubts import (
    CONTRADICTED,
    EXCHANGED,
    FP32,
    GGUF,
    SERVED,
    SERVED_OCTAVE,
    SINGLE,
    WAITED,
    WAITING,
    OpDoubts,
    beyond_servings,
    doubted,
)
from irene.predict.machines.gpu.engines import TODAY
from irene.predict.machines.gpu.gpu_device import OpCosts
from irene.predict.machines.gpu.kernel_models import ROUGH
from irene.predict.machines.gpu.kernel_ops import Collective, Gemm, Moe
from irene.predict.machines.gpu.node_ops import NodeOps
from irene.predict.machines.gpu.passes import OwnCosts
from irene.predict.machines.gpu.run_likeness import APART, APART_AT, shared_errors
from irene.predict.machines.gpu.serving_calibration import Calibration
from irene.trace.serving.tree import serving_tree
from irene.trace.tracer import trace
from irene.tree import ModelTree

RUN = {"batch_size": 64, "prompt_len": 500, "output_len": 500}


SERVED_HERE = Calibration()


def serving(model: str = "llama-3.2-1b", **changes: object) -> ModelTree:
    run = {**RUN, **changes}
    return serving_tree(model, phase="generate", **run)  # type: ignore[arg-type]


def widths(**changes: object) -> dict[str, float]:
    """Half the interval of the whole by cause, were every row as large as others."""
    tree = serving(**changes)
    found = beyond_servings(tree, np.ones(len(tree)), "h100", SERVED_HERE)
    return {each.cause: each.width for each in found}


def test_nothing_is_beyond_where_servings_were_measured() -> None:
    assert widths() == {}


@pytest.mark.parametrize(
    ("name", "value", "octaves", "side"),
    [
        ("batch_size", 1, 3, "below"),
        ("batch_size", 2048, 2, "above"),
        ("output_len", 19_000, 1, "above"),
    ],
)
def test_sizes_count_by_their_octaves(name, value, octaves, side) -> None:
    found = widths(**{name: value})
    assert found == {f"{name} {side}": pytest.approx(octaves * SERVED_OCTAVE)}


def test_long_prompts_count_by_the_share_of_prefill() -> None:
    tree = serving(prompt_len=8000)
    (found,) = beyond_servings(tree, np.ones(len(tree)), "h100", SERVED_HERE)
    times = tree.multiplicity
    is_prefill = np.array([path.startswith("prefill") for path in tree.paths])
    share = (times * is_prefill).sum() / times.sum()
    assert found.width == pytest.approx(2 * SERVED_OCTAVE * share)
    assert "prompts of 8,000 tokens, measured 250 to 2,000" in found.words


def test_fp32_is_named_and_wide() -> None:
    assert widths(dtype="fp32") == {"fp32": pytest.approx(FP32)}


@given(st.sampled_from(("batch_size", "output_len")), st.integers(1, 10**5))
def test_farther_is_wider(name: str, value: int) -> None:
    low, high = SERVED["vllm"][name]
    here = sum(widths(**{name: value}).values())
    away = max(1, value // 2) if value < low else value * 2
    assert sum(widths(**{name: away}).values()) >= here - 1e-12
    assert (here > 0) == (not low <= value <= high)


def told(tree: ModelTree, gpu: str = "h100") -> Energy:
    ends = math.exp(-0.2), math.exp(0.2)
    return Energy(1.0, *ends, "predicted", "", tuple(shared_errors(tree, gpu, 0.2, ())))


def half(one: Energy, other: Energy) -> float:
    found = difference(one, other)
    assert found.ratio is not None
    assert found.ratio_high is not None
    return math.log(found.ratio_high / found.ratio)


def test_servings_share_errors_by_how_alike_they_are() -> None:
    base = told(serving())
    assert half(base, told(serving())) == 0.0
    twice = half(base, told(serving(batch_size=128)))
    alike = math.exp(-APART["batch"] / (2 * 0.2**2))
    assert twice == pytest.approx(0.2 * math.sqrt(2 * (1 - alike)))
    assert twice == pytest.approx(0.0969, abs=1e-4)
    four_times = half(base, told(serving(batch_size=256)))
    other_gpu = half(base, told(serving(), "b200"))
    independent = 0.2 * math.sqrt(2)
    assert 0 < twice < four_times < other_gpu <= independent


def test_one_model_in_another_setup_shares_more_than_another_model() -> None:
    base, other = told(serving()), told(serving("qwen3-8b"))
    changes = {"quantization": "fp8"}, {"tensor_parallel": 2}, {"cache_dtype": "fp8"}
    setups = [half(base, told(serving(**each))) for each in changes]  # type: ignore[arg-type]
    alike = math.exp(-APART["setup"] / (2 * 0.2**2))
    expected = 0.2 * math.sqrt(2 * (1 - alike))
    assert setups == [pytest.approx(expected)] * 3
    # However many things differ, it is one other setup.
    assert half(base, told(serving(tensor_parallel=2), "b200")) == pytest.approx(
        expected
    )
    assert expected < half(base, other) < 0.2 * math.sqrt(2)


def test_what_is_usual_anyway_is_no_other_setup() -> None:
    base = told(serving())
    for usual in ({"engine": "vllm"}, {"cache_dtype": "bf16"}):
        assert half(base, replace(told(serving(**usual)), joules=1.1)) == 0.0  # type: ignore[arg-type]


def test_a_model_is_one_whatever_it_is_called() -> None:
    names = "Qwen3-30B-A3B-Thinking-2507", "Qwen3-Coder-30B-A3B-Instruct"
    one, other = (told(serving(f"Qwen/{name}")) for name in names)
    assert half(one, replace(other, joules=1.1)) == 0.0


@pytest.mark.parametrize("name", ["batch_size", "prompt_len", "output_len"])
def test_errors_are_the_farther_apart_the_farther_sizes_are(name: str) -> None:
    base = told(serving())
    apart = [half(base, told(serving(**{name: RUN[name] * n}))) for n in (2, 4, 8)]
    assert 0 < apart[0] < apart[1] < apart[2] < 0.2 * math.sqrt(2)


CHANGES = {
    "quantization": "fp8", "tensor_parallel": 2, "batch_size": 256, "prompt_len": 900,
    "output_len": 1000, "model": "qwen3-8b",
}  # fmt: skip


@given(st.sets(st.sampled_from(sorted(CHANGES))), st.sampled_from(sorted(CHANGES)))
def test_what_differs_in_more_never_shares_more(some: set[str], more: str) -> None:
    few, many = (
        told(serving(**{name: CHANGES[name] for name in names}))
        for names in (some, some | {more})
    )
    base = told(serving())
    assert half(base, many) >= half(base, few) - 1e-12


def test_too_few_streams_tell_nothing_of_too_many() -> None:
    def beyond(batch_size: int) -> Energy:
        tree = serving(batch_size=batch_size)
        causes = beyond_servings(tree, np.ones(len(tree)), "h100", SERVED_HERE)
        errors = tuple(shared_errors(tree, "h100", 0.2, causes))
        width = math.hypot(*(each.width for each in errors))
        ends = math.exp(-width), math.exp(width)
        return Energy(1.0, *ends, "predicted", "", errors)

    one, two, many = map(beyond, (1, 2, 2048))
    apart, octave = 0.2 * math.sqrt(2), SERVED_OCTAVE
    assert half(one, two) < math.hypot(apart, octave)
    alike = math.exp(-11 * APART["batch"] / (2 * 0.2**2))
    servings = 0.2 * math.sqrt(2 * (1 - alike))
    expected = math.hypot(servings, 3 * octave, 2 * octave)
    assert half(one, many) == pytest.approx(expected)


def test_what_servings_contradict_is_shared_by_one_model_alone() -> None:
    def with_doubt(tree: ModelTree) -> Energy:
        doubt = Beyond("contradicted", "", np.full(len(tree), 0.6), 0.5)
        errors = shared_errors(tree, "b200", 0.2, [doubt])
        ends = math.exp(-math.hypot(0.2, 0.6)), math.exp(math.hypot(0.2, 0.6))
        return Energy(1.0, *ends, "predicted", "", tuple(errors))

    base = serving("qwen3-30b-a3b")
    twice = serving("qwen3-30b-a3b", batch_size=128)
    other = serving("qwen3-235b-a22b")
    assert half(told(base), told(twice)) < half(with_doubt(base), with_doubt(twice))
    assert half(with_doubt(base), with_doubt(twice)) < 0.4
    assert half(with_doubt(base), with_doubt(other)) > 0.9 * math.hypot(0.6, 0.6)


def test_what_is_no_serving_shares_as_much_of_a_wider_interval() -> None:
    tree = tree_of_own()

    def on(gpu: str) -> Energy:
        ends = math.exp(-0.5), math.exp(0.5)
        errors = tuple(shared_errors(tree, gpu, 0.5, ()))
        return Energy(1.0, *ends, "predicted", "", errors)

    alike = math.exp(-APART["setup"] / (2 * APART_AT**2))
    expected = 0.5 * math.sqrt(2 * (1 - alike))
    assert half(on("h100"), on("b200")) == pytest.approx(expected)


def test_models_share_errors_by_the_weights_that_they_have_in_common() -> None:
    import torch

    def of(*widths: int) -> Energy:
        layers = [torch.nn.Linear(64, width, bias=False) for width in widths]
        parts = torch.nn.ModuleList(layers)
        parts.forward = lambda x: [part(x) for part in layers]  # type: ignore[method-assign]
        tree = trace(parts, torch.zeros(8, 64))
        return told(tree)

    base = of(256, 256, 256, 256)
    assert half(base, of(256, 256, 256, 256)) == 0.0
    with_head, other = half(base, of(256, 256, 256, 256, 4)), half(base, of(512, 512))
    assert half(base, of(256, 256)) == 0.0  # more of the same
    apart = APART["model"] / (2 * APART_AT**2)
    alike = [math.exp(-apart * part) for part in (1 / 257, 1)]
    expected = [0.2 * math.sqrt(2 * (1 - each)) for each in alike]
    assert [with_head, other] == pytest.approx(expected)


def test_exchanges_and_contradicted_experts_are_doubted() -> None:
    ops = [Gemm(8, 64, 64), Moe(8, 64, 64, 2, 8, "fp8_block"), Collective(1024.0, 2)]
    hopper, blackwell = (find_gpu(gpu).device.sheet for gpu in ("h100", "b200"))
    assert doubted(ops, hopper, TODAY) == {2: ("exchanged", EXCHANGED)}
    assert doubted(ops, blackwell, TODAY)[1] == ("contradicted", CONTRADICTED)
    assert doubted(ops[:1], blackwell, TODAY) == {}


def test_experts_of_4_bit_are_doubted_where_one_family_shows_them() -> None:
    experts = [Moe(8, 64, 64, 2, 8, dtype) for dtype in ("mxfp4", "bf16")]
    hopper, blackwell = (find_gpu(gpu).device.sheet for gpu in ("h100", "b200"))
    assert doubted(experts, blackwell, TODAY) == {0: ("single", SINGLE)}
    assert doubted(experts, hopper, TODAY) == {}


def test_weights_that_no_serving_had_are_doubted_where_its_engine_had_none() -> None:
    ops = [Gemm(8, 64, 64, dtype) for dtype in ("bf16", "fp8", "fp4", "q4_K_M")]
    sheet = find_gpu("b200").device.sheet
    assert doubted(ops, sheet, TODAY) == {2: ("packed", SINGLE), 3: ("gguf", GGUF)}
    assert doubted(ops, sheet, "llama.cpp") == {}


def kernels(*table: float) -> tuple[ModelTree, NodeOps, OpDoubts, OwnCosts]:
    """A product of 3 J in both layers and experts of 1.9 J, of 10 J in all."""
    tree, rows = tree_of_own(), np.array([2, 4, 6])
    ops = (Gemm(8, 64, 64), Moe(8, 64, 64, 2, 8))
    places, ones = np.array([0, 0, 1]), np.ones(3)
    nodes = NodeOps(rows, places, np.full(3, -1), ones, ones, ops, {})
    kinds = np.array([0.0, 1.0])
    doubts = OpDoubts(kinds, np.array(table), ("", ""), np.zeros(2))
    assert tree.energy is not None
    own_j = tree.columns.own(tree.energy.joules)
    own = OwnCosts(own_j, np.array([3.0, 3.0, 1.9]), ones, own_j, own_j)
    return tree, nodes, doubts, own


def whole_width(width: float, *table: float) -> tuple[float, list[Beyond]]:
    tree, nodes, doubts, own = kernels(*table)
    widths, causes = doubts.widths(tree, nodes, own, width)
    assert widths[0] == pytest.approx(width)
    return float(with_beyond(widths, causes)[0]), causes


TABLES = math.hypot(0.2 * 6, 0.4 * 1.9) / 10
"""Equal layers run one kernel from one table; two tables err each for itself."""


def test_servings_hold_the_errors_of_tables_and_worse_tables_are_a_cause() -> None:
    assert whole_width(0.2, 0.2, 0.4) == (pytest.approx(0.2), [])
    tree, nodes, doubts, own = kernels(0.2, 0.4)
    widths, _ = doubts.widths(tree, nodes, own, 0.2)
    # A part has its own table, and what servings show beside tables.
    assert widths[6] == pytest.approx(math.hypot(0.4, math.sqrt(0.2**2 - TABLES**2)))
    whole, (cause,) = whole_width(0.1, 0.2, 0.4)
    assert cause.cause == "tables"
    assert cause.share == pytest.approx(0.79)
    assert cause.width == pytest.approx(math.sqrt(TABLES**2 - 0.1**2))
    assert whole == pytest.approx(TABLES)


@given(st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_worse_tables_never_make_a_serving_surer(width, one, other, more) -> None:
    least, _ = whole_width(width, one, other)
    assert least >= width - 1e-9
    assert whole_width(width, one + more, other)[0] >= least - 1e-9
    assert whole_width(width, one, other + more)[0] >= least - 1e-9


def test_the_larger_of_two_doubts_of_an_op_counts() -> None:
    _, nodes, _, _ = kernels(0.0, 0.0)
    ones = np.ones(2)
    rough = OpCosts(ones, ones, ones, ones, ones, np.array([0.5, 0.1]), ("far", "far"))
    doubted_too = replace(nodes, reasons={0: ("single", 0.3), 1: ("single", 0.3)})
    found = OpDoubts.of(doubted_too, rough)
    assert found.doubt.tolist() == [0.5, 0.3]
    assert found.reasons == ("far", "single")


def test_groups_that_share_experts_are_as_unsure_as_what_was_never_measured() -> None:
    experts = serving("qwen3-30b-a3b", data_parallel=2, expert_parallel=2)
    found = beyond_servings(experts, np.ones(len(experts)), "h100", SERVED_HERE)
    (shared,) = [each for each in found if each.cause == "data parallel"]
    assert shared.width == pytest.approx(ROUGH[1])
    assert shared.is_assumed


def waits(told: Calibration, **changes: object) -> dict[str, float]:
    tree = serving(output_len=4000, **changes)
    found = beyond_servings(tree, np.ones(len(tree)), "somewhere", told)
    return {each.cause: each.width for each in found if each.cause.startswith("wait")}


def test_long_answers_on_one_gpu_may_wait_for_their_host() -> None:
    assert waits(Calibration()) == {}
    assert 0 < waits(Calibration(long_gap_s=0.02))["waited"] < WAITED
    unknown = Calibration(unserved=0.2)
    assert waits(unknown) == {"waiting": pytest.approx(WAITING)}
    assert waits(unknown, tensor_parallel=2) == {}
