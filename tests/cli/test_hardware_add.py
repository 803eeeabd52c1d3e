"""`irene hardware add` and `remove`, and `irene train-ops`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irene.cli import main
from irene.predict.machines.finding import find_gpu, known_machines, known_predictors

SHEET = "hbm_tb_s=1\ntdp_w=300\nidle_w=30\narchitecture='hopper'\n[tflops]\nbf16=100\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IRENE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(SHEET)
    return path


def test_a_datasheet_makes_a_machine(
    sheet: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hardware", "add", "--datasheet", str(sheet)]) == 0
    assert "added tiny" in capsys.readouterr().out
    assert (home / "hardware" / "tiny.toml").is_file()
    assert "tiny" in known_machines()
    assert find_gpu("tiny").device.kernels.stands_in == "h100"
    assert main(["hardware", "tiny"]) == 0
    assert "never measured" in capsys.readouterr().out
    assert main(["hardware", "remove", "tiny"]) == 0
    assert "tiny" not in known_machines()


def test_a_changed_datasheet_holds_at_once(sheet: Path) -> None:
    main(["hardware", "add", "--datasheet", str(sheet)])
    assert find_gpu("tiny").device.sheet.tdp_w == 300
    sheet.write_text(SHEET.replace("300", "310"))
    main(["hardware", "add", "--datasheet", str(sheet)])
    assert find_gpu("tiny").device.sheet.tdp_w == 310


def test_files_of_predictors_and_gpus_get_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pc1, h200 = known_predictors()["pc1"], known_machines()["h200"]
    assert main(["hardware", "add", str(pc1), "--name", "lab"]) == 0
    assert main(["hardware", "add", str(h200), "--name", "mine", "--json"]) == 0
    out = capsys.readouterr().out
    change = json.loads(out[out.index("{") :])
    assert change["schema"] == "irene.hardware_change/1"
    assert change["added"] == "mine"
    assert {"lab", "mine"} <= set(known_machines())
    assert find_gpu("mine").device.name == "mine"


@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["add", "a.json", "b.json"],
        ["add", "a.json", "--datasheet", "b.toml"],
        ["add", "missing.json"],
        ["add", "--datasheet", "missing.toml"],
        ["remove"],
        ["remove", "h200"],
        ["h200", "--name", "x"],
    ],
)
def test_wrong_usage_is_told(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hardware", *words]) == 2
    assert capsys.readouterr().err.startswith("irene hardware:")


def test_a_name_cannot_leave_the_folder(
    sheet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["hardware", "add", "--datasheet", str(sheet), "--name", "../x"]
    assert main(words) == 2
    assert "cannot name a machine" in capsys.readouterr().err


def test_shipped_gpus_are_listed_with_their_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["hardware", "h200"]) == 0
    out = capsys.readouterr().out
    assert "4.8 TB/s" in out
    assert "time gemm/bf16" in out


def test_the_fleet_has_a_line_per_machine(
    sheet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["hardware", "add", "--datasheet", str(sheet)])
    capsys.readouterr()
    assert main(["hardware"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = {line.split()[0]: line for line in lines if line}
    assert set(known_machines()) <= set(row)
    for part in ("2017", "11 GiB", "wall", "1.5 %", "± 3 to 6 %"):
        assert part in row["pc1"]
    for part in ("2022", "80 GB", "gpu-board"):
        assert part in row["h100"]
    assert "±" in row["tiny"]


def test_this_machine_is_unknown_before_it_is_learned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in (["learn", "--check"], ["hardware", "this-machine"]):
        assert main(command) == 2
        assert "nothing was learned here yet: `irene learn" in capsys.readouterr().err


def test_training_needs_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train-ops", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "no tables of kernels" in capsys.readouterr().err
