"""`irene doctor` as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from irene.cli import main
from irene.meters.finding import METERS
from tests.meters.made_up_proc import FakeProc


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    fake = FakeProc(tmp_path)
    fake.cpuinfo("Intel(R) Xeon(R) CPU E3-1240 V2 @ 3.40GHz", "GenuineIntel", 4, 8)
    monkeypatch.setenv("IRENE_PROC_ROOT", str(fake.root))
    monkeypatch.delenv("IRENE_CPU_TDP_W", raising=False)
    return fake


@pytest.fixture
def run(capsys, fake):
    """Run it on the made-up machine; returns exit code, output and errors."""

    def call(*words: str, seconds: str = "0.05") -> tuple[int, str, str]:
        arguments = ["doctor", "--sysfs", str(fake.sysfs), "--seconds", seconds]
        try:
            code = main([*arguments, *words])
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def add_zone(fake: FakeProc) -> Path:
    folder = "class/powercap/intel-rapl:0"
    fake.sysfs_file(f"{folder}/name", "package-0\n")
    fake.sysfs_file(f"{folder}/max_energy_range_uj", "262143328850\n")
    fake.sysfs_file(f"{folder}/energy_uj", "123456\n")
    return fake.sysfs / folder / "energy_uj"


def deny(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is made up."""
    real = os.open

    def refuse(name, *rest, **more):
        if os.fspath(name) == str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(name, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)


def test_a_machine_with_nothing_says_so_and_is_no_failure(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "✗ rapl" in out
    assert "✓ estimate" in out
    assert "Nothing measures energy here" in out
    assert "auto = estimate + proc" in out
    assert "TDP 69 W with 4 cores, as Intel says" in out
    assert "no memory" in out
    assert "Xeon(R) CPU E3-1240 V2" in out


def test_counters_that_may_not_be_read_come_with_the_command(run, fake, monkeypatch):
    path = add_zone(fake)
    deny(path, monkeypatch)
    code, out, _ = run()
    assert code == 0
    assert "Permission denied" in out
    command = f"sudo chmod a+r {fake.sysfs}/class/powercap/intel-rapl*/energy_uj"
    assert command in out  # in one line, to be copied
    assert "auto = estimate + proc" in out


def test_a_counter_is_used_and_the_estimate_is_not(run, fake):
    add_zone(fake)
    code, out, _ = run()
    assert code == 0
    assert "✓ rapl" in out
    assert "auto = rapl + proc" in out
    assert "measured: cpu-package" in out
    assert "Nothing measures" not in out
    assert "TDP 69 W" not in out  # nobody asked for the estimate


def test_json_is_one_document_and_nothing_else(run, fake):
    add_zone(fake)
    code, out, err = run("--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["schema"] == "irene.doctor/1"
    assert document["auto"] == ["rapl", "proc"]
    assert document["measured"] == ["cpu-package"]
    meters = {meter["name"]: meter for meter in document["meters"]}
    assert list(meters) == list(METERS)
    assert "http://HOST/PATH#WHERE" in document["by_address"]
    (package,) = meters["rapl"]["channels"]
    assert package["source"] == "measured"
    assert package["live"]["quantity"] == "power_w"
    (guess,) = meters["estimate"]["channels"]
    assert (guess["source"], meters["estimate"]["used"]) == ("estimated", False)
    assert document["machine"]["cores"] == "4"


def test_the_live_reading_can_be_left_out(run):
    _, out, _ = run("--json", seconds="0")
    channels = [c for m in json.loads(out)["meters"] for c in m["channels"]]
    assert channels
    assert all(channel["live"] is None for channel in channels)


def test_the_live_reading_has_watts_and_load(run, fake, monkeypatch):
    ticks = iter(range(0, 10_000, 10))

    def sleep(_seconds: float) -> None:
        now = next(ticks)
        fake.stat(now, 0, 0, now)
        real(0.03)

    import time

    real = time.sleep
    monkeypatch.setattr(time, "sleep", sleep)
    _, out, _ = run("--json")
    live = {
        channel["name"]: channel["live"]
        for meter in json.loads(out)["meters"]
        for channel in meter["channels"]
    }
    assert live["proc:cpu"] == {"quantity": "percent", "value": 50.0}
    assert 0 < live["estimate:cpu"]["value"] < 69
    assert live["proc:mem"]["value"] == pytest.approx(25.0)


@pytest.mark.parametrize("seconds", ["-1", "soon", "nan", "1e9"])
def test_impossible_seconds_are_refused(run, seconds):
    code, out, err = run(seconds=seconds)
    assert (code, out) == (2, "")
    assert "--seconds" in err


def test_a_wrong_design_power_is_a_message(run, monkeypatch):
    monkeypatch.setenv("IRENE_CPU_TDP_W", "lots")
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "IRENE_CPU_TDP_W is 'lots'" in err


def test_names_cannot_steer_the_terminal(run, fake):
    fake.cpuinfo("evil \x1b[2J name", "GenuineIntel")
    _, out, _ = run()
    assert "\x1b" not in out
    assert "evil" in out


def test_it_imports_neither_torch_nor_numpy():
    program = (
        "import sys\n"
        "from irene.cli import main\n"
        "main(['doctor', '--json', '--seconds', '0'])\n"
        "heavy = {'torch', 'transformers', 'numpy', 'scipy'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "[]"
