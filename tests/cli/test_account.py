from __future__ import annotations

import json
from pathlib import Path

import pytest

from irene.cli import main
from tests.account.readers.kineto.small_traces import BASE_NS, today


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(today()))
    return path


@pytest.fixture
def power(tmp_path: Path) -> Path:
    """100 W for the two milliseconds around the trace, in steps of 10 µs."""
    path = tmp_path / "power.csv"
    begin_us = BASE_NS // 1000 - 500
    moments = (begin_us + 10 * i for i in range(200))
    rows = [f"{moment / 1e6:.6f},100" for moment in moments]
    path.write_text("\n".join(["time_s,power_w", *rows]) + "\n")
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["account", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def files(trace: Path, power: Path) -> list[object]:
    return ["--trace", trace, "--power", power]


@pytest.mark.parametrize(
    "by", ["module", "layer", "op", "operation", "phase", "device"]
)
def test_every_view_is_printed_with_what_belongs_to_no_op(
    capsys: pytest.CaptureFixture[str], trace: Path, power: Path, by: str
) -> None:
    words = [*files(trace, power), "--device", "cuda:0", "--by", by]
    code, out, err = run(capsys, *words, "--idle-w", 60)
    assert code == 0
    assert "(idle)" in out
    assert "(unattributed)" in out
    assert "power.csv: " in out
    assert "no power of cpu is known" in err
    known = {
        "module": "fc", "op": "aten::mm", "operation": "aten::mm · backward",
        "phase": "backward", "device": "cuda:0", "layer": "unattributed",
    }  # fmt: skip
    assert known[by] in out


def test_json_is_one_document(
    capsys: pytest.CaptureFixture[str], trace: Path, power: Path
) -> None:
    code, out, _ = run(capsys, *files(trace, power), "--device", "cuda:0", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["schema"] == "irene.tree/1"
    ledger = document["ledger"]
    kernels_j = (90 + 180 + 20) * 1e-6 * 100
    assert ledger["attributed_j"] == pytest.approx(kernels_j, rel=1e-6)
    mm = next(row for row in ledger["by_op"] if row["name"] == "aten::mm")
    assert mm["energy_j"] == pytest.approx(180e-6 * 100, rel=1e-6)


def test_all_files_are_written(
    capsys: pytest.CaptureFixture[str], trace: Path, power: Path, tmp_path: Path
) -> None:
    names = {"csv": "l.csv", "parquet": "l.parquet", "html": "l.html",
             "perfetto": "l.json.gz"}  # fmt: skip
    words: list[object] = []
    for option, name in names.items():
        words += [f"--{option}", tmp_path / name]
    code, out, err = run(capsys, *files(trace, power), "--by", "op", *words)
    assert code == 0
    assert out == ""
    for name in names.values():
        assert (tmp_path / name).stat().st_size > 100
        assert f"wrote {tmp_path / name}" in err


def test_a_whole_machine_and_a_split(
    capsys: pytest.CaptureFixture[str], trace: Path, power: Path
) -> None:
    code, out, _ = run(
        capsys, *files(trace, power), "--split", "sm", "--by", "device", "--json"
    )
    assert code == 0
    devices = {row["name"] for row in json.loads(out)["ledger"]["by_device"]}
    assert devices == {"cpu", "cuda:0"}


def test_a_power_file_of_another_day_is_refused_with_both_intervals(
    capsys: pytest.CaptureFixture[str], trace: Path, power: Path
) -> None:
    code, out, err = run(capsys, *files(trace, power), "--offset-s", 86_400)
    assert (code, out) == (2, "")
    assert "2023-11-14 22:13:20" in err
    assert "2023-11-15 22:13:19" in err
    assert "--offset-s -86400.000" in err


def test_a_trace_without_a_clock_needs_an_offset(
    capsys: pytest.CaptureFixture[str], trace: Path, power: Path
) -> None:
    document = today()
    del document["baseTimeNanoseconds"]
    trace.write_text(json.dumps(document))
    code, _, err = run(capsys, *files(trace, power))
    assert code == 2
    assert "no clock base" in err
    offset = err.split("(--offset-s ")[1].split()[0]
    code, _, err = run(capsys, *files(trace, power), "--offset-s", offset)
    assert code == 0
    assert "not since 1970" in err


def test_a_cut_trace_is_used_with_a_warning(
    capsys: pytest.CaptureFixture[str], trace: Path, power: Path
) -> None:
    text = json.dumps({"baseTimeNanoseconds": BASE_NS, **today()})
    trace.write_text(text[: text.index('"Optimizer.step#')])
    code, out, err = run(capsys, *files(trace, power), "--by", "op")
    assert code == 0
    assert "cut off at byte" in err
    assert "aten::mm" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trace", "x.json"], "both --trace FILE and --power FILE"),
        (["--trace", "no.json", "--power", "no.csv"], "cannot read"),
    ],
)
def test_missing_files_are_told(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    code, _, err = run(capsys, *words)
    assert code == 2
    assert message in err


def test_impossible_requests_are_refused_before_the_work(
    capsys: pytest.CaptureFixture[str], trace: Path, power: Path, tmp_path: Path
) -> None:
    code, _, err = run(capsys, *files(trace, power), "--top", 0)
    assert (code, "--top" in err) == (2, True)
    code, _, err = run(capsys, *files(trace, power), "--csv", tmp_path / "no" / "l.csv")
    assert (code, "no folder" in err) == (2, True)
    code, _, err = run(capsys, *files(trace, power), "--split", "flops")
    assert (code, "says nothing about the flops" in err) == (2, True)
