"""`irene monitor` as a user meets it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from irene.cli import main
from irene.cli.running.monitor import sparkline
from irene.meters.sampling.recording import read_recording

from ..measure.made_up_power import DRAM_WATTS, WATTS, made_up_meter
from ..meters.simulated_machine import SimulatedMachine, SimulatedZone, constant

PROGRAM = (
    "import sys, time; print('out'); print('err', file=sys.stderr); time.sleep(0.1)"
)


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    return ["--meters", made_up_meter(tmp_path / "power.csv"), "--period", "0.02"]


@pytest.fixture
def run(capfd):
    """Run the command; exit code, and what it and its program wrote."""

    def call(*words: str) -> tuple[int, str, str]:
        try:
            code = main(["monitor", *words])
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return call


def table_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def python(program: str) -> list[str]:
    return ["--", sys.executable, "-c", program]


def test_the_programs_output_is_untouched_and_the_report_on_stderr(run, options):
    code, out, err = run(*options, *python(PROGRAM))
    assert (code, out) == (0, "out\n")
    assert err.startswith("err\n")
    assert "measured by sim" in err
    assert "W mean" in err
    assert "W peak" in err
    assert "sim:core" in err
    assert "(not counted)" in err


def test_the_document(run, options):
    code, out, err = run(*options, "--json", *python(PROGRAM))
    assert code == 0
    assert set(err.split()) == {"out", "err"}
    document = json.loads(out)
    assert document["schema"] == "irene.monitor/1"
    assert document["command"][0] == sys.executable
    assert document["exit_code"] == 0
    watts = WATTS + DRAM_WATTS
    assert document["mean_power_w"] == pytest.approx(watts, rel=0.1)
    assert document["energy_j"] == pytest.approx(
        document["mean_power_w"] * document["duration_s"]
    )
    assert document["low_j"] <= document["energy_j"] <= document["high_j"]
    assert document["source"] == "measured"
    assert [m["meter"] for m in document["meters"]] == ["sim"]
    by_name = {c["name"]: c for c in document["channels"]}
    assert by_name["sim:core"]["counted"] is False
    assert by_name["sim:load"]["mean"] == pytest.approx(40)
    assert document["samples"]["samples"] >= 3


@pytest.mark.parametrize(
    ("program", "code"), [("exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_exit_codes_are_passed_on(run, options, program, code):
    found, _, err = run(*options, *python(program))
    assert found == code
    assert f"exit code {code}" in err


def test_a_program_that_is_not_there(run, options):
    code, out, err = run(*options, "--", "no-such-program")
    assert (code, out) == (127, "")
    assert "there is no program 'no-such-program'" in err


def test_options_of_the_program_are_its_own(run, options):
    show = "import sys; print(sys.argv[1:])"
    words = [sys.executable, "-c", show, "--json", "--", "--period"]
    for start in (["--", *words], words):
        code, out, _ = run(*options, *start)
        assert (code, out) == (0, "['--json', '--', '--period']\n")


@pytest.mark.parametrize(
    "words", [[], ["--"], ["--seconds", "1", "--", "true"], ["--seconds", "0"],
              ["--period", "nan", "--", "true"]],
)  # fmt: skip
def test_wrong_usage(run, words):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err


def test_watching_the_machine_reports_on_standard_output(run, options):
    code, out, err = run(*options, "--seconds", "0.1")
    assert (code, err) == (0, "")
    assert out.startswith("irene monitor: this machine\n")
    assert max(map(len, out.splitlines())) < 200  # no blanks to fill a line in a file


def test_files(run, options, tmp_path):
    table, kept, plot = (tmp_path / n for n in ("s.csv", "r.csv", "power.svg"))
    words = ["--csv", str(table), "--out", str(kept), "--plot", str(plot)]
    code, _, err = run(*options, *words, *python(PROGRAM))
    assert code == 0
    recording = read_recording(kept)
    rows = table_of(table)
    assert len(rows) == len(recording)
    assert [float(r["sim:package energy_j"]) for r in rows] == pytest.approx(
        recording.values[:, 0].tolist()
    )
    assert float(rows[0]["time_s"]) <= 0 < float(rows[-1]["time_s"])
    assert plot.read_text().startswith("<svg")
    drawn = table_of(plot.with_suffix(".csv"))
    assert {"sim:package", "sim:dram"} <= set(drawn[0])
    assert str(plot) in err


def test_a_tracker_gets_what_a_program_used(run, options, tmp_path):
    table = tmp_path / "energy.csv"
    for _ in range(2):
        assert run(*options, "--track", str(table), "--seconds", "0.2")[0] == 0
    names = [row["name"] for row in table_of(table)]
    assert names == [f"energy/program_{unit}" for unit in ("j", "w", "s")] * 2
    energy_j, power_w, seconds = (float(r["value"]) for r in table_of(table)[:3])
    assert energy_j == pytest.approx(power_w * seconds)


@pytest.mark.parametrize("where", ["nowhere", "wandb", "tensorboard:"])
def test_a_tracker_without_a_run_is_refused_before_the_program(run, options, where):
    code, out, err = run(*options, "--track", where, *python("print('ran')"))
    assert (code, out) == (2, "")
    assert "tensorboard:FOLDER" in err
    assert err.count("\n") == 1


def test_a_picture_that_cannot_be_drawn_is_refused_before_the_run(
    run, options, tmp_path
):
    told = tmp_path / "told"
    program = python(f"open({str(told)!r}, 'w')")
    code, _, err = run(*options, "--plot", str(tmp_path / "a.pdf"), *program)
    assert code == 2
    assert ".svg, .png or .html" in err
    assert not told.exists()


def test_a_file_that_cannot_be_written_does_not_hide_the_programs_failure(
    run, options, tmp_path
):
    nowhere = str(tmp_path / "power.csv" / "x.csv")
    assert run(*options, "--csv", nowhere, *python("exit(4)"))[0] == 4
    code, _, err = run(*options, "--csv", nowhere, *python("exit(0)"))
    assert code == 2
    assert "cannot write" in err


def test_names_cannot_steer_the_terminal(run, options):
    _, _, err = run(*options, *python("0 #\x1b[2J"))
    assert "\x1b" not in err


def test_it_does_not_import_torch(options):
    text = (
        "import sys; from irene.cli import main; main(sys.argv[1:]);"
        "exit('torch' in sys.modules)"
    )
    words = [sys.executable, "-c", text, "monitor", *options, "--seconds", "0.05"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


COUNTS = """
import signal, time
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
print("up", flush=True)
while not heard:
    time.sleep(0.01)
