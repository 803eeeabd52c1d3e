"""Backup: everything that a server keeps in one file, and back again.

The file is a SQLite database with the tables of the store, whichever database that is;
so it also moves a server from one kind to the other. It is made while the server runs,
as of one moment.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import SQLAlchemyError

from irene.errors import UsageError
from irene.serve.store.engine import METADATA, Store, open_store
from irene.whole_file import whole_file

FILES = ("server-id", "tokens.json")
"""What of the folder goes along: whose the jobs are, and the digests of tokens."""
ROWS = 200


def back_up(store: Store, folder: Path, target: Path) -> None:
    """Write all of a store to a file, which appears when it is whole."""
    if target.exists():
        raise UsageError(f"{target} is there already: choose another name")
    try:
        with tempfile.TemporaryDirectory(dir=target.absolute().parent) as made:
            copy = Path(made) / "backup.sqlite"
            copy.touch(0o600)
            if store.is_sqlite:
                _copy_file(Path(str(store.engine.url.database)), copy)
            else:
                _copy_rows(store, copy)
            _add_files(copy, folder)
            copy.replace(target)
    except (OSError, sqlite3.Error, SQLAlchemyError) as error:
        raise UsageError(f"cannot write the backup {target}: {error}") from error


def _add_files(copy: Path, folder: Path) -> None:
    with closing(sqlite3.connect(copy)) as made, made:
        made.execute("PRAGMA journal_mode=DELETE")
        made.execute("CREATE TABLE backup_files (name TEXT, body TEXT)")
        for name in FILES:
            if (path := folder / name).is_file():
                row = (name, path.read_text(encoding="utf-8"))
                made.execute("INSERT INTO backup_files VALUES (?, ?)", row)


def _copy_file(source: Path, copy: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)


def _copy_rows(store: Store, copy: Path) -> None:
    with (
        closing(open_store(f"sqlite:///{copy}")) as new,
        store.engine.connect() as old,
        new.engine.begin() as written,
    ):
        # All tables as of one moment, whatever is written meanwhile.
        snapshot = old.execution_options(isolation_level="REPEATABLE READ")
        _copy_tables(snapshot, written)


def _copy_tables(old: Connection, new: Connection) -> None:
    for table in METADATA.sorted_tables:
        rows = old.execution_options(yield_per=ROWS).execute(select(table))
        for some in rows.mappings().partitions(ROWS):
            new.execute(insert(table), [dict(row) for row in some])


def restore(source: Path, store_url: str, folder: Path) -> dict[str, int]:
    """Put a backup into a store that is empty.

    Returns:
        How many rows each table has.
    """
    if not source.is_file():
        raise UsageError(f"there is no {source}")
    there = [name for name in FILES if (folder / name).exists()]
    if there:
        raise UsageError(f"{folder} is in use (it has {there[0]}): choose an empty one")
    with tempfile.TemporaryDirectory() as made:
        copy = Path(made) / "backup.sqlite"
        files = _checked_copy(source, copy)
        try:
            with (
                closing(open_store(f"sqlite:///{copy}")) as old,
                closing(open_store(store_url)) as new,
                old.engine.connect() as read,
                new.engine.begin() as write,
            ):
                _check_empty(write)
                _copy_tables(read, write)
                found = _counts(write)
        except SQLAlchemyError as error:
            raise UsageError(f"cannot restore {source}: {error}") from error
    for name, body in files.items():
        with whole_file(folder / name, mode=0o600) as file:
            file.write(body.encode())
    return found


def _checked_copy(source: Path, copy: Path) -> dict[str, str]:
    """A copy that may be brought up to date, and the files of the folder."""
    try:
        _copy_file(source, copy)
        with closing(sqlite3.connect(copy)) as made:
            (state,) = made.execute("PRAGMA integrity_check").fetchone()
            if state != "ok":
                raise UsageError(f"{source} is damaged: {state[:200]}")
            files = dict(made.execute("SELECT name, body FROM backup_files"))
    except sqlite3.Error as error:
        raise UsageError(f"{source} is no backup of a server: {error}") from error
    if "tokens.json" in files:
        json.loads(files["tokens.json"])
    return {name: str(body) for name, body in files.items() if name in FILES}


def _check_empty(connection: Connection) -> None:
    full = [name for name, count in _counts(connection).items() if count]
    if full:
        raise UsageError(f"the store has {full[0]} already: choose an empty one")


def _counts(connection: Connection) -> dict[str, int]:
    return {
        table.name: int(
            connection.execute(select(func.count()).select_from(table)).scalar_one()
        )
        for table in METADATA.sorted_tables
    }
