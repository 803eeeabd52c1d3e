from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from irene.errors import ConfigError, UnknownModelError, UsageError
from irene.questions import AskEnergy
from irene.serve.answers.answering import Answering
from irene.serve.answers.memory import Memory
from irene.serve.answers.question import Inquiry
from irene.serve.answers.storage import Answers
from irene.serve.computing.pool import Pool, error_of
from irene.serve.computing.turns import Waiting
from irene.serve.http.problems import Problem
from irene.serve.http.settings import Limits
from irene.serve.store import open_store
from irene.work.task import Outcome

SMALL = {"model": "bert-l2-h128", "hardware": "pc1", "seq_len": 16}
SECRET = "a secret of ours"


class Running:
    """A pool of one process, on a loop that outlives a test."""

    def __init__(self, runner: asyncio.Runner, pool: Pool, ended: list[str]) -> None:
        self.runner, self.pool, self.ended = runner, pool, ended

    def ask(self, question: str, arguments: dict[str, Any]) -> Any:
        reply = self.runner.run(self.pool.ask(question, arguments))
        return json.loads(reply.body)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    ended: list[str] = []
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRENE_TOKEN", SECRET)

        async def begin() -> Pool:
            pool = Pool(1, Limits(seconds=600, queue=3), on_end=ended.append)
            pool.start()
            await pool.ready()
            return pool

        pool = runner.run(begin())
        yield Running(runner, pool, ended)
        runner.run(pool.stop())


def energy(values: dict[str, Any]) -> Inquiry:
    return Inquiry(AskEnergy.asked(values))


def never_gone() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


def test_a_process_answers_one_question_after_another(running: Running) -> None:
    first = running.ask("energy", SMALL)
    again = running.ask("energy", SMALL)
    assert first == again
    assert first["spec"]["seq_len"] == 16


def test_secrets_of_the_server_stay_there(running: Running) -> None:
    (process,) = running.pool.processes
    seen = Path(f"/proc/{process.process.pid}/environ").read_bytes()
    assert b"HF_HUB_OFFLINE" in seen
    assert SECRET.encode() not in seen


def test_pytorch_is_loaded_by_the_first_question_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # no template is there
    config = {"model_type": "bert", "num_hidden_layers": 1}
    traced = {**SMALL, "model": "upload:x", "configs": {"upload:x": config}}

    async def tried() -> list[bool]:
        pool = Pool(1, Limits(seconds=600))
        pool.start()
        await pool.ready()
        (process,) = pool.processes
        maps, found = Path(f"/proc/{process.process.pid}/maps"), []
        for asked in (SMALL, traced):
            await pool.ask("energy", asked)
            found.append("libtorch" in maps.read_text())
        await pool.stop()
        return found

    assert asyncio.run(tried()) == [False, True]


def test_a_mistake_comes_back_as_what_it_is(running: Running) -> None:
    with pytest.raises(UnknownModelError, match="no-such"):
        running.ask("energy", {**SMALL, "model": "no-such"})
    with pytest.raises(UsageError, match="nothing to vary"):
        running.ask("what-if", SMALL)
    assert running.ask("energy", SMALL)


def test_a_path_is_not_a_model(running: Running, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 1}))
    for name in (str(config), str(tmp_path), "config.json"):
        with pytest.raises(UnknownModelError):
            running.ask("energy", {**SMALL, "model": name})


def test_a_config_that_comes_along_is_one(running: Running) -> None:
    fields = {"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 24,
              "num_attention_heads": 2, "intermediate_size": 48}  # fmt: skip
    found = running.ask(
        "energy", {**SMALL, "model": "upload:x", "configs": {"upload:x": fields}}
    )
    assert found["spec"]["model"] == "upload:x"
    for wrong in ({"architectures": 1e308}, {"torch_dtype": "hub"}):
        name = f"upload:{list(wrong)}"  # named by its content: another one
        configs = {name: fields | wrong}
        with pytest.raises(ConfigError):
            running.ask("energy", {**SMALL, "model": name, "configs": configs})


