"""The database of a server: SQLite in WAL mode, or Postgres by its URL."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, MetaData, Table, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from irene.errors import MissingExtraError, UsageError

__all__ = ["METADATA", "Store", "ensure_tables", "open_store", "unpack"]

METADATA = MetaData()
"""All tables of the store."""
BUSY_MS = 15_000
"""How long a writer waits for another one."""


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

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_store(url: str) -> Store:
    """Open the database and make what is missing.

    Args:
        url: Of SQLAlchemy: `sqlite:///FILE`, `postgresql://USER@HOST/NAME`.

    Raises:
        UsageError: It cannot be opened.
    """
    try:
        address = make_url(url)
        if address.drivername in ("postgresql", "postgres"):
            address = address.set(drivername="postgresql+psycopg")
        if address.get_backend_name() == "sqlite" and address.database:
            Path(address.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(address, pool_pre_ping=True, hide_parameters=True)
    except (ArgumentError, NoSuchModuleError, OSError) as error:
        raise UsageError(f"cannot open the store: {error}") from error
    except ImportError as error:
        raise MissingExtraError(
            f"the store needs {error.name}: pip install 'irene-energy[serve]'"
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up_sqlite)
    try:
        ensure_tables(engine, _all_tables())
    except SQLAlchemyError as error:
        engine.dispose()
        raise UsageError(
            f"cannot open the store {address.render_as_string()}: {error}"
        ) from error
    return Store(engine)


def _all_tables() -> list[Table]:
    from irene.serve.answers.storage import ANSWERS
    from irene.serve.store.job_records import JOB_TABLES
    from irene.serve.uploads.storage import UPLOADS

    return [ANSWERS, UPLOADS, *JOB_TABLES.sorted_tables]


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    # The timeout first: switching to WAL wants the file for itself for a moment.
    cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def ensure_tables(engine: Engine, tables: Iterable[Table]) -> None:
    """Make tables that are not there yet; several servers may do so at once.

    Args:
        engine: The database.
        tables: Of `METADATA`.
    """
    for table in tables:
        for is_last in (False, True):
            try:
                with engine.begin() as connection:
                    connection.execute(CreateTable(table, if_not_exists=True))
                    for index in table.indexes:
                        index.create(connection, checkfirst=True)
            except DBAPIError:  # another server was making it in this moment
                if is_last:
                    raise
            else:
                break


def unpack(packed: bytes, digest: str) -> bytes | None:
    """The text of a row; None where it is not what was put there.

    Args:
        packed: As gzip.
        digest: How the text's SHA-256 begins.
    """
    try:
        text = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error):
        return None
    return text if hashlib.sha256(text).hexdigest().startswith(digest) else None
