"""Files of a store: their places, the schema, the lock, and the manifest.

STORE/store.json      schema and when it was made
STORE/manifest.jsonl  what is in the store
STORE/segments/       Parquet files of trees, never changed once they are there
STORE/writing/        files that are being written
STORE/quarantine/     damaged files, each with the reason in NAME.reason.txt
STORE/lock            held by the one who writes
STORE/lock-packing    held while segments are packed

Lines of the manifest are only ever added, each with its own checksum: `entry`, a run,
and the segment that holds its tree, with its SHA-256; `packed`, entries that are in
another segment now; `quarantined`, a segment that was damaged, and with it what it
held. A last line that was cut off by a crash is ignored, and written over by the next
one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from irene import __version__
from irene.dataset.store.entries import Entry, Machine
from irene.errors import FormatError, IreneError, UsageError
from irene.whole_file import append_whole, trying_to, whole_file

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
    """Wait for and hold a lock that a killed process leaves free."""
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


CHECK = b',"check":"'
CHECK_DIGITS = 16
END = b'"}\n'


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of a store, with what it must be."""

    file: str
    sha256: str
    size_bytes: int

    @classmethod
    def of(cls, file: str, content: bytes) -> Segment:
        """What is to be said of a file."""
        return cls(file, hashlib.sha256(content).hexdigest(), len(content))


class Manifest:
    """The manifest of one store, as far as it was read.

    Attributes:
        entries: By id, in the order they were added.
        lost: Entries whose segment was quarantined, by id.
        machines: That measured, by the name of their hardware.
        damaged: Numbers of lines, from 1, that are not what was written.
        torn_bytes: Length of a last line that was cut off, bytes.
    """

    def __init__(self, files: StoreFiles) -> None:
        self.files, self.path = files, files.manifest
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.lost: dict[str, Entry] = {}
        self.machines: dict[str, set[Machine]] = {}
        self.damaged: list[int] = []
        self.torn_bytes = 0
        self._files: dict[str, Segment] = {}
        self._segments: dict[str, Segment] | None = None
        self._runs: dict[tuple[str, str], list[str]] = {}
        self._without_run: list[Entry] = []
        self._end = 0
        self._lines = 0
        self._file = -1

    def refresh(self) -> None:
        """Read what was added since, by whichever process."""
        with (
            self._lock,
            trying_to("read", self.path),
            self.path.open("rb") as file,
        ):
            # The same file, in which what was read ends with a line still?
            inode = os.fstat(file.fileno()).st_ino
            file.seek(max(0, self._end - 1))
            if inode != self._file or (self._end and file.read(1) != b"\n"):
                self._forget()
                self._file = inode
            file.seek(self._end)
            self._take(file.read())

    def _take(self, text: bytes) -> None:
        end = text.rfind(b"\n") + 1
        lines = text[:end].splitlines(keepends=True)
        for place, line in enumerate(lines):
            fields = _opened(line)
            if fields is None and place == len(lines) - 1 and end == len(text):
                # Not necessarily the last for ever: a crash may have left this.
                end -= len(line)
                break
            self._lines += 1
            if fields is None:
                self.damaged.append(self._lines)
            else:
                self._learn(fields)
        self._end += end
        self.torn_bytes = len(text) - end

    def _learn(self, fields: Mapping[str, Any]) -> None:
        kind = fields.get("line")
        if "sha256" in fields:
            segment = Segment(fields["segment"], fields["sha256"], fields["bytes"])
            self._files[segment.file] = segment
        if kind == "entry":
            self._learn_entry(fields)
        elif kind == "packed":
            for name in self.entries.keys() & set(fields["ids"]):
                moved = replace(self.entries[name], segment=fields["segment"])
                self.entries[name] = moved
        elif kind == "quarantined":
            gone = [e for e in self.entries.values() if e.segment == fields["segment"]]
            self.lost.update((e.id, self.entries.pop(e.id)) for e in gone)
        else:
            raise FormatError(
                f"{self.path}:{self._lines}: a line of kind {kind!r}, which this "
                "version does not know; a newer store needs a newer irene"
            )
        self._segments = None

    def _learn_entry(self, fields: Mapping[str, Any]) -> None:
        try:
            entry = Entry.from_dict(fields)
        except FormatError as error:
            raise FormatError(
                f"{self.path}:{self._lines}: {error}; a newer store needs a newer irene"
            ) from error
        if entry.id in self.entries:
            return
        self.lost.pop(entry.id, None)
        self.entries[entry.id] = entry
        if entry.state == "measured":
            self._without_run.append(entry)
            self.machines.setdefault(entry.hardware, set()).add(Machine.of(entry))

    @property
    def segments(self) -> dict[str, Segment]:
        """Segments that entries are in, by name."""
        if self._segments is None:
            files = {entry.segment for entry in self.entries.values() if entry.segment}
            self._segments = {n: s for n, s in self._files.items() if n in files}
        return self._segments

    def find_run(
        self, digest: str, hardware: str, software: str | None = None
    ) -> str | None:
        """Id of a measurement of a run on a machine, with this software if given."""
        with self._lock:
            # Digests take time, and most readers do not need them.
            for entry in self._without_run:
                self._runs.setdefault(entry.run, []).append(entry.id)
            self._without_run = []
            there = map(self.entries.get, self._runs.get((digest, hardware), ()))
            return next(
                (e.id for e in there if e and software in (None, e.software)), None
            )

    def add(self, entries: Iterable[Entry], segment: Segment | None = None) -> None:
        """Put entries on disk, with the segment that holds them; as `append`."""
        told: dict[str, Any] = {}
        if segment is not None:
            entries = [replace(entry, segment=segment.file) for entry in entries]
            told = {"sha256": segment.sha256, "bytes": segment.size_bytes}
        self.append({"line": "entry", **e.to_dict(), **told} for e in entries)

    def move(self, ids: Iterable[str], segment: Segment) -> None:
        """Say that entries are in another segment now; as `append`."""
        about = {"sha256": segment.sha256, "bytes": segment.size_bytes}
        line = {"line": "packed", "segment": segment.file, **about, "ids": list(ids)}
        self.append([line])

    def quarantine(self, file: str, reason: str) -> None:
        """Say that a segment was damaged; as `append`."""
        self.append([{"line": "quarantined", "segment": file, "reason": reason}])

    def append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Put lines on disk, after the last whole one; the caller holds the lock."""
        self.refresh()
        data = b"".join(map(_sealed, lines))
        with trying_to("write", self.path):
            handle = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            append_whole(handle, data, self._end)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        finally:
            os.close(handle)
        self.refresh()

    def drop_damaged(self) -> None:
        """Write the file anew with its sound lines alone; the caller holds the lock."""
        lines = self.path.read_bytes().splitlines(keepends=True)
        with whole_file(self.path) as file:
            file.writelines(line for line in lines if _opened(line))
        self._forget()
        self.refresh()


def _sealed(fields: Mapping[str, Any]) -> bytes:
    """A line of the manifest: JSON whose last field is a checksum of all before it."""
    body = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return body + CHECK + _check(body) + END


def _opened(line: bytes) -> dict[str, Any] | None:
    """The fields of a line; None if it is not what was written."""
    body, _, rest = line.rpartition(CHECK)
    if not body or rest != _check(body) + END:
        return None
    fields: dict[str, Any] = json.loads(body + b"}")
    return fields


def _check(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:CHECK_DIGITS].encode()
