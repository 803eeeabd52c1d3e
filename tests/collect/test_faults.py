"""What happens to collectors in real life."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from ..work.made_up_tasks import noted
from .conftest import runs_in
from .made_up_work import SLEEP

MODULE = "tests.collect.collector_process"


def test_collectors_killed_twenty_times_lose_and_double_nothing(log, tmp_path):
    kills, seed = 20, 20260
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "kill", tmp_path, str(kills), str(seed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_two_collectors_on_one_store_measure_each_run_once(log, tmp_path, monkeypatch):
    monkeypatch.setenv(SLEEP, "0.05")
    points = 6
    command = [sys.executable, "-m", MODULE, "one", tmp_path / "store", str(points)]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [process.communicate() for process in both]
    assert [p.returncode for p in both] == [0, 0], said
    counts = [tuple(map(int, out.split())) for out, _ in said]
    assert sum(measured for measured, *_ in counts) == points
    assert all(sum(count) == points for count in counts)
    assert list(runs_in(tmp_path / "store").values()) == [1] * points
    begun = Counter(line.split()[1] for line in noted(log) if "begin" in line)
    assert list(begun.values()) == [1] * points
