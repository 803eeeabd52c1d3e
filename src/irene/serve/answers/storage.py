"""Answers by their key: packed, with a checksum that is looked at on every read."""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    delete,
)

from irene.serve.answers.memory import Ready, make_ready
from irene.serve.store.engine import METADATA, Store, add_once, kept_row, quickly

ANSWERS = Table(
    "answers",
    METADATA,
    Column("key", String(64), primary_key=True),
    Column("question", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("size", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("created", Float, nullable=False),
    Column("used", Float, nullable=False),
    Column("kept", Boolean, nullable=False),  # of older servers
)
LOOK_EVERY, LOOK_AFTER = 50, 0.05
"""Answers, and part of the room that was left, that are written between two looks at
the size of all, which reads all of them."""


@dataclass(frozen=True, slots=True)
class Made:
    """An answer that is to be kept.

    Attributes:
        ready: As it is sent.
        media_type: What it is.
        question: What was asked, as JSON.
    """

    ready: Ready
    media_type: str
    question: str

    @property
    def row(self) -> dict[str, object]:
        """As the store has it."""
        body, now = self.ready.body, time.time()
        packed = self.ready.packed or gzip.compress(body, 6, mtime=0)
        return {
            "key": self.ready.key, "question": self.question,
            "media_type": self.media_type, "body": packed, "size": len(packed),
            "sha256": hashlib.sha256(body).hexdigest(), "created": now, "used": now,
            "kept": False,
        }  # fmt: skip


class Answers:
    """The answers of a store.

    Args:
        store: Where they are.
        most_bytes: Size above which those that were unused longest are dropped.
    """

    def __init__(self, store: Store, most_bytes: int = 4_000_000_000) -> None:
        self.store = store
        self.most_bytes = most_bytes
        self._written, self._room = 0, 0.0

    def get(self, key: str) -> Ready | None:
        """An answer; None if it is not there, or damaged."""
        found = kept_row(self.store.engine, ANSWERS, key, self.drop)
        if found is None:
            return None
        row, body = found
        return make_ready(key, body, row.media_type, packed=row.body)

    def put(
        self,
        key: str,
        body: bytes,
        media_type: str = "application/json",
        *,
        question: str = "{}",
    ) -> None:
        """Keep an answer; one that is there already stays as it is.

        Args:
            key: Its name.
            body: As it is sent.
            media_type: What it is.
            question: What was asked, as JSON.
        """
        made = Made(make_ready(key, body, media_type), media_type, question)
        self.put_all([made])

    def put_all(self, made: Sequence[Made]) -> None:
        """Keep answers, all or none; those that are there already stay as they are."""
        with quickly(self.store.engine) as connection:
            add_once(connection, ANSWERS, *(each.row for each in made))
        self._written += len(made)
        self._room -= sum(each.ready.size for each in made)
        if self._written >= LOOK_EVERY and self._room < 0:
            self.prune()

    def drop(self, key: str) -> None:
        """Forget an answer."""
        with self.store.engine.begin() as connection:
            connection.execute(delete(ANSWERS).where(ANSWERS.c.key == key))

    def prune(self) -> int:
        """Drop answers that were unused longest until the rest fits; how many."""
        from irene.serve.store.retention import prune_answers, size_of_answers

        dropped = prune_answers(self.store, self.most_bytes)
        if dropped:
            self.store.shrink()
        room = self.most_bytes - size_of_answers(self.store)
        self._written, self._room = 0, LOOK_AFTER * room
        return dropped
