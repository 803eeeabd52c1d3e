"""A bounded process: what comes back, what it may use, and when it ends."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from irene.work.bounds import Bounds
from irene.work.child import Child, run_task
from irene.work.task import Outcome, Progress, Task

from .made_up_tasks import HERE, noted


def task(function: str, bounds: Bounds | None = None, **argument: Any) -> Task:
    return Task(function, f"{HERE}:{function}", argument, bounds or Bounds())


@contextmanager
def child(**options: Any) -> Iterator[Child]:
    made = Child(**options)
    try:
        yield made
    finally:
        made.end(0.0)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pid: int) -> None:
    while not is_gone(pid):
        time.sleep(0.01)


def test_one_child_runs_one_task_after_another_and_stays_warm(log: Path) -> None:
    with child() as one:
        for words in ("a", "b"):
            one.begin(task("echo", words=words))
            outcome = one.wait()
            assert outcome is not None
            assert outcome.payload == words.encode()
    begun = [line.split()[2] for line in noted(log) if line.startswith("begin")]
    assert begun == [str(one.process.pid)] * 2


def test_progress_and_a_large_result_come_back_whole() -> None:
    heard: list[Progress] = []
    with child(on_progress=heard.append) as one:
        one.begin(task("hundred_reports", length=5_000_000))
        outcome = one.wait()
    assert outcome is not None
    assert outcome.payload == b"x" * 5_000_000
    assert [step.done for step in heard] == list(range(100))
    assert heard[-1] == Progress(99, 100, "step 99")


FAULTS = {
    "kill": ("killed", "SIGKILL, which the system does when memory runs out"),
    "oom": ("memory", "out of memory: of 8 GiB"),
    "cuda-oom": ("memory", "out of memory: RuntimeError: CUDA error"),
    "loader": ("memory", "out of memory: its process ended with exit code 127"),
    "refuse": ("refused", "a forward pass needs tokens"),
    "bug": ("refused", "ZeroDivisionError: by nothing"),
    "endless": ("refused", "RecursionError: maximum recursion depth"),
    "exit": ("crashed", "exit code 3: Segmentation of something"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_what_went_wrong_is_told(kind: str) -> None:
    fault, words = FAULTS[kind]
    outcome = run_task(task("go_wrong", kind=kind))
    assert outcome.fault == fault
    assert words in outcome.reason


def test_the_error_is_named_and_its_traceback_kept() -> None:
    outcome = run_task(task("go_wrong", kind="bug"))
    assert outcome.error == "ZeroDivisionError"
    assert "trouble(argument" in outcome.last_words


def test_a_child_that_has_refused_one_task_runs_the_next() -> None:
    found: list[Outcome | None] = []
    with child() as one:
        for kind in ("refuse", "fine"):
            one.begin(task("go_wrong", kind=kind))
            found.append(one.wait())
    assert [outcome and outcome.fault for outcome in found] == ["refused", ""]


def test_a_function_that_is_not_there_is_told() -> None:
    outcome = run_task(Task("a", "no.such:thing", {}))
    assert (outcome.fault, outcome.error) == ("refused", "UsageError")
    assert "no function 'no.such:thing'" in outcome.problem


# Bounds -----------------------------------------------------------------------


def test_what_takes_too_long_is_ended_with_all_that_it_has_started() -> None:
    heard: list[Progress] = []
    with child(on_progress=heard.append) as one:
        one.begin(task("hang_with_a_child"))
        while not heard:
            assert one.wait(0.01) is None
    for pid in heard[0].text.split():
        wait_until_gone(int(pid))
    outcome = run_task(task("go_wrong", Bounds(wall_s=0.1), kind="hang"))
    assert (outcome.fault, outcome.problem) == ("timeout", "took longer than 0.1 s")


def test_time_that_is_spent_waiting_for_others_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    heard: list[str] = []
    real, passed_s = time.monotonic, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: real() + passed_s)
    with child(on_progress=lambda step: heard.append(step.text)) as one:
        one.begin(task("wait_then_hang", Bounds(wall_s=300), until=str(gate)))
        while heard != ["waiting"]:
            assert one.wait(0.01) is None
        passed_s += 1000
        assert one.wait(0.01) is None
        gate.touch()
        while heard != ["waiting", "begun"]:
            assert one.wait(0.01) is None
        passed_s += 1000
        outcome = one.wait()
    assert outcome is not None
    assert outcome.problem == "took longer than 300 s"


def test_too_much_cpu_time_is_a_timeout() -> None:
    outcome = run_task(task("spin", Bounds(cpu_s=0)))
    assert outcome.fault == "timeout"
    assert "CPU time" in outcome.problem


def test_no_file_grows_past_its_limit(tmp_path: Path) -> None:
    bounds, path = Bounds(file_bytes=10_000), tmp_path / "big"
    outcome = run_task(task("write_a_file", bounds, path=str(path)))
    assert outcome.payload == b"File too large"
    assert path.stat().st_size <= 10_000


def test_memory_is_limited() -> None:
    assert run_task(task("take_memory")).fault == "memory"


def test_a_task_gives_way_to_other_sessions_too() -> None:
    outcome = run_task(task("lets_others_go_first", nice=7))
    assert outcome.payload is not None
    own, of_session = json.loads(outcome.payload)
    assert own == min(os.nice(0) + 7, 19)
    assert of_session in ("7", None)  # not every kernel has it


def test_a_result_past_its_limit_is_refused() -> None:
    bounds = Bounds(result_bytes=5)
    outcome = run_task(task("hundred_reports", bounds, length=6))
    assert (outcome.fault, outcome.error) == ("refused", "LimitError")


def test_the_environment_and_the_folder_are_what_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "of ours")
    with child(environment={"GIVEN": "1"}, folder=tmp_path) as one:
        one.begin(task("environment"))
        outcome = one.wait()
    assert outcome is not None
    assert outcome.payload is not None
    seen = json.loads(outcome.payload)
    assert seen["GIVEN"] == "1"
    assert seen["folder"] == str(tmp_path)
    assert "A_SECRET" not in seen


# Its end ----------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_a_child_that_cannot_start_leaves_nothing_open(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Child(folder=tmp_path / "gone")
    gc.collect()


def test_a_child_ends_with_its_parent(log: Path) -> None:
    code = (
        "import os, signal, time\n"
        "from irene.work.child import Child\n"
        "from irene.work.task import Task\n"
        f"argument = {{'words': 'a', 'until': '/no/such/file'}}\n"
        "child = Child()\n"
        f"child.begin(Task('a', '{HERE}:echo', argument))\n"
        "log = os.environ['MADE_UP_LOG']\n"
        "while not os.path.exists(log) or not open(log).read(): time.sleep(0.01)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    wait_until_gone(int(noted(log)[0].split()[2]))


def test_an_idle_child_ends_with_its_parent() -> None:
    code = (
        "import os, signal, sys\n"
        "from irene.work.child import Child\n"
        "from irene.work.task import Task\n"
        "child = Child()\n"
        f"child.begin(Task('a', '{HERE}:go_wrong', {{'kind': ''}}))\n"
        "child.wait()\n"
        "print(child.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, stdout=subprocess.PIPE
    )
    wait_until_gone(int(done.stdout))


def test_a_killed_child_tells_whoever_waits_for_it(log: Path) -> None:
    with child() as one:
        one.begin(task("echo", words="a", until="/no/such/file"))
        while not noted(log):
            assert one.wait(0.01) is None
        os.kill(one.process.pid, signal.SIGKILL)
        outcome = one.wait()
    assert outcome is not None
    assert outcome.fault == "killed"
