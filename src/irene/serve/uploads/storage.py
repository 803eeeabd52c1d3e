"""Uploads: configs, trees and ledgers that people brought, named by their content.

A row's name is the digest of its bytes, so the same file twice is one row, and a row
that is damaged is noticed and never served.
"""

from __future__ import annotations

import gzip
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from sqlalchemy import (
    Column,
    Engine,
    Float,
    Integer,
    LargeBinary,
    String,
    Table,
    delete,
    select,
)

from irene.serve.store.engine import (
    METADATA,
    add_once,
    add_or_use,
    is_key,
    kept_row,
    key_of,
)

COMPRESSION = 5
PASSING = ".passing-"
"""How files begin that a killed server may have left."""
UPLOADS = Table(
    "uploads",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("name", String(400), nullable=False),
    Column("created", Float, nullable=False),
    Column("size", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("used", Float, nullable=False, server_default="0"),
)
OWNERS = Table(
    "upload_owners",
    METADATA,
    Column("upload", String(32), primary_key=True),
    Column("owner", String(100), primary_key=True),
)
"""Who brought what: the same file may be of several."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that somebody brought, named by its content; since when, s since 1970."""

    id: str
    kind: str
    name: str
    body: bytes
    created: float
    packed: bytes | None = field(default=None, compare=False)


def new_file(folder: Path) -> IO[bytes]:
    """A file for what is too large to be held in memory; it goes when it is closed."""
    return NamedTemporaryFile(dir=folder, prefix=PASSING)


class Uploads:
    """The uploads of a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def put(
        self, kind: str, name: str, body: bytes, owner: str = ""
    ) -> tuple[Upload, bool]:
        """Keep a document.

        Returns:
            The upload, and whether it is new. The first name that it came with stays.
        """
        key = key_of(body)
        known = self.get(key)
        now = time.time()
        packed = known.packed if known else gzip.compress(body, COMPRESSION, mtime=0)
        row = {"id": key, "kind": kind, "name": name, "size": len(body)}
        row |= {"body": packed, "created": now, "used": now}
        with self._engine.begin() as connection:
            # Whole, also where it is known: it may have gone since we looked.
            add_or_use(connection, UPLOADS, row)
            add_once(connection, OWNERS, {"upload": key, "owner": owner})
        return known or Upload(key, kind, name, body, now), known is None

    def get(self, key: str) -> Upload | None:
        """An upload by its id; None if there is none, or if its row is damaged."""
        found = kept_row(self._engine, UPLOADS, key, self.drop)
        if found is None:
            return None
        row, body = found
        return Upload(row.id, row.kind, row.name, body, row.created, row.body)

    def kind(self, key: str) -> str | None:
        """What an upload is; None if there is none."""
        if not is_key(key):
            return None
        query = select(UPLOADS.c.kind).where(UPLOADS.c.id == key)
        with self._engine.connect() as connection:
            return connection.execute(query).scalar()

    def owners(self, key: str) -> frozenset[str]:
        """Who brought it."""
        query = select(OWNERS.c.owner).where(OWNERS.c.upload == key)
        with self._engine.connect() as connection:
            return frozenset(connection.execute(query).scalars())

    def drop(self, key: str, owner: str | None = None) -> None:
        """Forget an upload.

        Args:
            key: Its id.
            owner: Only as far as it is theirs: it stays for others who brought it;
                None: of all.
        """
        mine = OWNERS.c.upload == key
        if owner is not None:
            mine = mine & (OWNERS.c.owner == owner)
        row = select(UPLOADS.c.id).where(UPLOADS.c.id == key)
        with self._engine.begin() as connection:
            connection.execute(row.with_for_update())  # nobody brings it meanwhile
            connection.execute(delete(OWNERS).where(mine))
            left = select(OWNERS.c.owner).where(OWNERS.c.upload == key)
            if connection.execute(left).first() is None:
                connection.execute(delete(UPLOADS).where(UPLOADS.c.id == key))
