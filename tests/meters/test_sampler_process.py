from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from irene.errors import MeterError
from irene.meters.sampling.recording import read_recording
from irene.meters.sampling.sampler_process import SamplerProcess


def test_it_samples_and_answers(tmp_path: Path) -> None:
    with SamplerProcess(["proc"], 0.005, tmp_path / "s.csv") as process:
        names = [channel.name for channel in process.channels]
        begin = process.sample_now()
        while len(read_recording(tmp_path / "s.csv")) < 10:  # it samples by itself
            time.sleep(0.01)
        end = process.sample_now()
        windows = {w.channel.name: w for w in process.between(begin, end)}
    assert "proc:cpu" in names
    assert windows["proc:mem"].duration_s > 0
    assert 0 < windows["proc:mem"].mean < 100
    recording = read_recording(tmp_path / "s.csv")
    assert len(recording) == process.counts["samples"] > 10
    assert recording.notes == ()
    assert process.problems == ()
    process.stop()


def test_what_runs_right_after_the_start_is_covered(tmp_path: Path) -> None:
    with SamplerProcess(["proc"], 1.0, tmp_path / "s.csv"):
        began_ns = time.monotonic_ns()
    recording = read_recording(tmp_path / "s.csv")
    assert recording.time_ns[0] <= began_ns <= recording.time_ns[-1]


def test_a_meter_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="nonsense"):
        SamplerProcess(["nonsense"], 0.01, tmp_path / "s.csv").start()


def test_killed_it_leaves_what_it_sampled(tmp_path: Path) -> None:
    sampler = SamplerProcess(["proc"], 0.005, tmp_path / "s.csv").start()
    while len(read_recording(tmp_path / "s.csv")) < 2:  # handed over once a second
        time.sleep(0.01)
    assert sampler._process is not None
    os.kill(sampler._process.pid, signal.SIGKILL)
    sampler._process.wait()
    with pytest.raises(MeterError, match="died"):
        sampler.sample_now()
    sampler.stop()
    assert "died" in sampler.problems[0]
    recording = read_recording(tmp_path / "s.csv")
    assert len(recording) >= 2
    assert "did not end" in recording.notes[0]


def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "s.csv"
    code = (
        "import sys, time, pathlib\n"
        "from irene.meters.sampling.sampler_process import SamplerProcess\n"
        f"s = SamplerProcess(['proc'], 0.005, pathlib.Path({str(out)!r})).start()\n"
        "print(s._process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stderr is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    with parent.stderr as errors:
        assert errors.read() == ""  # the child's too: nobody is there to be told
    for _ in range(4800):
        if not _runs(child):
            break
        time.sleep(0.05)
    assert not _runs(child)
    assert read_recording(out).notes == ()  # it wrote its end


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_it_needs_neither_numpy_nor_torch(tmp_path: Path) -> None:
    code = (
        "import sys, io, json\n"
        "from irene.meters.sampling import sampler_process as s\n"
        "import irene.meters.finding\n"
        f"s.main(['--period-s', '0.01', '--meter', 'proc', '--meter', 'estimate',"
        f" '--out', {str(tmp_path / 's.csv')!r}])\n"
        "print(json.dumps(sorted(set(sys.modules) & {'numpy', 'torch', 'rich'})))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(result.stdout.splitlines()[-1]) == []