time.sleep(0.3)
print("heard", len(heard), flush=True)
"""


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_ctrl_c_on_a_terminal_reaches_the_program_once(options):
    pty = pytest.importorskip("pty")
    words = [sys.executable, "-m", "irene", "monitor", *options, *python(COUNTS)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    seen = b""
    while b"up" not in seen:
        seen += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    try:
        while piece := os.read(terminal, 4096):
            seen += piece
    except OSError:  # the terminal's other end is closed
        pass
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"heard 1\r\n" in seen
    assert b"measured by sim" in seen


def test_sparklines():
    assert sparkline(np.array([0.0, 3.5, 7.0])) == "▁▅█"
    assert sparkline(np.array([1.0, np.nan])) == "█·"
    assert sparkline(np.zeros(0)) == ""
    assert len(sparkline(np.arange(1000.0))) == 40


def test_what_is_missing_is_named_on_the_terminal_and_in_json(
    run, tmp_path, monkeypatch
):
    zones = [
        SimulatedZone(f"intel-rapl:{n}", f"package-{n}", constant(90.0)) for n in (0, 1)
    ]
    machine = SimulatedMachine(tmp_path, zones)
    machine.garble("intel-rapl:1", b"?")
    monkeypatch.setenv("IRENE_SYSFS_ROOT", str(machine.root))
    words = ("--meters", "rapl", "--seconds", "0.05")
    _, out, _ = run(*words)
    assert "cpu-package (missing)" in out
    assert "rapl:package-1 is missing in the total" in out
    _, out, _ = run(*words, "--json")
    missing = {c["name"]: c["missing"] for c in json.loads(out)["channels"]}
    assert missing["rapl:package-0"] == ""
    assert "not a count" in missing["rapl:package-1"]
    machine.close()
