"""The database of a server: SQLite in WAL mode, or Postgres by its URL."""

from __future__ import annotations

import gzip
import hashlib
import logging
import re
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    MetaData,
    Table,
    bindparam,
    create_engine,
    event,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from irene.errors import MissingExtraError, UsageError
from irene.serve.store.migrations import bring_up_to_date

logger = logging.getLogger(__name__)
METADATA = MetaData()
"""All tables of the store."""
KEY = re.compile("[0-9a-f]{32}")
BUSY_MS = 15_000
"""How long a writer waits for another one."""
USED_S = 3_600.0
"""How often it is noted that a row is used, s: `--retain 12h` goes by it."""


@dataclass(frozen=True, slots=True)
class Store:
    """The database of a server.

    Attributes:
        engine: For statements of SQLAlchemy Core.
    """

    engine: Engine

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of this machine."""
        return self.engine.dialect.name == "sqlite"

    def shrink(self) -> None:
        """Give back to the disk what is free in the file."""
        if not self.is_sqlite:
            return
        with closing(self.engine.raw_connection()) as connection:
            # As a script: a page goes with every step, and all of them are taken.
            words = "PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);"
            connection.cursor().executescript(words)

    def size_bytes(self) -> int:
        """What the database takes on disk."""
        words = "SELECT pg_database_size(current_database())"
        if self.is_sqlite:
            words = (
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            )
        with self.engine.connect() as connection:
            return int(connection.exec_driver_sql(words).scalar_one())

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_store(url: str) -> Store:
    """Open the database; make what is missing, and bring up what is older.

    Args:
        url: Of SQLAlchemy: `sqlite:///FILE`, `postgresql://USER@HOST/NAME`.
    """
    _load_tables()
    try:
        address = make_url(url)
        if address.drivername in ("postgresql", "postgres"):
            address = address.set(drivername="postgresql+psycopg")
        if address.get_backend_name() == "sqlite" and address.database:
            _private_file(Path(address.database))
        is_file = address.get_backend_name() == "sqlite"  # which is always there
        engine = create_engine(address, pool_pre_ping=not is_file, hide_parameters=True)
    except (ArgumentError, NoSuchModuleError, OSError) as error:
        raise UsageError(f"cannot open the store: {error}") from error
    except ImportError as error:
        raise MissingExtraError(
            f"the store needs {error.name}: pip install 'irene-energy[serve]'"
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up_sqlite)
    try:
        bring_up_to_date(engine, METADATA)
    except SQLAlchemyError as error:
        engine.dispose()
        raise UsageError(
            f"cannot open the store {address.render_as_string()}: {error}"
        ) from error
    except TypeError as error:
        engine.dispose()
        if "bytes-like" not in str(error):  # as psycopg gives texts of SQL_ASCII
            raise
        raise UsageError("the database must have the encoding UTF8") from error
    except UsageError:
        engine.dispose()
        raise
    return Store(engine)


def _load_tables() -> None:
    """Have all tables in `METADATA`."""
    import irene.serve.answers.storage
    import irene.serve.store.job_records
    import irene.serve.uploads.storage  # noqa: F401


def _private_file(path: Path) -> None:
    """Make the file and its folder for this user alone; what SQLite adds is as it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(0o600)
    with suppress(PermissionError):  # somebody else's, and we may write to it
        path.chmod(0o600)


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    # The timeout first: switching to WAL wants the file for itself for a moment.
    cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")  # of a new file
    _switch_to_wal(cursor)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA cache_size=-256")  # in kB: the system has the pages, too
    cursor.close()


def _switch_to_wal(cursor: sqlite3.Cursor) -> None:
    """Ask until it is so: SQLite does not wait where two make the switch at once."""
    ends = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > ends:
                raise
            time.sleep(0.01)
        else:
            return


def is_full(error: Exception) -> bool:
    """Whether the disk is what a database complains of."""
    words = str(error).lower()
    return "full" in words or "no space" in words


def key_of(content: bytes) -> str:
    """The key that names something by its content."""
    return hashlib.sha256(content).hexdigest()[:32]


def is_key(text: str) -> bool:
    """Whether this could name an answer, an upload or a job.

    What could not is looked up nowhere: a database may refuse it (Postgres has no NUL).
    """
    return KEY.fullmatch(text) is not None


@contextmanager
def quickly(engine: Engine) -> Iterator[Connection]:
    """A transaction that waits for no disk: a power cut may take it back, whole.

    It is there when one that did wait, and came after it, is there.
    """
    is_file = engine.dialect.name == "sqlite"
    word = "PRAGMA synchronous=" if is_file else "SET LOCAL synchronous_commit="
    with engine.connect() as connection:
        connection.exec_driver_sql(f"{word}{'NORMAL' if is_file else 'off'}")
        try:
            yield connection
            connection.commit()
        finally:
            connection.rollback()
            if is_file:  # it stays open, for others
                connection.exec_driver_sql(f"{word}FULL")


def add_once(connection: Connection, table: Table, *rows: Mapping[str, Any]) -> None:
    """Add rows; those that are there already, or come at the same time, stay."""
    connection.execute(_adding(connection.dialect.name, table), rows)


def add_or_use(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    """Add a row; one that is there already is used now, and stays until this ends."""
    (name,) = table.primary_key
    adding = _inserting(connection.dialect.name, table).values(row)
    connection.execute(
        adding.on_conflict_do_update(index_elements=[name], set_={"used": row["used"]})
    )


def _inserting(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


@cache
def _adding(dialect: str, table: Table) -> Executable:
    """How rows are added: to write it down takes longer than to do it."""
    return _inserting(dialect, table).on_conflict_do_nothing()


def kept_row(
    engine: Engine, table: Table, key: str, drop: Callable[[str], None]
) -> tuple[Any, bytes] | None:
    """A row by its key, and its text; that it was used is noted once an hour.

    Args:
        engine: The database.
        table: Its `body` is packed; its `sha256` or else its key says what it holds.
        key: Of the row.
        drop: Is called for a row that is damaged: it is never given.
    """
    if not is_key(key):
        return None
    with engine.connect() as connection:
        row = connection.execute(_finding(table), {"of": key}).first()
    if row is None:
        return None
    text = _unpacked(row.body, getattr(row, "sha256", key))
    if text is None:
        logger.error("%s of %s is damaged and is dropped", key, table.name)
        drop(key)
        return None
    now = time.time()
    if now - row.used > USED_S:
        (name,) = table.primary_key
        with engine.begin() as connection:
            connection.execute(update(table).where(name == key).values(used=now))
    return row, text


@cache
def _finding(table: Table) -> Executable:
    (name,) = table.primary_key
    return select(table).where(name == bindparam("of"))


def _unpacked(packed: bytes, digest: str) -> bytes | None:
    """The text of a row; None where its SHA-256 does not begin so."""
    try:
        text = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error):
        return None
    return text if hashlib.sha256(text).hexdigest().startswith(digest) else None
