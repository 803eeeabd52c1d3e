from __future__ import annotations

import gzip
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from irene.errors import UsageError
from irene.serve.answers.storage import ANSWERS, Answers
from irene.serve.store import Store, open_store
from irene.serve.uploads.storage import Uploads

from ..patience import first_line

BODY = b'{"schema":"irene.tree/1"}' * 40


def new_key() -> str:
    return uuid.uuid4().hex


def test_an_answer_comes_back_as_it_was(either_store: Store) -> None:
    answers, key = Answers(either_store), new_key()
    assert answers.get(key) is None
    answers.put(key, BODY, "text/csv", question='{"question":"tree"}')
    found = answers.get(key)
    assert found is not None
    assert found.body == BODY
    assert (b"content-type", b"text/csv") in found.headers
    assert found.packed is not None
    assert gzip.decompress(found.packed) == BODY
    with either_store.engine.connect() as connection:
        asked = select(ANSWERS.c.question).where(ANSWERS.c.key == key)
        assert connection.execute(asked).scalar() == '{"question":"tree"}'


def test_an_answer_waits_for_no_disk_and_all_else_does(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.sqlite'}")
    told: list[int] = []

    def note(connection: sqlite3.Connection) -> None:
        told.append(connection.execute("PRAGMA synchronous").fetchone()[0])

    @event.listens_for(store.engine, "commit")
    def on_commit(connection: Connection) -> None:
        note(connection.connection.driver_connection)  # type: ignore[arg-type]

    Answers(store).put(new_key(), BODY)
    Uploads(store.engine).put("config", "mine", b"{}")
    with pytest.raises(SQLAlchemyError):
        Answers(store).put(new_key(), BODY, question=None)  # type: ignore[arg-type]
    Uploads(store.engine).put("config", "mine", b"[]")
    assert told == [1, 2, 2]  # NORMAL, FULL, FULL
    store.close()


def test_the_first_answer_under_a_key_stays(either_store: Store) -> None:
    answers, key = Answers(either_store), new_key()
    answers.put(key, BODY)
    answers.put(key, b"another")
    found = answers.get(key)
    assert found is not None
    assert found.body == BODY


def test_an_answer_is_there_after_the_store_was_closed(either_url: str) -> None:
    key = new_key()
    for is_first in (True, False):
        store = open_store(either_url)
        if is_first:
            Answers(store).put(key, BODY)
        assert Answers(store).get(key) is not None
        store.close()


@pytest.mark.parametrize(
    "damaged",
    [gzip.compress(b"something else", mtime=0), b"not gzip", b"", BODY],
    ids=["another answer", "no gzip", "nothing", "not packed"],
)
def test_a_damaged_row_is_dropped_and_never_served(
    either_store: Store, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answers, key = Answers(either_store), new_key()
    answers.put(key, BODY)
    with either_store.engine.begin() as connection:
        row = update(ANSWERS).where(ANSWERS.c.key == key)
        connection.execute(row.values(body=damaged))
    with caplog.at_level(logging.WARNING):
        assert answers.get(key) is None
    assert key in caplog.text
    answers.put(key, BODY)
    found = answers.get(key)
    assert found is not None
    assert found.body == BODY


def test_the_longest_unused_make_room(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.sqlite'}")
    answers = Answers(store, most_bytes=5_000)
    keys = [new_key() for _ in range(8)]
    for key in keys:
        answers.put(key, os.urandom(1_000))
    before = store.size_bytes()
    assert answers.prune() > 0
    left = [key for key in keys if answers.get(key) is not None]
    assert left
    assert left == keys[-len(left) :]
    assert store.size_bytes() < before  # the file gives the room back
    store.close()


def test_many_writers_at_once_lose_nothing(either_url: str) -> None:
    stores = [open_store(either_url) for _ in range(3)]
    keys: list[str] = []

    def write(store: Store) -> None:
        for _ in range(15):
            key = new_key()
            Answers(store).put(key, BODY)
            keys.append(key)

    threads = [threading.Thread(target=write, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(keys) == 45
    assert all(Answers(stores[0]).get(key) is not None for key in keys)
    for store in stores:
        store.close()


def test_stores_that_are_opened_at_once_make_their_tables_once(either_url: str) -> None:
    errors: list[Exception] = []

    def open_one() -> None:
        try:
            open_store(either_url).close()
        except UsageError as error:
            errors.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []


WRITER = """
import os, sys, uuid
from irene.serve.store import open_store
from irene.serve.answers.storage import Answers
answers = Answers(open_store(sys.argv[1]))
while True:
    key = uuid.uuid4().hex
    answers.put(key, key.encode() * 3000)
    print(key, flush=True)
"""


def test_a_writer_that_is_killed_leaves_a_good_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.sqlite'}"
    told: list[str] = []
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True
        ) as writer:
            told += [first_line(writer).strip() for _ in range(20)]
            time.sleep(0.01)
            writer.send_signal(signal.SIGKILL)
    store = open_store(url)
    with store.engine.connect() as connection:
        assert connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
    answers = Answers(store)
    for key in told:
        found = answers.get(key)
        assert found is not None
        assert found.body == key.encode() * 3000
    answers.put(new_key(), BODY)
    store.close()


def test_a_full_disk_is_told_and_what_was_there_stays(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.sqlite'}")
    answers, key = Answers(store), new_key()
    answers.put(key, BODY)

    def fill(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count=1")  # no page more than there are

    event.listen(store.engine, "connect", fill)
    store.engine.dispose()
    with pytest.raises(SQLAlchemyError, match="full"):
        answers.put(new_key(), os.urandom(100_000))
    found = answers.get(key)
    assert found is not None
    assert found.body == BODY
    store.close()


@pytest.mark.parametrize(
    "url",
    ["nonsense", "nosuch://x/y", "postgresql://nobody@127.0.0.1:1/none"],
)
def test_a_store_that_cannot_be_opened_says_so(url: str) -> None:
    with pytest.raises(UsageError, match="cannot open the store"):
        open_store(url)


def test_a_database_without_an_encoding_is_told(postgres_url: str) -> None:
    with closing(open_store(postgres_url)) as store:
        engine = store.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(
                text(
                    "CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0 "
                    "LC_COLLATE 'C' LC_CTYPE 'C'"
                )
            )
    with pytest.raises(UsageError, match="UTF8"):
        open_store(postgres_url.replace("/postgres?", "/plain?"))


def test_a_password_is_not_told() -> None:
    with pytest.raises(UsageError) as told:
        open_store("postgresql://irene:secret@127.0.0.1:1/none")
    assert "secret" not in str(told.value)