def test_equal_questions_are_answered_from_the_store_after_that(
    running: Running, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.sqlite'}")
    origins: list[str] = []

    def answering() -> Answering:
        return Answering(
            running.pool, Answers(store), Memory(1_000_000),
            lambda origin, seconds: origins.append(origin),
        )  # fmt: skip

    question = energy(SMALL)
    first = running.runner.run(answering().ask(question, never_gone))
    second = running.runner.run(answering().ask(question, never_gone))
    assert origins == ["computed", "store"]
    assert first.body == second.body
    assert second.packed is not None
    assert gzip.decompress(second.packed) == first.body
    store.close()


def test_an_answer_is_given_when_the_disk_is_full(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.sqlite'}")

    def fill(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count=1")  # no page more than there are

    event.listen(store.engine, "connect", fill)
    store.engine.dispose()
    answering = Answering(running.pool, Answers(store), Memory(1_000_000))
    with caplog.at_level(logging.ERROR):
        large = energy({**SMALL, "fold": False, "level": "math"})
        ready = running.runner.run(answering.ask(large, never_gone))
    assert json.loads(ready.body)["energy_j"] > 0
    assert "could not be stored" in caplog.text
    assert b"content-location" not in dict(ready.headers)
    store.close()


def test_a_question_that_nobody_waits_for_is_not_begun(
    running: Running, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.sqlite'}")
    origins: list[str] = []

    async def leave_early() -> None:
        answering = Answering(
            running.pool, Answers(store), Memory(1_000_000),
            lambda origin, seconds: origins.append(origin),
        )  # fmt: skip

        def gone() -> asyncio.Future[None]:
            future = asyncio.get_running_loop().create_future()
            future.set_result(None)
            return future

        process = await running.pool._turn(Waiting("another", False))  # the only one
        with pytest.raises(Problem) as left:
            await answering.ask(energy({**SMALL, "fold": False}), gone)
        assert left.value.status == 499
        async with asyncio.timeout(60):
            while running.pool.waiting:
                await asyncio.sleep(0)
        running.pool._free(process)

    running.runner.run(leave_early())
    assert origins == []
    assert running.ended == []
    store.close()


def test_what_is_large_is_prepared_when_the_turn_has_come(running: Running) -> None:
    steps: list[str] = []

    @contextmanager
    def prepared() -> Iterator[dict[str, Any]]:
        steps.append("made")
        yield SMALL
        steps.append("gone")

    @contextmanager
    def lost() -> Iterator[dict[str, Any]]:
        raise UsageError("it is not there any more")
        yield SMALL

    async def go() -> None:
        process = await running.pool._turn(Waiting("another", False))  # the only one
        waiting = asyncio.create_task(running.pool.ask("energy", prepared))
        while not running.pool.waiting:
            await asyncio.sleep(0)
        assert steps == []
        running.pool._free(process)
        assert json.loads((await waiting).body)["energy_j"] > 0
        assert steps == ["made", "gone"]
        with pytest.raises(UsageError, match="not there"):
            await running.pool.ask("energy", lost)
        assert running.pool._idle == [process]  # it has done nothing wrong

    running.runner.run(go())


def test_too_many_waiting_questions_are_refused(running: Running) -> None:
    async def crowd() -> list[Any]:
        asked = [running.pool.ask("energy", SMALL) for _ in range(6)]
        return await asyncio.gather(*asked, return_exceptions=True)

    found = running.runner.run(crowd())
    refused = [each for each in found if isinstance(each, Problem)]
    assert refused
    assert {each.status for each in refused} == {503}
    assert refused[0].headers["Retry-After"]
    assert running.ask("energy", SMALL)


def test_lost_late_and_greedy_processes_are_replaced(running: Running) -> None:
    """One test, because each of them costs a new process."""
    (process,) = running.pool.processes

    async def lose() -> None:
        task = asyncio.create_task(running.pool.ask("energy", {**SMALL, "fold": False}))
        os.kill(process.process.pid, signal.SIGKILL)
        with pytest.raises(Problem) as lost:
            await task
        assert lost.value.status == 503

    running.runner.run(lose())
    assert running.ask("energy", SMALL)  # by a new process

    running.pool.limits = Limits(seconds=0.2)
    traced = {"model_type": "bert", "num_hidden_layers": 1, "vocab_size": 30_011}
    slow = {**SMALL, "model": "upload:slow", "configs": {"upload:slow": traced}}
    with pytest.raises(Problem) as late:
        running.ask("energy", slow)
    assert late.value.status == 504
    running.pool.limits = Limits(seconds=600)
    assert running.ask("energy", SMALL)
    assert running.ended == ["lost", "time"]


def test_a_reply_without_memory_is_a_limit() -> None:
    outcome = Outcome("energy", fault="memory", problem="MemoryError")
    error = error_of(outcome, Limits())
    assert isinstance(error, Problem)
    assert error.status == 413


def test_nobody_waits_for_ever() -> None:
    async def wait() -> int:
        pool = Pool(1, Limits(waiting_s=0.01))  # no process of it ever starts
        with pytest.raises(Problem, match="no process was free") as late:
            await pool.ask("energy", SMALL)
        assert not pool.waiting
        return late.value.status

    assert asyncio.run(asyncio.wait_for(wait(), 20)) == 503
