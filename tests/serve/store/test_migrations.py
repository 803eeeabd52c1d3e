"""Folders of older servers open, those of newer ones are refused."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from irene.errors import UsageError
from irene.serve.answers.storage import Answers
from irene.serve.store import Store, open_store
from irene.serve.store.job_records import JobRecords
from irene.serve.store.migrations import CURRENT, touch, version_of
from irene.serve.uploads.storage import Uploads

OLD = Path(__file__).with_name("version-1.sqlite.gz")
"""What a server of the first version left when it was killed: an answer, a config, a
job that had failed and one that waited, and the tables of the engine it had."""
SERVER = "b2717bc663404d70a7fb4eafed9812d9"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "irene.sqlite"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    return path


def test_an_older_store_is_brought_up(old: Path) -> None:
    with closing(sqlite3.connect(old)) as raw:
        ((answer,),) = raw.execute("SELECT key FROM answers").fetchall()
        ((upload,),) = raw.execute("SELECT id FROM uploads").fetchall()
    for _ in range(2):  # and opens again
        with closing(open_store(f"sqlite:///{old}")) as store:
            assert Answers(store).get(answer) is not None
            assert Uploads(store.engine).get(upload) is not None
            records = JobRecords(store.engine)
            ((key, _),) = records.open_jobs(SERVER)
            assert records.count() == {
                "queued": 1, "running": 0, "succeeded": 0, "failed": 1, "cancelled": 0,
            }  # fmt: skip
            found = records.get(key)
            assert found is not None
            assert found.owner == ""
            with store.engine.connect() as connection:
                assert version_of(connection) == CURRENT
    with closing(sqlite3.connect(old)) as raw:
        tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master")}
        assert "workflow_status" not in tables
        assert raw.execute("PRAGMA auto_vacuum").fetchone() == (2,)


def test_a_step_that_fails_leaves_the_store_as_it_was(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = old.read_bytes()

    def fail(*_: object) -> None:
        raise UsageError("no room")

    monkeypatch.setattr("irene.serve.store.migrations._drop_engine_before", fail)
    with pytest.raises(UsageError, match="no room"):
        open_store(f"sqlite:///{old}")
    monkeypatch.undo()
    with closing(sqlite3.connect(old)) as raw:
        names = {row[1] for row in raw.execute("PRAGMA table_info(jobs)")}
    assert "owner" not in names
    assert before[100:] == old.read_bytes()[100:]
    open_store(f"sqlite:///{old}").close()


def test_a_newer_store_is_refused(either_store: Store, either_url: str) -> None:
    with either_store.engine.begin() as connection:
        connection.execute(text("UPDATE store_version SET version = 99"))
    try:
        with pytest.raises(UsageError, match="update irene"):
            open_store(either_url)
    finally:
        with either_store.engine.begin() as connection:
            connection.execute(text(f"UPDATE store_version SET version = {CURRENT}"))


def test_a_store_that_lacks_a_column_is_not_opened(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'irene.sqlite'}"
    open_store(url).close()
    with closing(sqlite3.connect(tmp_path / "irene.sqlite")) as raw, raw:
        raw.execute("ALTER TABLE answers DROP COLUMN sha256")
    with pytest.raises(UsageError, match="answers has no sha256"):
        open_store(url)


def test_only_its_user_can_read_a_store(tmp_path: Path) -> None:
    path = tmp_path / "data" / "irene.sqlite"
    with closing(open_store(f"sqlite:///{path}")) as store:
        touch(store.engine)
        modes = {
            each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()
        }
    assert set(modes.values()) == {0o600}
    assert "irene.sqlite-wal" in modes
    assert path.parent.stat().st_mode & 0o777 == 0o700
