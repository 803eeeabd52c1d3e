"""One measurement at a time on a device, whichever program asks for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from irene.collect.measuring import Measured, Measuring
from irene.collect.sweep import Measurement, Sweep
from irene.spec import RunSpec
from irene.work.child import Child
from irene.work.task import Progress, Task

from ..patience import until

RUN = RunSpec("bert-l2-h128", seq_len=8)
BRISK = {
    "rounds": 1, "round_s": 0.001, "extra_rounds": 0, "warm_up_s": 0.0, "idle_s": 0.0,
}  # fmt: skip
JOB = {
    "protocol": "default",
    "arguments": {"model": RUN.model, "run": {"seq_len": 8}, "configs": {}},
}


@contextmanager
def running(call: str, argument: dict[str, Any], folder: Path) -> Iterator[Child]:
    """A process with a task, and what it has reported."""
    heard: list[Progress] = []
    folder.mkdir()
    child = Child(folder=folder, on_progress=heard.append)
    child.heard = heard  # type: ignore[attr-defined]
    try:
        child.begin(Task("a", call, argument))
        yield child
    finally:
        child.end(0.0)


def follow(child: Child, words: str) -> str:
    """Wait until it reports something with these words in it."""

    def heard() -> str | None:
        for step in child.heard:  # type: ignore[attr-defined]
            if words in step.text:
                return str(step.text)
        outcome = child.wait(0.05)
        assert outcome is None, outcome
        return None

    return until(heard, words, 150)


def test_a_job_a_collection_and_a_command_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # its locks are not the machine's
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sweep = Sweep("s", (RUN,), "lab", Measurement("quick", BRISK, threads=1))
    resolved = Measuring().resolve(RUN)
    argument = json.loads(json.dumps(sweep.argument(resolved, RUN.model, "c")))
    worker = "irene.serve.computing.worker:measure_job"
    with running(worker, JOB, tmp_path / "job") as job:
        follow(job, "BertModel")  # it measures
        job.process.send_signal(signal.SIGSTOP)  # and goes on with that
        with running(Measuring.call, argument, tmp_path / "run") as run:
            check(job, run)


def check(job: Child, run: Child) -> None:
    """The run and a command wait for the job; when it is killed, the run goes on."""
    holder = f"process {job.process.pid} of"
    assert holder in follow(run, "waiting: ")
    command = subprocess.Popen(
        [sys.executable, "-m", "irene", "measure", RUN.model, "-s", "8"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert command.stderr is not None
    assert any(holder in line for line in command.stderr)
    command.kill()
    command.communicate(timeout=240)
    job.kill()
    outcome = run.wait(240)
    assert outcome is not None
    assert outcome.payload is not None, outcome
    assert Measured.from_bytes(outcome.payload).tree.root.energy is not None
