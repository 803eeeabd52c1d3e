"""FLOPs and bytes of ops, worked out by hand in the comments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.kernel_ops import (
    Collective,
    ContextAttention,
    Gemm,
    GenerationAttention,
    Memory,
    Moe,
    Op,
    columns_of,
)
from irene.predict.machines.gpu.kernel_work import kernel_seconds, seconds_of, work_of


def counted(op: Op) -> tuple[float, float]:
    (group,) = columns_of([op])
    work = work_of(group)
    return float(work.flops[0]), float(work.bytes[0])


def test_a_product_reads_its_weights_once() -> None:
    # 2·3·5·7 FLOPs; weights 5·7·2 B, in 3·7·2 B, out 3·5·2 B
    assert counted(Gemm(3, 5, 7)) == (210, 70 + 42 + 30)
    # fp8 weights are a byte each
    assert counted(Gemm(3, 5, 7, "fp8")) == (210, 35 + 42 + 30)


def test_context_attention_is_causal() -> None:
    # One sequence of 4: 1 + 2 + 3 + 4 = 10 pairs, 2 heads of 8: 4·2·8·10 FLOPs;
    # queries and output 2·4·2·8·2 B, keys and values of one head 2·4·1·8·2 B
    assert counted(ContextAttention(1, 4, 0, 2, 1, 8)) == (640, 256 + 128)


def test_cached_tokens_are_seen_and_read() -> None:
    # After 6 cached: 7 + 8 = 15 pairs; cache of 8 tokens
    flops, bytes_ = counted(ContextAttention(1, 2, 6, 1, 1, 1))
    assert (flops, bytes_) == (4 * 15, 2 * 2 * 2 + 2 * 8 * 2)


def test_a_window_limits_what_is_seen() -> None:
    # A window of 3: 1 + 2 + 3 + 3 + 3 = 12 pairs
    assert counted(ContextAttention(1, 5, 0, 1, 1, 1, window=3))[0] == 4 * 12
    # After 6 cached each sees the 3 of the window
    assert counted(ContextAttention(1, 5, 6, 1, 1, 1, window=3))[0] == 4 * 15
    # One new token of 100 in the cache sees 3
    flops, bytes_ = counted(GenerationAttention(2, 100.0, 4, 2, 8, window=3))
    assert flops == 4 * 2 * 4 * 8 * 3
    assert bytes_ == 2 * 8 * (2 * 2 * 4 + 2 * 2 * 3 * 2)


def test_a_cache_in_fp8_is_half_the_bytes() -> None:
    full = counted(GenerationAttention(8, 4096.0, 32, 8, 128))[1]
    half = counted(GenerationAttention(8, 4096.0, 32, 8, 128, cache_dtype="fp8"))[1]
    assert half / full == pytest.approx(0.5, rel=0.01)


def test_experts_are_read_if_a_token_goes_there() -> None:
    # 2 tokens to 2 of 8 experts each, balanced: 4 experts of 3·16·4 weights
    flops, bytes_ = counted(Moe(2, 16, 4, 2, 8))
    assert flops == 2 * 3 * 4 * 16 * 4
    # in 2·16, between 4·3·4, out 4·16 numbers
    assert bytes_ == 4 * 3 * 16 * 4 * 2 + 2 * (32 + 48 + 64)
    # a thousand tokens touch all eight, not more
    assert counted(Moe(1000, 16, 4, 2, 8))[1] == 8 * 384 + 2 * (16000 + 24000 + 32000)


def test_tokens_that_draw_experts_touch_fewer() -> None:
    drawn = counted(Moe(16, 2048, 768, 8, 128, distribution="power_law_1.01"))[1]
    assert drawn < counted(Moe(16, 2048, 768, 8, 128))[1]


def test_ranks_share_experts() -> None:
    whole = counted(Moe(512, 2048, 768, 8, 128))
    (group,) = columns_of([Moe(512, 2048, 768, 8, 128)])
    # Tables have experts that are spread over GPUs.
    spread = {**group.columns, "expert_parallel": np.array([2.0])}
    assert work_of(replace(group, columns=spread)).flops[0] == whole[0] / 2
    split = counted(Moe(512, 2048, 768, 8, 128, tensor_parallel=2))
    assert split[0] == whole[0] / 2


def test_a_ring_sends_the_message_almost_twice(sheet: Datasheet) -> None:
    # 4 ranks: 2 · 3/4 of the bytes leave each GPU, over a link of 400 GB/s
    (group,) = columns_of([Collective(8e9, 4)])
    seconds = seconds_of(group, work_of(group), sheet)
    assert seconds[1][0] == pytest.approx(12e9 / 400e9)


def test_bytes_of_memory_ops_add_up() -> None:
    assert counted(Memory(10.0, 20.0, 5.0)) == (5, 30)


def test_the_last_block_of_an_expert_is_half_empty(sheet: Datasheet) -> None:
    # 512 tokens to 8 of 128 experts: 32 for each, and 32 rows of a block of 64 empty.
    (group,) = columns_of([Moe(512, 2048, 768, 8, 128)])
    plain = seconds_of(group, work_of(group), sheet)
    tiled = kernel_seconds(group, sheet, "cutlass", 64.0)
    assert tiled[0] == pytest.approx(2 * plain[0])
    assert tiled[1] == plain[1]
    assert kernel_seconds(group, sheet, "cutlass", 0.0)[0] == plain[0]


@pytest.mark.parametrize(
    ("make", "own", "of_all"),
    [
        ("cutlass", 3 * 768 + 2048, 0),  # gathers the rows of its own experts
        ("trtllm", 3 * 768, 2048),  # sums over all rows
        ("marlin", 3 * 768 + 2 * 2048, 3 * 768 + 2048),  # both steps over all rows
        ("unheard of", 3 * 768 + 2 * 2048, 3 * 768 + 2048),
    ],
)
def test_makes_of_kernels_move_rows_of_other_gpus_experts(
    sheet: Datasheet, make: str, own: int, of_all: int
) -> None:
    # 512 tokens to 8 of 128 experts, a quarter of which lie here; bf16, 4 TB/s.
    (group,) = columns_of([Moe(512, 2048, 768, 8, 128, expert_parallel=4)])
    weights = 32 * 3 * 2048 * 768
    moved = weights + 512 * 2048 + 1024 * own + 4096 * of_all
    _, memory_s = kernel_seconds(group, sheet, make, 0.0)
    assert memory_s[0] == pytest.approx(2 * moved / 4e12)


def test_columns_keep_the_order_of_ops() -> None:
    ops = [Memory(1.0, 0.0), Gemm(1, 2, 3), Memory(2.0, 0.0), Gemm(4, 5, 6, "fp8")]
    places = {group.key: group.places.tolist() for group in columns_of(ops)}
    assert places == {"memory/": [0, 2], "gemm/bf16": [1], "gemm/fp8": [3]}
    assert np.array_equal(columns_of(ops)[0].columns["bytes_read"], [1.0, 2.0])
