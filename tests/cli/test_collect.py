"""`irene collect` as a user meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from irene.cli import main
from irene.dataset.store import Store

SWEEP = """\
model: [bert-l2-h128]
seq_len: [8]
include: [{model: no-such-model}]
protocol:
  {kind: quick, rounds: 1, round_s: 0.001, extra_rounds: 0, idle_s: 0.0, threads: 1}
"""


@pytest.fixture
def sweep(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP)
    return path


def test_a_dry_run_says_what_it_would_do_and_does_nothing(sweep, tmp_path, capsys):
    store = str(tmp_path / "store")
    assert main(["collect", str(sweep), "--store", store, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "bert-l2-h128" in out
    assert "2 to measure" in out
    assert "guessed from FLOPs for 1 of 2 runs" in out
    assert not Path(store).exists()
    words = ["collect", "small", "--store", store, "--dry-run", "--json"]
    assert main(words) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["schema"] == "irene.collection-plan/1"
    assert plan["open"] == len(plan["runs"]) == 8
    assert plan["left_s"] > 0


def test_a_sweep_is_collected_and_a_rerun_finds_it(sweep, tmp_path, capsys):
    store = str(tmp_path / "store")
    words = ["collect", str(sweep), "--store", store, "--name", "desk"]
    assert main(words) == 1
    captured = capsys.readouterr()
    assert "1 measured in" in captured.out
    assert "failed: no-such-model 8×128: unknown model" in captured.out
    assert "per hour" in captured.err
    (tree,) = Store.open(store).trees()
    assert tree.hardware.name == "desk"
    assert main([*words, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "irene.collection/1"
    assert (report["there"], report["measured"], report["failed"]) == (1, 0, 1)


def test_a_collection_that_is_stopped_says_how_to_go_on(sweep, tmp_path):
    sweep.write_text("model: bert-l2-h128\nprotocol: {kind: paper}\n")
    store = tmp_path / "store"
    process = subprocess.Popen(
        [sys.executable, "-m", "irene", "collect", sweep, "--store", store],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    claims = store / "collect"
    until_s = time.monotonic() + 120
    while not list(claims.glob("*.claim")) and time.monotonic() < until_s:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # SIGINT is caught in the same way
    out, err = process.communicate()
    assert process.returncode == 143, err
    assert "the same command goes on" in err
    assert "1 left" in out
    assert Store.open(store).entries() == []


def test_a_mistake_in_the_sweep_is_wrong_usage(sweep, tmp_path, capsys):
    sweep.write_text("model: gpt2\nbatch: 8\n")
    assert main(["collect", str(sweep), "--store", str(tmp_path / "store")]) == 2
    assert "sweep.yaml:2: a sweep has no 'batch'" in capsys.readouterr().err
