"""Servers that are killed: what they accepted is done, once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from irene.serve.http.settings import Settings
from irene.serve.store import Store, open_store
from irene.serve.store.job_records import JobRecords

from ..patience import first_line, until
from .conftest import Start, ended
from .job_server import REQUEST

ROOT = Path(__file__).resolve().parents[3]
Server = subprocess.Popen[str]


@pytest.fixture(params=["sqlite", "postgres"])
def where(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    if request.param == "sqlite":
        return settings
    return replace(settings, store_url=request.getfixturevalue("postgres_url"))


@pytest.fixture
def serve(where: Settings) -> Iterator[Callable[[int], Server]]:
    """Starts servers of one data folder and one store."""
    servers: list[Server] = []

    def begin(jobs: int) -> Server:
        path = os.pathsep.join([str(ROOT), *sys.path])
        words = [str(where.data_dir), where.store_url or "", str(jobs)]
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.serve.jobs.job_server", *words],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        servers.append(server)
        return server

    yield begin
    for server in servers:
        server.kill()
        server.communicate(timeout=240)


def lines(path: Path) -> list[list[str]]:
    text = path.read_text(encoding="ascii") if path.exists() else ""
    return [line.split() for line in text.splitlines()]


def test_every_job_is_done_once_by_whichever_server_lives(
    where: Settings, serve: Callable[[int], Server]
) -> None:
    begun, done = where.data_dir / "begun", where.data_dir / "done"
    first = serve(3)
    keys = first_line(first).split()
    until(lambda: len(lines(begun)) >= 2, "as many have begun as run at a time")
    second = serve(2)
    keys += first_line(second).split()
    first.kill()
    until(lambda: len(lines(begun)) >= 4, "the second one has begun them again")
    for _, pid in lines(begun)[:2]:
        until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), "they end with it")
    (where.data_dir / "gate").touch()
    store = open_store(where.database_url)
    records = JobRecords(store.engine)

    def all_ended() -> bool:
        return not any(records.state(key) in ("queued", "running") for key in keys)

    until(all_ended, "all jobs have ended")
    found = [records.get(key) for key in keys]
    assert [record and record.state for record in found] == ["succeeded"] * 5
    assert [record and record.attempts for record in found] == [2, 2, 1, 1, 1]
    assert Counter(key for (key,) in lines(done)) == Counter(keys)
    store.close()


def test_an_end_that_a_killed_server_has_not_announced_is_announced(
    start: Start, settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        "irene.serve.jobs.execution.notify",
        lambda record, settings, sleep: told.append(record.id),
    )
    records = JobRecords(store.engine)
    server = start(settings)
    dead = records.add("d" * 32, server._server, REQUEST, 9)
    records.begin(dead.id)
    records.fail(dead.id, {"status": 500})  # and nothing more: it was killed here
    until(lambda: not records.unannounced(server._server), "it is announced")
    assert told == [dead.id]
    gone = records.add("e" * 32, server._server, REQUEST, 9)
    records.cancel(gone.id)
    assert ended(server, gone.id).state == "cancelled"
    assert not records.unannounced(server._server)
