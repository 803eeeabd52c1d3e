"""Our own format: `irene.nodes/1`, a Parquet file with one row per node.

The file's metadata holds the schema, the writer's version, the name of the data and
where it is from. Pages carry checksums, so that damage is found when it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from irene import __version__
from irene.dataset.formats.format_checks import check_table, first_problem
from irene.dataset.table import NODE_FEATURES, NodeTable, TreeKey
from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.spec import RunSpec
from irene.tables import pyarrow
from irene.whole_file import whole_file

SCHEMA = "irene.nodes/1"
METADATA_KEY = b"irene"
"""Where the metadata of a Parquet file of ours tells what it is."""
DISTURBED = "disturbed"
BYTES_PER_NODE = 4096  # far more than a node takes, unpacked


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where data is from, as far as it is known: machine, file or folder, date."""

    hardware: str = ""
    source: str = ""
    date: str = ""

    @classmethod
    def of_run(
        cls, source: str, spec: RunSpec, hardware: Hardware, date: str
    ) -> Provenance:
        """Where trees are from that were measured as a run was, and on one machine."""
        return cls(
            f"{hardware.name}: {hardware.description}",
            f"{source}, {spec.dtype}, {spec.attention} attention, "
            f"covers {hardware.covers}",
            date[:10],
        )

    @property
    def run(self) -> tuple[str, str, Hardware] | None:
        """Dtype, attention and machine, where `of_run` wrote it; else None."""
        found = re.fullmatch(r".+, (\w+), (\w+) attention, covers (.*)", self.source)
        if found is None:
            return None
        name, _, description = self.hardware.partition(": ")
        return found[1], found[2], Hardware(name, found[3], description)


def write_parquet(
    table: NodeTable, path: Path, provenance: Provenance | None = None
) -> None:
    """Write a table.

    Raises:
        UsageError: The table is not sound, or cannot be written.
        MissingExtraError: pyarrow is not installed.
    """
    pa, pq = pyarrow()
    check_table(table)
    metadata = {
        "schema": SCHEMA,
        "irene": __version__,
        "name": table.name,
        "provenance": asdict(provenance or Provenance()),
    }
    schema = _schema(pa, bool(table.disturbed.any()))
    schema = schema.with_metadata({METADATA_KEY: json.dumps(metadata).encode()})
    runs = [table.keys[tree] for tree in table.tree]
    keyed = {name: [getattr(run, name) for run in runs] for name in TreeKey._fields}
    columns = pa.table({**keyed, **table.to_columns()}, schema=schema)
    with whole_file(path) as file:
        pq.write_table(columns, file, compression="zstd", write_page_checksum=True)


def _schema(pa: Any, disturbed: bool) -> Any:
    """Names and types; a file in which nothing was disturbed has no column for that."""
    texts = [(name, pa.string()) for name in ("model", "path", "kind", "op")]
    wholes = [(name, pa.int64()) for name in ("batch_size", "seq_len", "parent")]
    numbers = [(name, pa.float64()) for name in (*NODE_FEATURES, "energy_j")]
    flags = [(DISTURBED, pa.bool_())] if disturbed else []
    return pa.schema([*texts, *wholes, *numbers, *flags])


def read_parquet(path: Path) -> NodeTable:
    """Read what `write_parquet` wrote.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is damaged, not ours, or of a newer version.
        MissingExtraError: pyarrow is not installed.
    """
    with _opened(path) as (parquet, metadata):
        columns = _columns(parquet, path)
    try:
        table = _table(str(metadata["name"]), columns)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(
            f"{path}: damaged: {type(error).__name__}: {error}"
        ) from error
    problem = first_problem(table)
    if problem:
        raise FormatError(f"{path}: {problem}")
    return table


def read_provenance(path: Path) -> Provenance:
    """Where the data of a Parquet file is from."""
    with _opened(path) as (_, metadata):
        stored = metadata.get("provenance")
    known = stored if isinstance(stored, dict) else {}
    names = Provenance.__slots__
    return Provenance(**{name: str(known.get(name, "")) for name in names})


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A Parquet file of ours and its metadata; errors are told in our words."""
    pa, pq = pyarrow()
    try:
        with path.open("rb") as file:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            yield parquet, metadata_of(parquet, path, SCHEMA)
    except (pa.ArrowException, ValueError, KeyError, MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
        raise FormatError(
            f"{path}: not a sound Parquet file: {in_short(error)}"
        ) from error


def _columns(parquet: Any, path: Path) -> dict[str, Any]:
    """Columns of a file as lists and arrays."""
    pa = pyarrow().pa
    expected = _schema(pa, DISTURBED in parquet.schema_arrow.names)
    if not parquet.schema_arrow.equals(expected, check_metadata=False):
        raise FormatError(f"{path}: the columns are not those of {SCHEMA}")
    _check_extent(parquet.metadata, path)
    data = parquet.read(use_threads=False)
    data.validate(full=True)
    if any(data.column(name).null_count for name in data.column_names):
        raise FormatError(f"{path}: a value is missing")
    return {
        field.name: data.column(field.name).to_pylist()
        if pa.types.is_string(field.type)
        else data.column(field.name).to_numpy()
        for field in expected
    }


def _check_extent(metadata: Any, path: Path) -> None:
    """Refuse sizes that no file of this length can have, before making room."""
    size = path.stat().st_size
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    chunks = [g.column(i) for g in groups for i in range(g.num_columns)]
    packed = sum(chunk.total_compressed_size for chunk in chunks)
    unpacked = sum(chunk.total_uncompressed_size for chunk in chunks)
    if (
        rows != metadata.num_rows
        or packed > size
        or any(c.total_compressed_size < 0 or c.num_values < 0 for c in chunks)
        or unpacked > BYTES_PER_NODE * (rows + 1)
    ):
        raise FormatError(f"{path}: damaged: sizes do not fit the file")


def metadata_of(parquet: Any, path: Path, expected: str) -> dict[str, Any]:
    """What a Parquet file tells of itself, if it is of a schema of ours."""
    text = (parquet.schema_arrow.metadata or {}).get(METADATA_KEY)
    if text is None:
        raise FormatError(f"{path}: a Parquet file, but not of irene ({expected})")
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: damaged metadata: {error}") from error
    schema = metadata.get("schema") if isinstance(metadata, dict) else None
    if schema != expected:
        raise FormatError(
            f"{path}: schema is {schema!r}, this version reads {expected!r}; "
            "a newer file needs a newer irene"
        )
    return dict(metadata)


def _table(name: str, columns: dict[str, Any]) -> NodeTable:
    named = [columns[key] for key in TreeKey._fields]
    runs = list(zip(*(np.asarray(c, object).tolist() for c in named), strict=True))
    starts = [*np.flatnonzero(columns["parent"] == -1).tolist(), len(runs)]
    if not runs or starts[0] != 0:
        raise ValueError("the first row is not a model")
    for start, stop in pairwise(starts):
        if len(set(runs[start:stop])) > 1:
            raise ValueError(f"row {start}: a tree with nodes of different runs")
    keys = [TreeKey(*runs[start]) for start in starts[:-1]]
    return NodeTable.from_columns(name, keys, columns)


def in_short(error: Exception) -> str:
    """What a library says of an error, on one line that is not long."""
    return " ".join(str(error).split())[:200]
