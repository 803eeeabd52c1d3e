"""Tables become devices: a made-up GPU's laws are found again, real ones rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from irene.errors import UsageError
from irene.predict.machines.finding import find_gpu
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.gpu_device import (
    device_bytes,
    known_sheets,
    stand_in,
)
from irene.predict.machines.gpu.kernel_exam import examine_time
from irene.predict.machines.gpu.kernel_ops import Gemm, GenerationAttention, Moe
from irene.predict.machines.gpu.kernel_tables import read_tables
from irene.predict.machines.gpu.kernel_training import train_devices, train_table

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


@pytest.mark.parametrize(("name", "key"), [("h100", "moe/int4"), ("h100", "moe/mxfp4")])
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
