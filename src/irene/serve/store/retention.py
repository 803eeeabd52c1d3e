"""What a server keeps, how long and how much: all of it has an age and a size.

Answers, uploads and ended jobs go when nobody has used them for a while, or when there
are too many; energies of leaderboards when they are old. What waits or runs stays.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy import ColumnElement, Table, delete, func, select

from irene.serve.answers.storage import ANSWERS
from irene.serve.http.settings import Limits
from irene.serve.jobs.document import FINAL, OPEN
from irene.serve.store.engine import Store
from irene.serve.store.job_records import JOBS, NOTICES, JobRecords
from irene.serve.uploads.storage import OWNERS, PASSING, UPLOADS

logger = logging.getLogger(__name__)
T = TypeVar("T")
SOME = 500
"""Rows that are deleted at a time, so that others can write in between."""
MOST_JOBS = 100_000
"""Ended jobs that are kept."""
PASSING_S = 3_600.0
"""Time after which a file that should have gone with its request is deleted, s."""
TO = 0.9
"""To which part of its limit what is too large is cut."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is kept of a kind; the oldest was used last then, s since 1970."""

    name: str
    count: int
    size_bytes: int
    oldest: float | None


def parts(store: Store, folder: Path) -> list[Part]:
    """What is kept."""
    job_size = func.length(JOBS.c.request) + func.length(JOBS.c.progress)
    wanted = (
        (ANSWERS, ANSWERS.c.size, ANSWERS.c.used),
        (UPLOADS, func.length(UPLOADS.c.body), UPLOADS.c.used),
        (JOBS, job_size, JOBS.c.created),
    )
    found = []
    with store.engine.connect() as connection:
        for table, size, used in wanted:
            query = select(func.count(), func.sum(size), func.min(used))
            row = connection.execute(query.select_from(table)).one()
            found.append(Part(table.name, int(row[0]), int(row[1] or 0), row[2]))
    files = [path.stat() for path in _energies(folder)]
    oldest = min((each.st_mtime for each in files), default=None)
    size_bytes = sum(each.st_size for each in files)
    return [*found, Part("energies", len(files), size_bytes, oldest)]


def prune(
    store: Store, folder: Path, limits: Limits, age_s: float | None = None
) -> dict[str, int]:
    """Delete what is too old or too much, and give its room back.

    Args:
        store: The database.
        folder: Of the server.
        limits: How much is kept.
        age_s: Time without use after which something goes, s; None: never.

    Returns:
        How many went, by the names of `parts`.
    """
    gone = {
        "jobs": _prune_jobs(store, age_s),
        "answers": prune_answers(store, limits.stored_bytes, age_s),
        "uploads": _prune_table(
            store, UPLOADS, UPLOADS.c.id, func.length(UPLOADS.c.body),
            limits.uploads_bytes, age_s, _uploads_of_open_jobs(store),
        ),
        "energies": _prune_energies(folder, limits.energies_bytes, age_s),
    }  # fmt: skip
    _prune_scratch(store, folder)
    with store.engine.begin() as connection:
        there = select(UPLOADS.c.id)
        connection.execute(delete(OWNERS).where(OWNERS.c.upload.not_in(there)))
    if any(gone.values()):
        logger.info("deleted %s", ", ".join(f"{n} {what}" for what, n in gone.items()))
        store.shrink()
    return gone


def prune_answers(store: Store, most_bytes: int, age_s: float | None = None) -> int:
    """Delete answers that are too old or too much; how many."""
    key, size = ANSWERS.c.key, ANSWERS.c.size
    return _prune_table(store, ANSWERS, key, size, most_bytes, age_s)


def size_of_answers(store: Store) -> int:
    """What all answers take, bytes."""
    with store.engine.connect() as connection:
        return int(connection.execute(select(func.sum(ANSWERS.c.size))).scalar() or 0)


def _uploads_of_open_jobs(store: Store) -> frozenset[str]:
    query = select(JOBS.c.request).where(JOBS.c.state.in_(OPEN))
    with store.engine.connect() as connection:
        models = [
            json.loads(row).get("model") for row in connection.execute(query).scalars()
        ]
    return frozenset(str(model).removeprefix("upload:") for model in models)


def _prune_jobs(store: Store, age_s: float | None) -> int:
    """Ended jobs that are old, and their results with them."""
    ended = JOBS.c.state.in_(FINAL) & JOBS.c.id.not_in(select(NOTICES.c.job))
    query = select(JOBS.c.id).where(ended).order_by(JOBS.c.finished.desc())
    with store.engine.connect() as connection:
        old = set(connection.execute(query.offset(MOST_JOBS)).scalars())
        if age_s is not None:
            before = JOBS.c.finished < time.time() - age_s
            old.update(connection.execute(query.where(before)).scalars())
    for some in _some(list(old)):
        JobRecords(store.engine).forget(*some)
    return len(old)


def _prune_table(
    store: Store,
    table: Table,
    key: ColumnElement[str],
    size: ColumnElement[int],
    most_bytes: int,
    age_s: float | None,
    needed: frozenset[str] = frozenset(),
) -> int:
    """Rows that were not used for long, and the longest unused of too many."""
    began = time.time()
    query = select(key, size, table.c.used).order_by(table.c.used)
    with store.engine.connect() as connection:
        total = int(connection.execute(select(func.sum(size))).scalar() or 0)
        # Closed before anything is deleted: SQLite lets nobody write who still reads
        # what others have changed since.
        with connection.execute(query) as found:
            rows = (tuple(row) for row in found)
            unused: list[str] = _unused(rows, total, most_bytes, age_s)
    gone = 0
    for some in _some([each for each in unused if each not in needed]):
        old = key.in_(some) & (table.c.used < began)  # what is used meanwhile stays
        with store.engine.begin() as connection:
            gone += connection.execute(delete(table).where(old)).rowcount
    return gone


def _unused(
    rows: Iterable[tuple[T, int, float]],
    total_bytes: int,
    most_bytes: int,
    age_s: float | None,
) -> list[T]:
    """What is too old or too much, of rows by the time of their last use."""
    excess = total_bytes - int(most_bytes * TO) if total_bytes > most_bytes else 0
    oldest = 0.0 if age_s is None else time.time() - age_s
    found = []
    for key, size, used in rows:
        if excess <= 0 and used >= oldest:
            break
        found.append(key)
        excess -= size
    return found


def _some(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), SOME):
        yield keys[start : start + SOME]


def _energies(folder: Path) -> list[Path]:
    return list((folder / "energies").glob("*/*.json"))


def _prune_energies(folder: Path, most_bytes: int, age_s: float | None) -> int:
    files = [(path, path.stat()) for path in _energies(folder)]
    rows = [(path, stat.st_size, stat.st_mtime) for path, stat in files]
    rows.sort(key=lambda row: row[2])
    total = sum(size for _, size, _ in rows)
    gone = _unused(rows, total, most_bytes, age_s)
    for path in gone:
        path.unlink(missing_ok=True)
    return len(gone)


def _prune_scratch(store: Store, folder: Path) -> None:
    """Files and folders that a killed server has left."""
    for path in folder.glob(f"{PASSING}*"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - PASSING_S:
                path.unlink()
    scratch = folder / "scratch"
    if scratch.is_symlink() or not scratch.is_dir():
        return
    there = list(scratch.iterdir())  # before: what comes meanwhile is of a new job
    with store.engine.connect() as connection:
        query = select(JOBS.c.id).where(JOBS.c.state.in_(OPEN))
        is_open = set(connection.execute(query).scalars())
    for path in there:
        if path.name not in is_open:
            shutil.rmtree(path, ignore_errors=True)
