"""Tables become devices: a made-up GPU's laws are found again, real ones rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irene.errors import UsageError
from irene.predict.machines.finding import find_gpu
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.gpu_device import (
    device_bytes,
    known_sheets,
    stand_in,
)
from irene.predict.machines.gpu.kernel_ops import Gemm, GenerationAttention, Moe
from irene.predict.machines.gpu.kernel_tables import read_tables
from irene.predict.machines.gpu.kernel_training import (
    examine_time,
    train_devices,
    train_table,
)

pytest.importorskip("lightgbm")
pytest.importorskip("pyarrow")


def test_a_made_up_gpu_is_found_again(
    sheet: Datasheet, tmp_path: Path, write_tables: Callable[[Path], None]
) -> None:
    write_tables(tmp_path)
    said: list[str] = []
    (device,) = train_devices(tmp_path, {"made-up": sheet}, said.append)
    assert "made-up gemm/bf16" in said
    errors = device.provenance["time_percent"]
    assert errors["gemm/bf16"]["median_percent"] < 3
    # Of 5120 × 5120, which is in no table: 4 µs + 1.25 · bytes / 4 TB/s.
    cost = device.costs([Gemm(8, 5120, 5120)])
    bytes_ = 2 * 5120 * 5120 + 2 * 8 * 10240
    assert cost.time_s == pytest.approx(4e-6 + 1.25 * bytes_ / 4e12, rel=0.08)
    assert not cost.is_rough.any()
    decode = device.costs([GenerationAttention(32, 2048.0, 32, 8, 128)])
    moved = 32 * 128 * (4 * 32 + 4 * 2048 * 8)
    assert decode.time_s == pytest.approx(8e-6 + 1.3 * moved / 4e12, rel=0.08)
    # It has no table of experts, and says so.
    assert "nobody measured" in device.costs([Moe(64, 2048, 768, 8, 128)]).reasons[0]
    # A datasheet of half the bandwidth takes about twice as long with its residual.
    half = Datasheet.from_dict({**sheet.to_dict(), "hbm_bytes_s": 2e12})
    slower = stand_in(half, device).costs([Gemm(8, 8192, 8192)])
    assert slower.time_s / device.costs([Gemm(8, 8192, 8192)]).time_s > 1.7
    # The same tables give the same bytes.
    (table,) = [t for t in read_tables(tmp_path / "made-up") if t.ops.kind == "gemm"]
    model, _ = train_table(table, sheet)
    models = {**device.kernels.models, "gemm/bf16": model}
    again = replace(device, kernels=replace(device.kernels, models=models))
    assert device_bytes(again) == device_bytes(device)


def test_tables_need_a_datasheet(
    tmp_path: Path, write_tables: Callable[[Path], None]
) -> None:
    write_tables(tmp_path)
    with pytest.raises(UsageError, match="no datasheet of made-up"):
        train_devices(tmp_path, {})


def test_a_folder_without_tables_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no tables"):
        train_devices(tmp_path, {})


MAKES = {512: "trtllm", 768: "trtllm", 1024: "cutlass"}


@pytest.mark.parametrize(
    ("make_of", "kept"),
    [
        (lambda inter, ranks: MAKES[inter], {512, 768}),
        (lambda inter, ranks: "cutlass" if ranks > 1 else "triton", set(MAKES)),
    ],
)
def test_layouts_that_ran_on_other_kernels_are_left_out(
    tmp_path: Path, make_of: Callable[[int, int], str], kept: set[int]
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    sizes = [(i, r, n) for i in MAKES for r in (1, 2) for n in range(1, 301)]
    size = len(sizes)
    words = {"framework": "VLLM", "version": "1", "device": "made-up",
             "moe_dtype": "bfloat16", "distribution": "balanced"}  # fmt: skip
    numbers = {"hidden_size": 2048, "topk": 8, "num_experts": 128, "moe_tp_size": 1}
    table = {name: [value] * size for name, value in {**words, **numbers}.items()}
    table |= {
        "inter_size": [inter for inter, _, _ in sizes],
        "moe_ep_size": [ranks for _, ranks, _ in sizes],
        "num_tokens": [tokens for _, _, tokens in sizes],
        "kernel_source": [f"vllm_moe_{make_of(i, r)}_experts" for i, r, _ in sizes],
        "latency": [0.1] * size,
    }
    parquet.write_table(pyarrow.table(table), tmp_path / "moe.parquet")
    (read,) = read_tables(tmp_path)
    assert set(read.ops.columns["inter"].tolist()) == kept
    assert len(read) == len(kept) * 600


def _put(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    told = {"framework": "VLLM", "version": "1", "device": "made-up"}
    table = pyarrow.Table.from_pylist([{**told, **row} for row in rows])
    parquet.write_table(table, folder / f"{name}.parquet")


def test_prompts_of_latent_attention_are_told_from_their_projections(
    tmp_path: Path,
) -> None:
    batches, lengths = [2**n for n in range(10)], [2**n for n in range(6, 16)]
    sizes = [(h, b, s) for h in (4, 8, 16, 32) for b in batches for s in lengths]
    _put(tmp_path, "context_attention", [
        {"kernel_source": "fa", "kv_cache_dtype": "bfloat16", "batch_size": b,
         "isl": s, "step": 0, "num_heads": h, "num_key_value_heads": h,
         "head_dim": 128, "window_size": w, "latency": 1e-9 * b * h * s * s / (1 + w)}
        for h, b, s in sizes for w in (0, 32)
    ])  # fmt: skip
    # Projections see tokens and heads; prompts of few tokens run on another kernel.
    _put(tmp_path, "mla_context_module", [
        {"kernel_source": "FLASH_ATTN" if s > 64 else "FLASHMLA",
         "mla_dtype": "bfloat16", "kv_cache_dtype": cache, "gemm_type": "bfloat16",
         "num_heads": h, "batch_size": b, "isl": s, "step": 0,
         "latency": 1e-3 * b * s * h + 0.5e-9 * b * h * s * s}
        for h, b, s in sizes for cache in ("bfloat16", "fp8")
    ])  # fmt: skip
    prompts = next(t for t in read_tables(tmp_path) if t.ops.kind == "latent_prompt")
    of = prompts.ops.columns
    assert of["new"].min() == 128
    assert set(of["head_dim"].tolist()) == {160}
    tokens = of["batch"] * of["new"]
    shortest = np.maximum(128.0, tokens / 512)  # of as many tokens
    assert shortest.max() == 2048  # beyond that nothing tells it
    # What is beyond it as measured, and it as usual attention of 160 / 128 the width.
    beyond_ms = 0.5e-9 * of["heads"] * tokens * (of["new"] - shortest)
    least_ms = 1.25e-9 * of["heads"] * tokens * shortest
    assert prompts.time_s == pytest.approx(1e-3 * (beyond_ms + least_ms))


@pytest.mark.parametrize(
    ("name", "key"),
    [("h100", "moe/int4"), ("h100", "moe/mxfp4"), ("h100", "latent_prompt/bf16")],
)
def test_shipped_models_are_rebuilt_from_the_data(
    gpu_ops: Path, name: str, key: str
) -> None:
    (table,) = [t for t in read_tables(gpu_ops / name) if t.ops.key == key]
    model, _ = train_table(table, known_sheets()[name])
    assert model.to_dict() == find_gpu(name).device.kernels.models[key].to_dict()
    assert find_gpu(name).device.provenance["tables"][key] == table.source


@pytest.mark.parametrize(
    ("name", "key", "most_percent"),
    [
        ("h200", "gemm/bf16", 3.0),
        ("l40s", "gemm/bf16", 4.0),  # with more trees
        ("b200", "generation_attention/bf16", 5.0),
    ],
)
def test_held_out_errors_are_those_that_are_told(
    gpu_ops: Path, name: str, key: str, most_percent: float
) -> None:
    (table,) = [t for t in read_tables(gpu_ops / name) if t.ops.key == key]
    exam = examine_time(table, known_sheets()[name])
    assert exam is not None
    assert exam.to_dict() == find_gpu(name).device.provenance["time_percent"][key]
    assert exam.to_dict()["median_percent"] <= most_percent
    for group in range(len(table.group_names)):  # never on both sides
        assert len(set(exam.folds[table.groups == group].tolist())) == 1
