"""Packing: many small segments become few large ones, which are quicker to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from irene.dataset.store.columns import arrow
from irene.dataset.store.layout import Layout
from irene.dataset.store.locking import held
from irene.dataset.store.manifest import Segment
from irene.dataset.store.recovery import packed_line
from irene.dataset.store.segments import (
    GROUP_ROWS,
    SegmentWriter,
    verify,
    wanted_tables,
)

if TYPE_CHECKING:
    from irene.dataset.store.store import Store

__all__ = ["SMALL_BYTES", "Packed", "Packer", "pack"]

SMALL_BYTES = 1 << 20
"""Segments below this are packed, bytes."""
SEGMENT_ROWS = 20 * GROUP_ROWS

Commit = Callable[[list[str], Segment], None]


@dataclass(frozen=True, slots=True)
class Packed:
    """What packing did.

    Attributes:
        entries: Entries that are in another segment now.
        segments_before: Segments of the store before.
        segments_after: Segments of the store now.
    """

    entries: int
    segments_before: int
    segments_after: int


class Packer:
    """Writes entries into segments of a good size; used with `with`.

    Args:
        layout: The store they are for.
        commit: Is told of every segment that is in its place, under the store's lock:
            the ids in it, and the segment.
    """

    def __init__(self, layout: Layout, commit: Commit) -> None:
        self._layout = layout
        self._commit = commit
        self._stack = ExitStack()
        self._writer: SegmentWriter | None = None
        self._tables: list[Any] = []
        self._rows = 0
        self._ids: list[str] = []

    def __enter__(self) -> Self:
        """Nothing is open yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish the last segment, or drop it after an error."""
        with self._stack:
            if kind is None:
                self._finish()

    def add(self, names: Sequence[str], table: Any) -> None:
        """Take some entries.

        Args:
            names: Their ids.
            table: All of their columns.
        """
        self._ids.extend(names)
        self._tables.append(table)
        self._rows += len(table)
        if self._rows >= GROUP_ROWS:
            self._write()
        if self._writer is not None and self._writer.rows >= SEGMENT_ROWS:
            self._finish()

    def _write(self) -> None:
        if self._writer is None:
            self._writer = self._stack.enter_context(SegmentWriter(self._layout))
        self._writer.write(arrow().pa.concat_tables(self._tables))
        self._tables, self._rows = [], 0

    def _finish(self) -> None:
        if self._tables:
            self._write()
        if self._writer is None:
            return
        segment = self._writer.finish()
        with held(self._layout.lock):
            self._writer.place()
            self._commit(self._ids, segment)
        self._stack.close()
        self._stack, self._writer, self._ids = ExitStack(), None, []


def pack(store: Store, small_bytes: int = SMALL_BYTES) -> Packed:
    """Pack the small segments of a store; nothing happens to one alone.

    Whenever it is ended, each entry counts in one segment. Others may add and read
    meanwhile.

    Args:
        store: The store.
        small_bytes: Segments below this are packed, bytes.

    Raises:
        FormatError: A segment is damaged.
        IreneError: There is no room; the store is as it was.
    """
    with held(store.layout.packing):
        store.manifest.refresh()
        before = dict(store.manifest.segments)
        small = {n: s for n, s in before.items() if s.size_bytes < small_bytes}
        if len(small) < 2:
            return Packed(0, len(before), len(before))
        moved = _pack(store, small)
        return Packed(moved, len(before), len(store.manifest.segments))


def _pack(store: Store, small: dict[str, Segment]) -> int:
    within: dict[str, list[str]] = {}
    for entry in store.entries():
        if entry.file in small:
            within.setdefault(entry.file, []).append(entry.id)

    def commit(ids: list[str], segment: Segment) -> None:
        store.manifest.append([packed_line(ids, segment)])
        _remove(store, small)

    with Packer(store.layout, commit) as packer:
        # By the lowest id in each: the same whatever the files are called.
        for file, ids in sorted(within.items(), key=lambda item: item[1]):
            path = store.layout.segments / file
            verify(path, small[file])
            for names, table in wanted_tables(path, frozenset(ids)):
                packer.add(names, table)
    return sum(map(len, within.values()))


def _remove(store: Store, files: Iterable[str]) -> None:
    """Take away segments that hold nothing any more."""
    for file in files:
        if file not in store.manifest.segments:
            with suppress(FileNotFoundError):
                (store.layout.segments / file).unlink()
