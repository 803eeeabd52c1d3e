"""The store's version: older ones are brought up, newer ones are refused.

A change of a table is a new step in `STEPS`. What older stores look like is kept in
`tests/serve/store`: each of them must open.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    Table,
    delete,
    insert,
    inspect,
    select,
    text,
    update,
)

from irene.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)
_OWN = MetaData()
_VERSION = Table(
    "store_version",
    _OWN,
    Column("version", Integer, primary_key=True),
    Column("touched", Float, nullable=False),
)
LOCK = 0x6972656E65
"""Of Postgres: one server at a time makes or changes tables."""
ENGINE_BEFORE = (
    "application_versions", "dbos_migrations", "event_dispatch_kv", "notifications",
    "operation_outputs", "queues", "streams", "workflow_events",
    "workflow_events_history", "workflow_input", "workflow_output",
    "workflow_schedules", "workflow_status",
)  # fmt: skip
"""Tables of the job engine that there was before."""


def _owners(connection: Connection) -> None:
    """To version 2: jobs and uploads have owners, and uploads a time of last use."""
    connection.execute(
        text("ALTER TABLE jobs ADD COLUMN owner VARCHAR(100) NOT NULL DEFAULT ''")
    )
    connection.execute(
        text("ALTER TABLE uploads ADD COLUMN used FLOAT NOT NULL DEFAULT 0")
    )
    connection.execute(text("UPDATE uploads SET used = created"))


STEPS: tuple[Callable[[Connection], None], ...] = (_owners,)
CURRENT = len(STEPS) + 1


def bring_up_to_date(engine: Engine, tables: MetaData) -> None:
    """Make tables that are not there yet, and change those of an older version.

    All or nothing: a server that is killed meanwhile leaves the store as it was.
    """
    is_old = False
    with _alone(engine) as connection:
        there = set(inspect(connection).get_table_names())
        version = version_of(connection) if "answers" in there else CURRENT
        if version > CURRENT:
            raise UsageError(
                f"the store has version {version}, this irene knows {CURRENT}: it was "
                "used by a newer one; update irene, or choose another --data-dir"
            )
        for step in STEPS[version - 1 :]:
            logger.info("the store is brought up to version %d", version + 1)
            step(connection)
            version, is_old = version + 1, True
        if is_old:
            _drop_engine_before(connection, there)
        tables.create_all(connection)
        _OWN.create_all(connection)
        connection.execute(delete(_VERSION))
        connection.execute(
            insert(_VERSION).values(version=CURRENT, touched=time.time())
        )
        _check_columns(connection, tables)
    if is_old and engine.dialect.name == "sqlite":
        _let_shrink(engine)


def _drop_engine_before(connection: Connection, there: set[str]) -> None:
    """Forget the tables of the job engine that there was; all refer to the last."""
    for name in ENGINE_BEFORE:
        if name in there:
            connection.execute(text(f"DROP TABLE {name}"))
    if connection.dialect.name != "sqlite":
        connection.execute(text("DROP SCHEMA IF EXISTS dbos CASCADE"))


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """A transaction that no other server has at the same time."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        yield connection
        connection.commit()


def version_of(connection: Connection) -> int:
    """The version of a store that has tables; the first had no number."""
    if not inspect(connection).has_table(_VERSION.name):
        return 1
    return int(connection.execute(select(_VERSION.c.version)).scalar() or 1)


def _check_columns(connection: Connection, tables: MetaData) -> None:
    for table in tables.sorted_tables:
        there = {each["name"] for each in inspect(connection).get_columns(table.name)}
        missing = sorted({column.name for column in table.columns} - there)
        if missing:
            raise UsageError(
                f"the store is damaged: its table {table.name} has no {missing[0]}; "
                "restore a backup (`irene data-dir restore`)"
            )


def _let_shrink(engine: Engine) -> None:
    """Rewrite an older file so that it gives room back from now on."""
    with engine.connect() as connection:
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.exec_driver_sql("PRAGMA auto_vacuum=INCREMENTAL")
        connection.exec_driver_sql("VACUUM")


def touch(engine: Engine) -> None:
    """Read and write a row of a store.

    Raises:
        SQLAlchemyError: It cannot be read, written, or is damaged.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":  # it is the file that is asked for
            connection.exec_driver_sql("PRAGMA shrink_memory")
        for name in ("answers", "uploads", "jobs"):
            connection.execute(text(f"SELECT * FROM {name} LIMIT 1")).first()
        connection.execute(update(_VERSION).values(touched=time.time()))
