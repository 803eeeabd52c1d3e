"""Manifest: what is in a store, line by line, each line with its own checksum.

Lines are only ever added. Three kinds of them:

- `entry`: a run, and the segment that holds its tree, with its SHA-256;
- `packed`: entries that are in another segment now;
- `quarantined`: a segment that was damaged, and with it what it held.

A last line that was cut off by a crash is ignored, and written over by the next one.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from irene.dataset.store.entry import Entry
from irene.errors import FormatError, IreneError, UsageError
from irene.whole_file import whole_file

__all__ = ["Manifest", "Segment", "sealed"]

CHECK = b',"check":"'
CHECK_DIGITS = 16
END = b'"}\n'


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of a store.

    Attributes:
        file: Its name.
        sha256: Of its content, hexadecimal.
        size_bytes: Its length, bytes.
    """

    file: str
    sha256: str
    size_bytes: int


class Manifest:
    """The manifest of one store, as far as it was read.

    Args:
        path: The file.

    Attributes:
        path: The file.
        entries: By id, in the order they were added.
        segments: That entries are in, by name.
        lost: Entries whose segment was quarantined, by id.
        machines: What is covered and described under the name of each hardware.
        damaged: Numbers of lines, from 1, that are not what was written.
        torn_bytes: Length of a last line that was cut off, bytes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.segments: dict[str, Segment] = {}
        self.lost: dict[str, Entry] = {}
        self.machines: dict[str, set[tuple[str, str]]] = {}
        self.damaged: list[int] = []
        self.torn_bytes = 0
        self._within: dict[str, int] = {}
        self._runs: dict[tuple[str, str, str | None], int] = {}
        self._uncounted: list[Entry] = []
        self._end = 0
        self._lines = 0
        self._file = -1

    def refresh(self) -> None:
        """Read what was added since, by whichever process.

        Raises:
            UsageError: The file cannot be read.
            FormatError: A sound line is of a newer version.
        """
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    state = os.fstat(file.fileno())
                    if state.st_ino != self._file or not self._goes_on(file):
                        self._forget()
                        self._file = state.st_ino
                    file.seek(self._end)
                    self._take(file.read())
            except OSError as error:
                raise UsageError(
                    f"cannot read {self.path}: {error.strerror}"
                ) from error

    def _goes_on(self, file: BinaryIO) -> bool:
        """Whether what was read ends with the end of a line still."""
        file.seek(max(0, self._end - 1))
        return not self._end or file.read(1) == b"\n"

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
        if kind == "entry":
            self._learn_entry(self._entry(fields), fields)
        elif kind == "packed":
            for name in fields["ids"]:
                if name in self.entries:
                    self._move(name, fields)
        elif kind == "quarantined":
            for name, entry in list(self.entries.items()):
                if entry.file == fields["segment"]:
                    self._lose(name)
        else:
            raise FormatError(
                f"{self.path}:{self._lines}: a line of kind {kind!r}, which this "
                "version does not know; a newer store needs a newer irene"
            )

    def _entry(self, fields: Mapping[str, Any]) -> Entry:
        try:
            return Entry.from_dict(fields)
        except FormatError as error:
            raise FormatError(
                f"{self.path}:{self._lines}: {error}; a newer store needs a newer irene"
            ) from error

    def _learn_entry(self, entry: Entry, fields: Mapping[str, Any]) -> None:
        if entry.id in self.entries:
            return
        self.lost.pop(entry.id, None)
        self.entries[entry.id] = entry
        if entry.state == "measured":
            self._uncounted.append(entry)
            told = (entry.origin.hardware.covers, entry.origin.hardware.description)
            self.machines.setdefault(entry.hardware, set()).add(told)
            self._hold(entry.file, fields)

    def _count_new(self) -> None:
        """Digests take time, and most readers do not need them."""
        for entry in self._uncounted:
            self._count(entry, 1)
        self._uncounted = []

    def _count(self, entry: Entry, step: int) -> None:
        digest, hardware, software = entry.run
        for run in ((digest, hardware, software), (digest, hardware, None)):
            self._runs[run] = self._runs.get(run, 0) + step

    def _hold(self, file: str, fields: Mapping[str, Any]) -> None:
        self._within[file] = self._within.get(file, 0) + 1
        self.segments[file] = Segment(file, fields["sha256"], fields["bytes"])

    def _release(self, file: str) -> None:
        self._within[file] -= 1
        if not self._within[file]:
            del self._within[file], self.segments[file]

    def _move(self, name: str, fields: Mapping[str, Any]) -> None:
        entry = self.entries[name]
        self._hold(fields["segment"], fields)
        self._release(entry.file)
        self.entries[name] = replace(entry, file=fields["segment"])

    def _lose(self, name: str) -> None:
        entry = self.lost[name] = self.entries.pop(name)
        self._count_new()
        self._count(entry, -1)
        self._release(entry.file)

    def has_run(self, digest: str, hardware: str, software: str | None) -> bool:
        """Whether a measurement of this run on this machine is there."""
        with self._lock:
            self._count_new()
            return self._runs.get((digest, hardware, software), 0) > 0

    def append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Put lines on disk, after the last whole one; the caller holds the lock.

        Raises:
            IreneError: They cannot be written; what is in the file stays valid.
        """
        self.refresh()
        data = b"".join(sealed(line) for line in lines)
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}") from error
        try:
            os.ftruncate(handle, self._end)  # a line that was cut off
            _write(handle, data, self._end)
        except OSError as error:
            raise IreneError(
                f"cannot write {self.path}: {error.strerror}; what is in the store is "
                "kept: make room and give the same command again"
            ) from error
        finally:
            os.close(handle)
        self.refresh()

    def rewrite(self, more: Iterable[Mapping[str, Any]] = ()) -> None:
        """Write the file anew with the sound lines of it; the caller holds the lock.

        Args:
            more: Lines to add.
        """
        text = self.path.read_bytes()
        lines = [line for line in text.splitlines(keepends=True) if _opened(line)]
        with whole_file(self.path) as file:
            file.writelines([*lines, *(sealed(line) for line in more)])
        self._forget()
        self.refresh()


def _write(handle: int, data: bytes, end: int) -> None:
    """Write at the end and wait for the disk; leave no half line behind."""
    os.lseek(handle, end, os.SEEK_SET)
    try:
        while data:
            data = data[os.write(handle, data) :]
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, end)
        raise


def sealed(fields: Mapping[str, Any]) -> bytes:
    """A line of the manifest: JSON whose last field is a checksum of all before it."""
    body = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return body + CHECK + _check(body) + END


def _opened(line: bytes) -> dict[str, Any] | None:
    """The fields of a line; None if it is not what was written."""
    body, check, rest = line.rpartition(CHECK)
    if not check or rest != _check(body) + END:
        return None
    try:
        fields = json.loads(body + b"}")
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _check(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:CHECK_DIGITS].encode()
