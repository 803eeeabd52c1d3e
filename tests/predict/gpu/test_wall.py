"""Energy at the wall, boards held to a limit, cached prompts and workloads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.errors import SpecError, UsageError
from irene.predict.api import predict
from irene.predict.machines.finding import find_machine
from irene.predict.machines.gpu.wall import walls
from irene.spec import RunSpec
from irene.trace.serving.tree import serving_tree
from irene.tree import ModelTree
from irene.tree.generation import Generation, generation_of

RUN = {"batch_size": 64, "prompt_len": 600, "output_len": 200}


def served(**options: object) -> tuple[ModelTree, Generation]:
    tree = predict("qwen3-8b", **{"on": "h100", **RUN, **options})
    found = generation_of(tree)
    assert found is not None
    return tree, found


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_wall_takes_what_the_host_takes_too(gpus: int) -> None:
    board, here = served(tensor_parallel=gpus)
    tree, there = served(tensor_parallel=gpus, at="wall")
    server = walls()["server"]
    expected = server.fixed_w * gpus + server.factor * here.j_per_second.value
    assert there.j_per_second.value == pytest.approx(expected)
    assert there.tbt_s == here.tbt_s
    assert there.j_per_second.high / there.j_per_second.value > (
        here.j_per_second.high / here.j_per_second.value
    )
    assert tree.hardware is not None
    assert board.hardware is not None
    assert (board.hardware.covers, tree.hardware.covers) == ("gpu-board", "wall")
    assert any(note.startswith("at the wall: 94 W for each GPU") for note in tree.notes)
    parts = sum(node.energy.joules for node in tree.root.children if node.energy)
    energy = tree.energy_of(0)
    assert energy is not None
    assert energy.joules == pytest.approx(parts)


@settings(max_examples=25, deadline=None)
@given(
    limit_w=st.floats(150, 700),
    batch_size=st.integers(1, 1024),
    on=st.sampled_from(["h100", "h200"]),
)
def test_a_limit_is_kept_and_costs_time(
    limit_w: float, batch_size: int, on: str
) -> None:
    run = {"on": on, "batch_size": batch_size}
    _, free = served(**run)
    _, held = served(**run, power_limit_w=limit_w)
    assert held.j_per_second.high <= limit_w * (1 + 1e-9)
    assert free.j_per_second.high <= 700 * (1 + 1e-9)
    assert held.tbt_s.value >= free.tbt_s.value * (1 - 1e-9)
    assert held.j_per_request.value <= free.j_per_request.value * (1 + 1e-9)


@pytest.mark.parametrize("limit_w", [100, 701])
def test_a_limit_that_no_board_has_is_refused(limit_w: float) -> None:
    with pytest.raises(UsageError, match=r"more than its 129 W .* at most 700 W"):
        served(power_limit_w=limit_w)


def test_a_machine_that_is_no_gpu_has_its_own_place() -> None:
    pc1 = find_machine("pc1")
    with pytest.raises(UsageError, match="pc1 was measured at its wall"):
        RunSpec("gpt2", at="board").resolved(pc1)
    with pytest.raises(UsageError, match="power_limit_w is for GPUs"):
        RunSpec("gpt2", power_limit_w=100).resolved(pc1)
    assert RunSpec("gpt2", at="wall").resolved(pc1).at == "wall"


def test_what_a_prefix_cache_answers_is_not_read_again() -> None:
    all_j, half_j, few_j = (
        served(cached_prompt=share)[1].prefill_j_per_request for share in (0, 0.5, 0.9)
    )
    assert 0.4 < half_j / all_j < 0.6
    assert few_j < 0.25 * all_j
    decode = {
        served(cached_prompt=share)[1].decode_j_per_request for share in (None, 0.5)
    }
    # Both share one power limit: with less to read, decoding is held back less.
    assert max(decode) == pytest.approx(min(decode), rel=0.03)
    for share in (1.0, 1.5, -0.1):
        with pytest.raises(SpecError, match="cached_prompt"):
            served(cached_prompt=share)


def test_workloads_differ_in_what_is_in_the_cache() -> None:
    def kept(**options: object) -> int:
        tree = serving_tree("qwen3-8b", **RUN, **options)
        node = next(n for n in tree.nodes("ml") if n.op == "generation_attention")
        return node.inputs[1][1]

    found = [kept(workload=w) for w in ("reasoning", None, "chat", "completion")]
    assert found == [600 + round(s * 200) for s in (0.73, 0.95, 0.97, 1.64)]
    assert kept(workload="chat", context_len=700) == 700
    with pytest.raises(SpecError, match="workload is for phase 'generate'"):
        serving_tree("qwen3-8b", phase="decode", workload="chat")


def test_tokens_of_both_are_those_of_prompts_and_answers() -> None:
    _, found = served()
    each = found.j_per_request.value / 800
    assert found.j_per_total_token.value == pytest.approx(each)


def test_a_desktop_is_known_at_the_wall() -> None:
    run = {"on": "rtx4090", "batch_size": 1, "quantization": "q4_K_M"}
    tree, found = served(**run)
    _, board = served(**run, at="board")
    desktop = walls()["desktop"]
    expected = desktop.fixed_w + desktop.factor * board.j_per_second.value
    assert found.j_per_second.value == pytest.approx(expected)
    assert tree.hardware is not None
    assert tree.hardware.covers == "wall"
    assert any("Ollama" in note for note in tree.notes)
    # As a wall meter and a clock had it: 3.8 J and 7.6 ms per token.
    assert found.j_per_output_token.value == pytest.approx(3.8, rel=0.1)
    assert found.tbt_s.value == pytest.approx(7.6e-3, rel=0.1)
    kinds = ("q2_K", "q4_0", "q4_K_M", "q5_K_M", "q8_0")
    joules = [
        served(**{**run, "quantization": kind})[1].j_per_output_token.value
        for kind in kinds
    ]
    assert joules == sorted(joules)
