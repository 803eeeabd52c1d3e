"""Datasheets and tables of a made-up GPU, and the measured ones where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from irene.predict.machines.gpu.datasheet import Datasheet, read_datasheet

SHEET = """
description = "a made-up GPU"
architecture = "made-up"
hbm_tb_s = 4.0
tdp_w = 600
idle_w = 100
link_gb_s = 400
memory_gb = 100
multiprocessors = 100
l2_mb = 50

[tflops]
bf16 = 1000
fp8 = 2000
"""


@pytest.fixture
def sheet_file(tmp_path: Path) -> Path:
    path = tmp_path / "made-up.toml"
    path.write_text(SHEET)
    return path


@pytest.fixture
def sheet(sheet_file: Path) -> Datasheet:
    return read_datasheet(sheet_file)


@pytest.fixture
def irene_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings folder of this test's own."""
    home = tmp_path / "home"
    monkeypatch.setenv("IRENE_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def gpu_ops() -> Path:
    folder = os.environ.get("IRENE_DATA_DIR")
    if not folder:
        pytest.skip("IRENE_DATA_DIR is not set: it names the folder of gpu-ops")
    path = Path(folder) / "gpu-ops"
    if not path.is_dir():
        pytest.skip(f"no tables of kernels in {path}")
    return path


WriteTables = Callable[[Path], None]


@pytest.fixture
def write_tables() -> WriteTables:
    """Writes tables of kernels that follow a roofline, into a folder per GPU."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def put(folder: Path, kind: str, columns: dict[str, object], size: int) -> None:
        told = {
            "framework": ["made up"] * size,
            "version": ["1"] * size,
            "device": ["made-up"] * size,
            "kernel_source": ["none"] * size,
        }
        folder.mkdir(parents=True, exist_ok=True)
        table = pyarrow.table({**told, **columns})
        parquet.write_table(table, folder / f"{kind}.parquet")

    def write(root: Path) -> None:
        put(root / "made-up", "gemm", *_gemm())
        put(root / "made-up", "generation_attention", *_attention())

    return write


def _power(share: np.ndarray, readings: int) -> np.ndarray:
    """Mean of so many readings in whole milliwatts, between 100 and 600 W."""
    watts = 100 + 500 * -np.expm1(-3 * share)
    return np.round(watts * 1000 * readings) / readings / 1000


def _gemm() -> tuple[dict[str, object], int]:
    sizes = [
        (m, n, k)
        for m in (1, 3, 4, 9, 16, 33, 64, 129, 256, 1000, 2048)
        for n in (1024, 2048, 3072, 4096, 6144, 8192, 12288)
        for k in (1024, 2048, 3072, 4096, 6144, 8192, 12288)
    ]
    m, n, k = np.array(sizes, float).T
    compute_s = 2 * m * n * k / 1e15
    memory_s = (2 * n * k + 2 * m * (n + k)) / 4e12
    time_s = 4e-6 + 1.25 * np.maximum(compute_s, memory_s)
    power = _power(np.maximum(compute_s, memory_s) / time_s, 7)
    return {
        "gemm_dtype": ["bfloat16"] * len(m),
        "m": m.astype(int),
        "n": n.astype(int),
        "k": k.astype(int),
        "latency": time_s * 1e3,
        "power": power,
    }, len(m)


def _attention() -> tuple[dict[str, object], int]:
    sizes = [
        (batch, step, heads, kv_heads)
        for batch in (1, 4, 16, 64)
        for step in (63, 255, 1023, 4095, 16383)
        for heads in (8, 16, 32, 48, 64)
        for kv_heads in (1, 2, 4, 8, 16, 32)
        if kv_heads <= heads
    ]
    batch, step, heads, kv_heads = np.array(sizes, float).T
    bytes_ = batch * 128 * (4 * heads + 4 * (step + 1) * kv_heads)
    time_s = 8e-6 + 1.3 * bytes_ / 4e12
    return {
        "kv_cache_dtype": ["bfloat16"] * len(batch),
        "batch_size": batch.astype(int),
        "step": step.astype(int),
        "num_heads": heads.astype(int),
        "num_key_value_heads": kv_heads.astype(int),
        "head_dim": [128] * len(batch),
        "window_size": [0] * len(batch),
        "latency": time_s * 1e3,
        "power": _power(bytes_ / 4e12 / time_s, 7),
    }, len(batch)
