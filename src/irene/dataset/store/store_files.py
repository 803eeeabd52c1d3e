"""Files of a store: their places, the schema, the lock, how it is made and opened.

STORE/store.json      schema and when it was made
STORE/manifest.jsonl  what is in the store
STORE/segments/       Parquet files of trees, never changed once they are there
STORE/writing/        files that are being written
STORE/quarantine/     damaged files, each with the reason in NAME.reason.txt
STORE/lock            held by the one who writes
STORE/lock-packing    held while segments are packed
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock

from irene import __version__
from irene.errors import FormatError, IreneError, UsageError
from irene.whole_file import trying_to, whole_file

SCHEMA = "irene.store/1"


class StoreFiles:
    """Places of the files of a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about = folder / "store.json"
        self.manifest = folder / "manifest.jsonl"
        self.segments = folder / "segments"
        self.writing = folder / "writing"
        self.quarantine = folder / "quarantine"
        self.lock = folder / "lock"
        self.packing = folder / "lock-packing"

    def check(self) -> None:
        """See whether it is a store that this version reads."""
        try:
            about = json.loads(self.about.read_bytes())
        except FileNotFoundError:
            raise UsageError(_no_store(self.folder)) from None
        except OSError as error:
            raise UsageError(f"cannot read {self.about}: {error.strerror}") from error
        except ValueError as error:
            raise FormatError(
                f"{self.about}: damaged: {error}; write "
                f'{{"schema": "{SCHEMA}"}} into it, then '
                f"`irene data check {self.folder}`"
            ) from error
        schema = about.get("schema") if isinstance(about, dict) else None
        if schema != SCHEMA:
            newer = re.fullmatch(r"irene\.store/\d+", str(schema))
            why = "a newer store needs a newer irene"
            raise FormatError(
                f"{self.folder}: schema is {schema!r}, this version reads {SCHEMA!r}; "
                f"{why if newer else 'it is not a store of ours'}"
            )


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a lock between processes, which a killed process leaves free; wait for it.

    Raises:
        UsageError: The file cannot be made.
    """
    lock = FileLock(path, mode=0o666)
    with trying_to("write", path):
        lock.acquire(poll_interval=0.01)
    try:
        yield
    finally:
        lock.release()


def is_store(path: Path | str) -> bool:
    """Whether a folder is a store, of whichever version."""
    return (Path(path) / "store.json").is_file()


def _no_store(path: Path) -> str:
    if not path.exists():
        return (
            f"there is no store {path}; `irene collect SWEEP --store {path}` makes one"
        )
    if path.is_dir() and any(path.glob("*.parquet")):
        return (
            f"{path} is a folder of files and no store: `irene data merge {path}/"
            "*.parquet --out STORE` makes one of those that are ours"
        )
    words = f"{path} is not a store: there is no store.json in it"
    if (path / "manifest.jsonl").is_file():
        words += f'; if it was one, write {{"schema": "{SCHEMA}"}} into that file'
    return words


def make_store(path: Path) -> None:
    """Make an empty store, or finish making one; what is there stays."""
    files = StoreFiles(path)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file: a store is a folder; choose another name")
    ours = {*vars(files).values()}
    if path.is_dir() and not is_store(path):
        others = (f for f in path.iterdir() if f not in ours)
        if any(not file.name.startswith(".store.json.") for file in others):
            raise UsageError(f"{_no_store(path)}; choose a folder that is empty or new")
    with trying_to("write", path):
        for folder in (files.segments, files.writing, files.quarantine):
            folder.mkdir(parents=True, exist_ok=True)
        with held(files.lock):
            if not is_store(path):
                files.manifest.touch()
                _write_about(files)


def _write_about(files: StoreFiles) -> None:
    """Last of all: a folder with this file is a whole store."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"schema": SCHEMA, "irene": __version__, "made": made}
    sync_folder(files.folder)
    with whole_file(files.about) as file:
        file.write(f"{json.dumps(about)}\n".encode())
    sync_folder(files.folder)


def cannot_write(path: Path, error: OSError) -> IreneError:
    """What to say when a disk is full or broken."""
    return IreneError(
        f"cannot write {path}: {error.strerror or error}; what is in the store is "
        "kept: make room and give the same command again"
    )


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
