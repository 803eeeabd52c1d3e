"""A disk that is full, for SQLite."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event


class FullDisk:
    """Lets a SQLite file grow no more, as a full disk would."""

    def __init__(self, engine: Engine) -> None:
        self._full = False
        event.listen(engine, "checkout", self._set_limit)

    def _set_limit(self, connection: Any, *_: Any) -> None:
        cursor = connection.cursor()
        # SQLite allows no fewer pages than there are.
        cursor.execute(f"PRAGMA max_page_count={1 if self._full else 10**9}")
        cursor.close()

    def fill(self) -> None:
        self._full = True

    def make_room(self) -> None:
        self._full = False
