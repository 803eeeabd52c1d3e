from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from irene.errors import UsageError
from irene.serve.answers.storage import Answers
from irene.serve.http.problems import Problem
from irene.serve.http.settings import Limits, Settings
from irene.serve.jobs import execution
from irene.serve.jobs.runner import JobRunner
from irene.serve.store import Store, open_store
from irene.serve.store.job_records import JobRecord

from ..full_disk import FullDisk
from ..patience import until
from .conftest import Start, ended, reached
from .job_server import REQUEST
from .programs import ENDLESS, FAILING, QUICK

Choose = Callable[[str], None]
pytestmark = pytest.mark.usefixtures("small_program")


@pytest.mark.parametrize("store_url", [None, "postgres_url"])
def test_a_job_ends_with_an_answer_that_is_kept(
    settings: Settings, store_url: str | None, request: pytest.FixtureRequest
) -> None:
    if store_url is not None:
        settings = replace(settings, store_url=request.getfixturevalue(store_url))
    store = open_store(settings.database_url)
    runner = JobRunner(settings, store)
    runner.start()
    try:
        check_a_job(runner, store)
    finally:
        asyncio.run(runner.stop())
        store.close()
    assert list((settings.data_dir / "scratch").iterdir()) == []


def check_a_job(runner: JobRunner, store: Store) -> None:
    record = ended(runner, runner.submit(REQUEST).id)
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert record.result_key is not None
    answer = Answers(store).get(record.result_key)
    assert answer is not None
    assert b"bert-l2-h128" in answer.body


def test_a_failure_says_why(
    start: Start, settings: Settings, small_program: Choose
) -> None:
    small_program(FAILING)
    runner = start(settings)
    record = ended(runner, runner.submit(REQUEST).id)
    assert record.state == "failed"
    assert record.error is not None
    assert record.error["status"] == 400
    assert record.error["detail"] == "no such layer"


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("buggy", 500, "unexpected ZeroDivisionError"),
        ("killed", 413, "needs more memory than 4,000,000,000 bytes"),
    ],
)
def test_a_process_that_goes_wrong_is_told_without_its_inner_life(
    start: Start,
    settings: Settings,
    small_program: Choose,
    name: str,
    status: int,
    words: str,
) -> None:
    small_program(name)
    runner = start(settings)
    record = ended(runner, runner.submit(REQUEST).id)
    assert record.error is not None
    assert record.error["status"] == status
    assert words in record.error["detail"]
    assert "inner life" not in record.error["detail"]
    assert record.attempts == (3 if name == "killed" else 1)  # it may have been chance


def test_secrets_of_the_server_stay_there(
    start: Start,
    settings: Settings,
    store: Store,
    small_program: Choose,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("IRENE_TOKEN", "a secret of ours")
    small_program("environment")
    runner = start(settings)
    record = ended(runner, runner.submit(REQUEST).id)
    assert record.result_key is not None
    answer = Answers(store).get(record.result_key)
    assert answer is not None
    assert b"a secret of ours" not in answer.body
    assert b"HF_HUB_OFFLINE" in answer.body


def test_a_job_that_takes_too_long_is_ended(
    start: Start, settings: Settings, small_program: Choose
) -> None:
    small_program(ENDLESS)
    runner = start(replace(settings, limits=Limits(job_seconds=0.5)))
    record = ended(runner, runner.submit(REQUEST).id)
    assert record.error is not None
    assert record.error["status"] == 504
    assert "0.5 s" in record.error["detail"]


def test_jobs_that_wait_and_that_run_are_cancelled(
    start: Start, settings: Settings, small_program: Choose
) -> None:
    small_program(ENDLESS)
    runner = start(settings)
    keys = [runner.submit(REQUEST).id for _ in range(4)]
    running = reached(runner, keys[0], is_half_way)
    for key in keys:
        cancelled = runner.cancel(key)
        assert cancelled is not None
        assert cancelled.state == "cancelled"
    pid = int(running.progress["text"].split()[1])
    until(lambda: not is_there(pid), "its process has ended")
    small_program(QUICK)
    assert ended(runner, runner.submit(REQUEST).id).state == "succeeded"
    assert {runner.records.state(key) for key in keys} == {"cancelled"}


def is_half_way(record: JobRecord) -> bool:
    return str(record.progress["text"]).startswith("half")


def is_there(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_a_full_queue_takes_no_more(store: Store, settings: Settings) -> None:
    runner = JobRunner(replace(settings, limits=Limits(jobs=2)), store)
    runner.submit(REQUEST)
    runner.submit(REQUEST)
    with pytest.raises(Problem, match="2 jobs wait"):
        runner.submit(REQUEST)
    assert runner.records.count()["queued"] == 2


def test_a_stopped_server_goes_on_when_it_is_started_again(
    start: Start, settings: Settings, small_program: Choose
) -> None:
    small_program(ENDLESS)
    first = start(settings)
    keys = [first.submit(REQUEST).id for _ in range(3)]
    reached(first, keys[0], is_half_way)
    asyncio.run(first.stop())
    assert {first.records.state(key) for key in keys} <= {"running", "queued"}
    small_program(QUICK)
    second = start(settings)
    assert {ended(second, key).state for key in keys} == {"succeeded"}


def test_a_job_of_a_server_that_never_handed_it_over_is_run(
    start: Start, settings: Settings, store: Store
) -> None:
    # As if it had been killed between its answer 202 and anything else.
    key = JobRunner(settings, store).submit(REQUEST).id
    assert ended(start(settings), key).state == "succeeded"


def test_a_job_that_brings_the_server_down_again_and_again_is_given_up(
    start: Start, settings: Settings, store: Store
) -> None:
    dead = JobRunner(settings, store)
    key = dead.submit(REQUEST).id
    for _ in range(10):
        dead.records.begin(key)
    record = ended(start(settings), key)
    assert record.state == "failed"
    assert record.error is not None
    assert "10 times" in record.error["detail"]


def test_killed_servers_are_no_sign_that_a_job_is_too_large(
    start: Start, settings: Settings, store: Store, small_program: Choose
) -> None:
    dead = JobRunner(settings, store)
    key = dead.submit(REQUEST).id
    for _ in range(4):
        dead.records.begin(key)
    small_program("killed")
    assert ended(start(settings), key).attempts == 4 + 3


def test_a_result_waits_while_the_disk_is_full(
    start: Start,
    settings: Settings,
    store: Store,
    small_program: Choose,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_program("large")
    disk = FullDisk(store.engine)
    runner = start(settings)
    key = runner.submit(REQUEST).id
    disk.fill()
    refused = threading.Event()
    monkeypatch.setattr(execution.logger, "error", lambda words, *more: refused.set())
    assert refused.wait(60)
    assert runner.records.state(key) == "running"
    disk.make_room()
    record = ended(runner, key)
    assert (record.state, record.attempts) == ("succeeded", 1)
    assert record.result_key is not None
    assert Answers(store).get(record.result_key) is not None


def test_a_link_in_place_of_the_scratch_folder_is_not_followed(
    start: Start, settings: Settings, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (settings.data_dir / "scratch").symlink_to(elsewhere)
    runner = start(settings)
    record = ended(runner, runner.submit(REQUEST).id)
    assert record.state == "failed"
    assert record.error is not None
    assert "symbolic link" in record.error["detail"]
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["jobs.lock", "server-id"])
def test_a_link_in_place_of_a_file_of_ours_is_not_followed(
    store: Store, settings: Settings, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "target"
    (settings.data_dir / name).symlink_to(target)
    with pytest.raises(UsageError):
        JobRunner(settings, store).start()
    assert not target.exists()
