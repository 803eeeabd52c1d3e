"""Journal: every finished node on disk at once, so that a run can go on where it ended.

One JSON object per line: first what is measured, where and how, then a node each. A
line that was cut off by a crash is ignored and written over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from irene.errors import IreneError, UsageError
from irene.measure.alone.capture import digest
from irene.measure.alone.rounds import NodeResult
from irene.whole_file import append_whole, cache_folder, trying_to
from irene.work.lock import Lock, take

SCHEMA = "irene.measure/1"


def default_folder() -> Path:
    """Where journals are kept: `irene/measure` in the user's cache."""
    return cache_folder() / "irene" / "measure"


def journal_path(header: Mapping[str, Any], spec_digest: str) -> Path:
    """The file of one run on one machine under one protocol."""
    return default_folder() / f"{spec_digest}-{digest(header)}.jsonl"


class Journal:
    """Appends results to a file; opened with `with`.

    The header says what is measured, where and how; `read` reads a line again, where
    others than nodes are kept. `results` are those of the file, by key, without those
    whose energy is not known: these are run again.
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        fresh: bool = False,
        read: Callable[[dict[str, Any]], Any] = NodeResult.from_dict,
    ) -> None:
        self.path = path
        self.results: dict[str, Any] = {}
        self._read_line = read
        self._header = {"schema": SCHEMA, **header}
        self._fresh = fresh
        self._handle = -1
        self._lock: Lock | None = None

    def __enter__(self) -> Self:
        self._lock = take(self.path.with_name(f".{self.path.name}.lock"))
        if self._lock is None:
            raise UsageError(
                f"{self.path} is in use: the same run is being measured already"
            )
        try:
            with trying_to("write", self.path):
                flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
                self._handle = os.open(self.path, flags)
            end = 0 if self._fresh else self._read()
            os.ftruncate(self._handle, end)
            os.lseek(self._handle, end, os.SEEK_SET)
            if not end:
                self._write(self._header)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        if self._lock is not None:
            self._lock.release()

    def _read(self) -> int:
        """Take in the whole lines; the length of them, bytes."""
        with os.fdopen(os.dup(self._handle), "rb") as file:
            text = file.read()
        end = 0
        for number, line in enumerate(text.splitlines(keepends=True)):
            fields = _parsed(line)
            if fields is None:
                break
            if number == 0:
                self._check(fields)
            else:
                self._take(fields)
            end += len(line)
        return end

    def _check(self, fields: Mapping[str, Any]) -> None:
        if fields != json.loads(json.dumps(self._header)):
            raise UsageError(
                f"{self.path} is the journal of another run, machine or protocol: "
                "choose another file, or start over (--fresh)"
            )

    def _take(self, fields: dict[str, Any]) -> None:
        try:
            result = self._read_line(fields)
        except (KeyError, TypeError, ValueError):  # damaged: it is measured again
            return
        if result.energy_known or result.problem:
            self.results[result.key] = result

    def known(self, key: str) -> Any:
        """What was measured before under a key; None if nothing was."""
        return self.results.get(key)

    def append(self, result: Any) -> None:
        """Put a finished node, or whatever `read` reads, on disk."""
        self._write(result.to_dict())
        self.results[result.key] = result

    def _write(self, fields: Mapping[str, Any]) -> None:
        data = json.dumps(fields, allow_nan=False).encode() + b"\n"
        end = os.lseek(self._handle, 0, os.SEEK_CUR)
        try:
            append_whole(self._handle, data, end)
        except OSError as error:
            raise IreneError(
                f"cannot write {self.path}: {error.strerror}; the {len(self.results)} "
                "measurements in it are kept: make room and give the same command again"
            ) from error


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The object of a whole line; None for one that was cut off."""
    if not line.endswith(b"\n"):
        return None
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None
