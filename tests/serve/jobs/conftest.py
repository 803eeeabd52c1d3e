"""A store in a temporary folder, and jobs whose program is small."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from irene.serve.http.settings import Settings
from irene.serve.jobs import execution
from irene.serve.jobs.runner import JobRunner
from irene.serve.store import Store, open_store
from irene.serve.store.job_records import JobRecord

from ..patience import until
from .programs import QUICK, call

Start = Callable[[Settings], JobRunner]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    opened = open_store(settings.database_url)
    yield opened
    opened.close()


@pytest.fixture
def small_program(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def choose(name: str) -> None:
        for kind in execution.WORK:
            monkeypatch.setitem(execution.WORK, kind, call(name))

    choose(QUICK)
    return choose


@pytest.fixture
def start(store: Store) -> Iterator[Start]:
    """Starts runners, and stops those that are left at the end."""
    runners: list[JobRunner] = []

    def begin(settings: Settings) -> JobRunner:
        runners.append(JobRunner(settings, store))
        runners[-1].start()
        return runners[-1]

    yield begin
    for runner in runners:
        asyncio.run(runner.stop())


def ended(runner: JobRunner, key: str, seconds: float = 240) -> JobRecord:
    """The job when nothing changes any more."""
    return reached(runner, key, lambda record: record.is_final, seconds)


def reached(
    runner: JobRunner,
    key: str,
    is_there: Callable[[JobRecord], bool],
    seconds: float = 240,
) -> JobRecord:
    """The job when it is as it should be."""

    def found() -> JobRecord | None:
        record = runner.records.get(key)
        assert record is not None
        return record if is_there(record) else None

    return until(found, f"a state of job {key}", seconds)
