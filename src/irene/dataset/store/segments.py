"""Segments: Parquet files of trees that appear whole or not at all and never change.

A segment is made in memory, written to `writing/` under the store's lock, and moved to
`segments/` when all of it is on disk: what lies in `writing/` while nobody holds the
lock was left by a killed process.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from irene import __version__
from irene.dataset.formats.nodes_parquet import METADATA_KEY, in_short, metadata_of
from irene.dataset.store.store_files import (
    Manifest,
    Segment,
    StoreFiles,
    cannot_write,
    sync_folder,
)
from irene.dataset.store.tree_rows import arrow_schema, filled, starts_of
from irene.errors import FormatError, UsageError
from irene.tables import pyarrow

SCHEMA = "irene.segment/1"
GROUP_ROWS = 122_880
"""Rows that are packed, read and counted together."""
SEGMENT_ROWS = 20 * GROUP_ROWS

Tables = Iterable[tuple[Sequence[str], Any]]
"""Ids of some whole entries, and the rows of these."""


def segments_of(tables: Tables) -> Iterator[tuple[list[str], bytes]]:
    """Entries in segments of a good size: the ids in each, and its content."""
    about = json.dumps({"schema": SCHEMA, "irene": __version__}).encode()
    schema = arrow_schema().with_metadata({METADATA_KEY: about})
    options = {"compression": "zstd", "write_page_checksum": True}
    groups = _groups(tables)
    while (first := next(groups, None)) is not None:
        content, ids, rows = io.BytesIO(), [], 0
        with pyarrow().pq.ParquetWriter(content, schema, **options) as file:
            for names, table in chain([first], groups):
                file.write_table(table.cast(schema), row_group_size=len(table))
                ids += names
                rows += len(table)
                if rows >= SEGMENT_ROWS:
                    break
        yield ids, content.getvalue()


def _groups(tables: Tables) -> Iterator[tuple[list[str], Any]]:
    """Entries that are read together."""
    ids: list[str] = []
    parts: list[Any] = []
    rows = 0
    for names, table in tables:
        ids += names
        parts.append(table)
        rows += len(table)
        if rows >= GROUP_ROWS:
            yield ids, pyarrow().pa.concat_tables(parts)
            ids, parts, rows = [], [], 0
    if parts:
        yield ids, pyarrow().pa.concat_tables(parts)


def place_segment(files: StoreFiles, content: bytes) -> Segment:
    """Put a new segment on disk; the caller holds the store's lock."""
    name = f"{secrets.token_hex(12)}.parquet"
    path = files.writing / name
    try:
        for folder in (files.writing, files.segments):
            folder.mkdir(exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        path.rename(files.segments / name)
        sync_folder(files.segments)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise
    return Segment.of(name, content)


def content_of(files: StoreFiles, segment: Segment) -> bytes:
    """A segment of a store, if it is what the manifest says of it."""
    path = files.segments / segment.file
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FormatError(f"{path}: the file is missing") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if len(content) != segment.size_bytes:
        raise FormatError(
            f"{path}: {len(content):,} bytes, {segment.size_bytes:,} were written"
        )
    if hashlib.sha256(content).hexdigest() != segment.sha256:
        raise FormatError(f"{path}: the checksum is not that of what was written")
    return content


def read_entries(
    manifest: Manifest,
    wanted: Collection[str],
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[list[str], Any]]:
    """Entries of a store, row group by row group, while others add to it and pack it.

    A segment may be packed into another while it waits: what was not read is then
    looked for where it is now.
    """
    files, left = manifest.files, set(wanted)
    missing: str | None = None
    while left:
        within: dict[str, set[str]] = {}
        for name in sorted(left):
            entry = manifest.entries.get(name)
            if entry is None:
                raise FormatError(
                    f"{files.folder}: {name} is not in the store any more"
                )
            within.setdefault(entry.segment, set()).add(name)
        for file, ids in within.items():
            path = files.segments / file
            try:
                yield from _wanted_tables(path, ids, columns)
            except FileNotFoundError:
                if file == missing:
                    raise FormatError(
                        f"{path} is missing: `irene data check {files.folder}` puts "
                        "the store in order"
                    ) from None
                missing = file
                manifest.refresh()
                break
            left -= ids


def _wanted_tables(
    path: Path, wanted: Collection[str], columns: Sequence[str] | None = None
) -> Iterator[tuple[list[str], Any]]:
    """Some entries of a segment; FileNotFoundError comes before the first."""
    for table in _row_groups(path, columns, wanted):
        starts = starts_of(table)
        names = table.column("entry").take(starts[:-1]).to_pylist()
        picked = np.array([name in wanted for name in names], dtype=bool)
        if picked.all():
            yield names, table
        elif picked.any():
            rows = np.repeat(picked, np.diff(starts))
            kept = [name for name in names if name in wanted]
            yield kept, table.filter(pyarrow().pa.array(rows))


def verified_tables(
    files: StoreFiles,
    segments: Mapping[str, Segment],
    wanted: Mapping[str, Sequence[str]],
) -> Iterator[tuple[list[str], Any]]:
    """Entries of segments that are compared with their checksums before."""
    for file, ids in wanted.items():
        content_of(files, segments[file])
        yield from _wanted_tables(files.segments / file, frozenset(ids))


def entry_headers(path: Path) -> list[tuple[dict[str, Any], int]]:
    """What a segment says of its entries, and how many rows each has.

    All of the file is read, so that damage is found.
    """
    found = []
    for table in _row_groups(path):
        starts = starts_of(table)
        told = table.column("header").take(starts[:-1]).to_pylist()
        sizes = np.diff(starts).tolist()
        if not told or None in told:
            raise FormatError(f"{path}: an entry without a header")
        found += [(json.loads(t), n) for t, n in zip(told, sizes, strict=True)]
    if not found:
        raise FormatError(f"{path}: no entry in it")
    return found


def _row_groups(
    path: Path,
    columns: Sequence[str] | None = None,
    wanted: Collection[str] | None = None,
) -> Iterator[Any]:
    """Row groups, each with whole entries; those without any wanted may be left out."""
    pa, pq = pyarrow()
    try:
        with path.open("rb") as file:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            metadata_of(parquet, path, SCHEMA)
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
        raise FormatError(f"{path}: not a sound segment: {in_short(error)}") from error


def _may_hold(metadata: Any, group: int, wanted: Collection[str]) -> bool:
    chunk = metadata.row_group(group).column(0)
    bounds = chunk.statistics
    if chunk.path_in_schema != "entry" or bounds is None or not bounds.has_min_max:
        return True
    return any(bounds.min <= name <= bounds.max for name in wanted)
