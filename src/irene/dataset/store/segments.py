"""Segments: Parquet files of trees that appear whole or not at all and never change.

A segment is written in `writing/` under a lock of its own, which a killed process
leaves free, and moved to `segments/` when all of it is on disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from irene import __version__
from irene.dataset.store.columns import arrow, arrow_schema, filled
from irene.dataset.store.entry import Entry
from irene.dataset.store.layout import Layout, sync_folder
from irene.dataset.store.locking import held, take
from irene.dataset.store.manifest import Segment
from irene.errors import FormatError, IreneError, UsageError

__all__ = [
    "GROUP_ROWS",
    "SCHEMA",
    "SegmentWriter",
    "entry_table",
    "entry_tables",
    "headers",
    "row_groups",
    "sha256_of",
    "starts_of",
    "verify",
    "wanted_tables",
]

SCHEMA = "irene.segment/1"
METADATA_KEY = b"irene"
GROUP_ROWS = 122_880
"""Rows that are packed, read and counted together; the usual size for DuckDB."""
CHUNK_BYTES = 1 << 20

Rows = Mapping[str, Sequence[Any]]


def entry_table(entry: Entry, told: Mapping[str, Any], rows: Rows) -> Any:
    """The rows of one entry as an Arrow table.

    Args:
        entry: Named in every row, and kept as a whole in the first.
        told: What else belongs to the entry and to no node.
        rows: Columns of its nodes; one that is missing is unknown.
    """
    pa = arrow().pa
    header = json.dumps({"entry": entry.to_dict(), **told}, allow_nan=False)
    size = len(rows["path"])
    columns = {
        **rows,
        "entry": [entry.id] * size,
        "header": [header, *[None] * (size - 1)],
    }
    schema = arrow_schema()
    return pa.table(
        [
            pa.array(columns[f.name], f.type)
            if f.name in columns
            else pa.nulls(size, f.type)
            for f in schema
        ],
        schema=schema,
    )


class SegmentWriter:
    """Writes one new segment; opened with `with`.

    Args:
        layout: The store it is for.

    Attributes:
        rows: Rows written so far.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._name = f"{secrets.token_hex(12)}.parquet"
        self._path = layout.writing / self._name
        self._parquet: Any = None
        self._handle = -1
        self.rows = 0

    def __enter__(self) -> Self:
        """Make the file; nobody who holds the store's lock sees it without its own."""
        try:
            self._layout.writing.mkdir(exist_ok=True)
            with held(self._layout.lock):
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._handle = os.open(self._path, flags, 0o666)
                take(self._handle)
            self._file = os.fdopen(os.dup(self._handle), "wb")
        except OSError as error:
            self._drop()
            raise _cannot_write(self._path, error) from error
        return self

    def write(self, table: Any) -> None:
        """Add whole entries, which are then read together.

        Raises:
            IreneError: They cannot be written.
        """
        schema = arrow_schema().with_metadata({METADATA_KEY: _about()})
        try:
            if self._parquet is None:
                self._parquet = arrow().pq.ParquetWriter(
                    self._file, schema, compression="zstd", write_page_checksum=True
                )
            self._parquet.write_table(
                table.cast(schema), row_group_size=max(1, len(table))
            )
        except OSError as error:
            raise _cannot_write(self._path, error) from error
        self.rows += len(table)

    def copy(self, path: Path, segment: Segment) -> None:
        """Take over a whole segment of another store, instead of `write`.

        Args:
            path: The file.
            segment: What the manifest there says of it.

        Raises:
            FormatError: It is not what was written there.
            IreneError: It cannot be written.
        """
        digest = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    digest.update(chunk)
                    self._file.write(chunk)
        except FileNotFoundError:
            raise FormatError(f"{path}: the file is missing") from None
        except OSError as error:
            raise _cannot_write(self._path, error) from error
        if digest.hexdigest() != segment.sha256:
            raise FormatError(f"{path}: the checksum is not that of what was written")

    def finish(self) -> Segment:
        """Wait until all of it is on disk.

        Raises:
            IreneError: It cannot be written.
        """
        try:
            if self._parquet is not None:
                self._parquet.close()
            self._file.flush()
            sha256 = sha256_of(self._path)
            os.fsync(self._handle)
            return Segment(self._name, sha256, self._path.stat().st_size)
        except OSError as error:
            raise _cannot_write(self._path, error) from error

    def place(self) -> None:
        """Move it to the segments; the caller holds the store's lock.

        Raises:
            IreneError: It cannot be moved.
        """
        try:
            self._layout.segments.mkdir(exist_ok=True)
            self._path.rename(self._layout.segments / self._name)
            sync_folder(self._layout.segments)
        except OSError as error:
            raise _cannot_write(self._path, error) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file; one that was not placed goes."""
        self._drop()

    def _drop(self) -> None:
        if self._handle < 0:
            return
        self._path.unlink(missing_ok=True)
        parquet, self._parquet = self._parquet, None
        try:
            if parquet is not None and parquet.is_open:
                parquet.close()
            self._file.close()
        except (OSError, AttributeError):  # a full disk: the file is gone already
            pass
        os.close(self._handle)
        self._handle = -1


def _about() -> bytes:
    return json.dumps({"schema": SCHEMA, "irene": __version__}).encode()


def _cannot_write(path: Path, error: OSError) -> IreneError:
    what = error.strerror or str(error)
    return IreneError(
        f"cannot write {path}: {what}; what is in the store is kept: make room and "
        "give the same command again"
    )


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def verify(path: Path, segment: Segment) -> None:
    """Compare a file with what the manifest says of it.

    Raises:
        FormatError: It is missing or another.
        UsageError: It cannot be read.
    """
    try:
        size_bytes = path.stat().st_size
        if size_bytes != segment.size_bytes:
            raise FormatError(
                f"{path}: {size_bytes:,} bytes, {segment.size_bytes:,} were written"
            )
        if sha256_of(path) != segment.sha256:
            raise FormatError(f"{path}: the checksum is not that of what was written")
    except FileNotFoundError:
        raise FormatError(f"{path}: the file is missing") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def row_groups(
    path: Path,
    columns: Sequence[str] | None = None,
    wanted: Collection[str] | None = None,
) -> Iterator[Any]:
    """The row groups of a segment, each with whole entries only.

    Args:
        path: The file.
        columns: Those to read; None for all, also those it was written without.
        wanted: Ids; groups without any of them may be left out.

    Raises:
        FileNotFoundError: It is not there.
        FormatError: It is damaged, not ours, or of a newer version.
    """
    pa, pq = arrow()
    try:
        with path.open("rb") as file:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            _check_schema(parquet.schema_arrow.metadata, path)
            there = parquet.schema_arrow.names
            picked = columns and [name for name in columns if name in there]
            for group in range(parquet.num_row_groups):
                if wanted is None or _may_hold(parquet.metadata, group, wanted):
                    table = parquet.read_row_group(
                        group, columns=picked, use_threads=False
                    )
                    yield filled(table, columns)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, ValueError, KeyError, OSError) as error:
        message = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: not a sound segment: {message}") from error


def _check_schema(stored: Mapping[bytes, bytes] | None, path: Path) -> None:
    try:
        schema = json.loads((stored or {})[METADATA_KEY])["schema"]
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: a Parquet file, but no segment of ours") from error
    if schema != SCHEMA:
        raise FormatError(
            f"{path}: schema is {schema!r}, this version reads {SCHEMA!r}; "
            "a newer store needs a newer irene"
        )


def _may_hold(metadata: Any, group: int, wanted: Collection[str]) -> bool:
    chunk = metadata.row_group(group).column(0)
    bounds = chunk.statistics
    if chunk.path_in_schema != "entry" or bounds is None or not bounds.has_min_max:
        return True
    return any(bounds.min <= name <= bounds.max for name in wanted)


def starts_of(table: Any) -> Any:
    """First row of every entry, and the number of rows at the end."""
    parent = table.column("parent").to_numpy()
    return np.append(np.flatnonzero(parent == -1), len(parent))


def wanted_tables(
    path: Path, wanted: Collection[str]
) -> Iterator[tuple[list[str], Any]]:
    """Some entries of a segment, row group by row group, with all columns.

    Args:
        path: The file.
        wanted: Their ids.

    Yields:
        Ids of entries, and the rows of them.

    Raises:
        FileNotFoundError: It is not there.
        FormatError: It is damaged, not ours, or of a newer version.
    """
    for table in row_groups(path, wanted=wanted):
        starts = starts_of(table)
        names = table.column("entry").take(starts[:-1]).to_pylist()
        picked = np.array([name in wanted for name in names], dtype=bool)
        if picked.all():
            yield names, table
        elif picked.any():
            rows = np.repeat(picked, np.diff(starts))
            kept = [name for name in names if name in wanted]
            yield kept, table.filter(arrow().pa.array(rows))


def entry_tables(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Some entries of a segment, each with all of its columns.

    Args:
        path: The file.
        wanted: Their ids.

    Raises:
        FileNotFoundError: It is not there.
        FormatError: It is damaged, not ours, or of a newer version.
    """
    for names, table in wanted_tables(path, wanted):
        starts = starts_of(table).tolist()
        for name, start, stop in zip(names, starts, starts[1:], strict=False):
            yield name, table.slice(start, stop - start)


def headers(path: Path) -> list[tuple[dict[str, Any], int]]:
    """What a segment says of its entries, and how many rows each has.

    All of the file is read, so that damage is found.

    Raises:
        FileNotFoundError: It is not there.
        FormatError: It is damaged, not ours, or of a newer version.
    """
    found = []
    for table in row_groups(path):
        starts = starts_of(table)
        told = table.column("header").take(starts[:-1]).to_pylist()
        sizes = np.diff(starts).tolist()
        if not told or None in told:
            raise FormatError(f"{path}: an entry without a header")
        found += [(json.loads(t), n) for t, n in zip(told, sizes, strict=True)]
    return found
