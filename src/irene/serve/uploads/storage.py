"""Uploads: configs, trees and ledgers that people brought, named by their content.

A row's name is the digest of its bytes, so the same file twice is one row, and a row
that is damaged is noticed and never served.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import time
from dataclasses import dataclass

from sqlalchemy import (
    Column,
    Engine,
    Float,
    Integer,
    LargeBinary,
    String,
    Table,
    delete,
    insert,
    select,
)
from sqlalchemy.exc import IntegrityError

from irene.serve.store.engine import METADATA, unpack

__all__ = ["UPLOADS", "Upload", "Uploads", "upload_id"]

logger = logging.getLogger(__name__)
ID_DIGITS = 32
COMPRESSION = 5
UPLOADS = Table(
    "uploads",
    METADATA,
    Column("id", String(ID_DIGITS), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("name", String(400), nullable=False),
    Column("created", Float, nullable=False),
    Column("size", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that somebody brought.

    Attributes:
        id: First 32 hex digits of the SHA-256 of its bytes.
        kind: `config`, `tree` or `ledger`.
        name: What its owner calls it; for people to read, never a path.
        body: The document, as JSON text.
        created: When it first came, s since 1970.
    """

    id: str
    kind: str
    name: str
    body: bytes
    created: float


def upload_id(body: bytes) -> str:
    """The name of a document among the uploads."""
    return hashlib.sha256(body).hexdigest()[:ID_DIGITS]


class Uploads:
    """The uploads of a store.

    Args:
        engine: The store's database; `open_store` has made its tables.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def put(self, kind: str, name: str, body: bytes) -> tuple[Upload, bool]:
        """Keep a document.

        Returns:
            The upload, and whether it is new. The first name that it came with stays.
        """
        key = upload_id(body)
        known = self.get(key)
        if known is not None:
            return known, False
        upload = Upload(key, kind, name, body, time.time())
        row = {
            "id": key,
            "kind": kind,
            "name": name,
            "created": upload.created,
            "size": len(body),
            "body": gzip.compress(body, COMPRESSION, mtime=0),
        }
        try:
            with self._engine.begin() as connection:
                connection.execute(insert(UPLOADS).values(row))
        except IntegrityError:  # somebody else brought the same at the same time
            known = self.get(key)
            if known is None:
                raise
            return known, False
        return upload, True

    def get(self, key: str) -> Upload | None:
        """An upload by its id; None if there is none, or if its row is damaged."""
        with self._engine.connect() as connection:
            row = connection.execute(
                select(UPLOADS).where(UPLOADS.c.id == key)
            ).one_or_none()
        if row is None:
            return None
        body = unpack(row.body, key)
        if body is None:
            logger.error("upload %s is damaged in the store: dropped", key)
            self.drop(key)
            return None
        return Upload(row.id, row.kind, row.name, body, row.created)

    def drop(self, key: str) -> None:
        """Forget an upload."""
        with self._engine.begin() as connection:
            connection.execute(delete(UPLOADS).where(UPLOADS.c.id == key))
