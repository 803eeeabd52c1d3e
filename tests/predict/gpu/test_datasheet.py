"""Datasheets are read in base units, and nonsense is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irene.errors import FormatError, UsageError
from irene.predict.machines.gpu.datasheet import Datasheet, distance, read_datasheet
from irene.predict.machines.gpu.gpu_device import known_sheets
from irene.predict.machines.gpu.kernel_ops import Gemm
from irene.predict.machines.gpu.kernel_work import Work
from irene.predict.machines.gpu.serving_calibration import Calibration, OpKinds


def test_units_of_the_file_become_base_units(sheet: Datasheet) -> None:
    assert sheet.name == "made-up"
    assert sheet.hbm_bytes_s == 4e12
    assert sheet.flops_s == {"bf16": 1e15, "fp8": 2e15}
    assert sheet.link_bytes_s == 400e9
    assert Datasheet.from_dict(sheet.to_dict()) == sheet


def test_four_numbers_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text("hbm_tb_s=1\ntdp_w=300\nidle_w=30\n[tflops]\nbf16=100\n")
    sheet = read_datasheet(path)
    assert sheet.multiprocessors > 0
    assert sheet.link_bytes_s == 0


def test_a_type_it_lacks_is_multiplied_in_a_wider_one(sheet: Datasheet) -> None:
    assert sheet.peak("fp4") == sheet.peak("fp8") == 2e15
    assert sheet.peak("int4") == sheet.peak("mxfp4") == 1e15


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tdp_w = 1", "needs hbm_tb_s, tflops, idle_w"),
        ("hbm_tb_s = 'fast'", "not a number"),
        ("[tflops]\nfp8 = 1", "at least bf16"),
        ("[tflops]\nbf16 = 1\nfp3 = 1", "'fp3'"),
        ("hbm_tb_s=1\ntdp_w=30\nidle_w=300\n[tflops]\nbf16=1", "below the limit"),
        ("hbm_tb_s=0\ntdp_w=30\nidle_w=3\n[tflops]\nbf16=1", "above 0"),
        ("hbm_tb_s=1\ntdp_w=30\nidle_w=3\nvolts=3\n[tflops]\nbf16=1", "volts"),
        ("= =", "not TOML"),
    ],
)
def test_a_wrong_sheet_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(FormatError, match=says):
        read_datasheet(path)


def test_a_missing_sheet_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_datasheet(tmp_path / "none.toml")


def test_the_same_chip_is_the_most_alike() -> None:
    sheets = known_sheets()
    assert {"a100", "l40s", "gb200", "h100", "h200", "b200"} <= set(sheets)
    assert distance(sheets["gb200"], sheets["b200"]) < distance(
        sheets["gb200"], sheets["h200"]
    )
    assert distance(sheets["h100"], sheets["h200"]) < distance(
        sheets["h100"], sheets["b200"]
    )


def test_a_datasheet_says_which_memory_it_has(tmp_path: Path) -> None:
    sheets = known_sheets()
    kinds = {name: sheets[name].memory for name in ("h100", "l40s", "rtx-pro-6000")}
    assert kinds == {"h100": "hbm", "l40s": "gddr", "rtx-pro-6000": "gddr"}
    path = tmp_path / "mine.toml"
    path.write_text('memory = "ddr5"\nhbm_tb_s = 1\ntdp_w = 300\nidle_w = 30\n'
                    "[tflops]\nbf16 = 100\n")  # fmt: skip
    with pytest.raises(FormatError, match="memory is 'ddr5': it must be hbm or gddr"):
        read_datasheet(path)


def test_a_byte_of_gddr_takes_more_energy() -> None:
    told, sheet = Calibration(), known_sheets()["h100"]
    kinds = OpKinds.of([Gemm(1, 8192, 8192)], sheet)
    work, time_s = Work(np.array([1e8]), np.array([1.3e8])), np.array([1e-3])
    hbm, gddr = (
        told.counted_j(kinds, time_s, work, replace(sheet, memory=memory))[0]
        for memory in ("hbm", "gddr")
    )
    assert 2 * hbm < gddr < 2.5 * hbm
