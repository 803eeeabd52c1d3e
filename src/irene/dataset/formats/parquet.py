"""Our own format: `irene.nodes/1`, a Parquet file with one row per node.

The file's metadata holds the schema, the writer's version, the name of the data and
where it is from. Pages carry checksums, so that damage is found when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from irene import __version__
from irene.dataset.formats.values import first_problem
from irene.dataset.table import FEATURES, NodeTable, TreeKey
from irene.errors import FormatError, MissingExtraError, UsageError
from irene.tree import KINDS
from irene.whole_file import whole_file

__all__ = ["SCHEMA", "Provenance", "read_parquet", "read_provenance", "write_parquet"]

SCHEMA = "irene.nodes/1"
METADATA_KEY = b"irene"
NODE_FEATURES = tuple(name for name in FEATURES if name not in TreeKey._fields)
BYTES_PER_NODE = 4096  # far more than a node takes, unpacked


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where data is from.

    Attributes:
        hardware: The machine that was measured, "" if unknown.
        source: The file or folder it was made of, "" if none.
        date: When it was measured, as the caller wrote it, "" if unknown.
    """

    hardware: str = ""
    source: str = ""
    date: str = ""


def write_parquet(
    table: NodeTable, path: Path, provenance: Provenance | None = None
) -> None:
    """Write a table.

    Args:
        table: What is written.
        path: The file; one that is there is replaced.
        provenance: Where the data is from.

    Raises:
        UsageError: The table is not sound, or cannot be written.
        MissingExtraError: pyarrow is not installed.
    """
    pa, pq = _pyarrow()
    problem = first_problem(table)
    if problem:
        raise UsageError(f"{table.name}: {problem}")
    metadata = {
        "schema": SCHEMA,
        "irene": __version__,
        "name": table.name,
        "provenance": asdict(provenance or Provenance()),
    }
    schema = _schema(pa).with_metadata({METADATA_KEY: json.dumps(metadata).encode()})
    columns = pa.table(_columns(table), schema=schema)
    with whole_file(path) as file:
        pq.write_table(columns, file, compression="zstd", write_page_checksum=True)


def _schema(pa: Any) -> Any:
    texts = [(name, pa.string()) for name in ("model", "path", "kind", "op")]
    wholes = [(name, pa.int64()) for name in ("batch_size", "seq_len", "parent")]
    numbers = [(name, pa.float64()) for name in (*NODE_FEATURES, "energy_j")]
    fields = [pa.field(name, kind) for name, kind in (*texts, *wholes, *numbers)]
    return pa.schema(fields)


def _columns(table: NodeTable) -> dict[str, Any]:
    keys = [table.keys[tree] for tree in table.tree]
    first = table.starts[:-1][table.tree]
    return {
        "model": [key.model for key in keys],
        "batch_size": [key.batch_size for key in keys],
        "seq_len": [key.seq_len for key in keys],
        "parent": np.where(table.parent < 0, -1, table.parent - first),
        "path": list(table.path),
        "kind": [KINDS[kind] for kind in table.kind],
        "op": list(table.op),
        **{name: table.features[name] for name in NODE_FEATURES},
        "energy_j": table.energy_j,
    }


def read_parquet(path: Path) -> NodeTable:
    """Read what `write_parquet` wrote.

    Args:
        path: The file.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is damaged, not ours, or of a newer version.
        MissingExtraError: pyarrow is not installed.
    """
    metadata, columns = _read(path, with_columns=True)
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
    """Where the data of a Parquet file is from.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is damaged, not ours, or of a newer version.
        MissingExtraError: pyarrow is not installed.
    """
    metadata, _ = _read(path, with_columns=False)
    stored = metadata.get("provenance")
    known = stored if isinstance(stored, dict) else {}
    names = Provenance.__slots__
    return Provenance(**{name: str(known.get(name, "")) for name in names})


def _read(path: Path, *, with_columns: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metadata of a file and its columns as lists and arrays."""
    pa, pq = _pyarrow()
    try:
        with path.open("rb") as file:
            return _read_open(pa, pq, file, path, with_columns)
    except (pa.ArrowException, ValueError, KeyError, MemoryError) as error:
        message = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: not a sound Parquet file: {message}") from error
    except OSError as error:
        if error.strerror:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
        message = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: not a sound Parquet file: {message}") from error


def _read_open(
    pa: Any, pq: Any, file: Any, path: Path, with_columns: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    parquet = pq.ParquetFile(file, page_checksum_verification=True)
    stored = parquet.schema_arrow
    metadata = _metadata(stored.metadata, path)
    if not with_columns:
        return metadata, {}
    expected = _schema(pa)
    if not stored.equals(expected, check_metadata=False):
        raise FormatError(f"{path}: the columns are not those of {SCHEMA}")
    _check_extent(parquet.metadata, path)
    data = parquet.read(use_threads=False)
    data.validate(full=True)
    if any(data.column(name).null_count for name in data.column_names):
        raise FormatError(f"{path}: a value is missing")
    return metadata, {
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


def _metadata(stored: dict[bytes, bytes] | None, path: Path) -> dict[str, Any]:
    text = (stored or {}).get(METADATA_KEY)
    if text is None:
        raise FormatError(f"{path}: a Parquet file, but not of irene ({SCHEMA})")
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: damaged metadata: {error}") from error
    schema = metadata.get("schema") if isinstance(metadata, dict) else None
    if schema != SCHEMA or not isinstance(metadata.get("name"), str):
        raise FormatError(
            f"{path}: schema is {schema!r}, this version reads {SCHEMA!r}; "
            "a newer file needs a newer irene"
        )
    return dict(metadata)


def _table(name: str, columns: dict[str, Any]) -> NodeTable:
    parent = np.asarray(columns["parent"], dtype=np.int64)
    starts = np.append(np.flatnonzero(parent == -1), len(parent)).astype(np.int64)
    sizes = [np.asarray(columns[key], np.int64) for key in ("batch_size", "seq_len")]
    runs = list(zip(columns["model"], *map(np.ndarray.tolist, sizes), strict=True))
    _check_runs(runs, starts)
    first = np.repeat(starts[:-1], np.diff(starts))
    return NodeTable(
        name,
        tuple(TreeKey(*runs[start]) for start in starts[:-1]),
        starts,
        np.where(parent == -1, -1, parent + first).astype(np.int64),
        np.array([KINDS.index(kind) for kind in columns["kind"]], dtype=np.int64),
        tuple(columns["path"]),
        tuple(columns["op"]),
        {
            **dict(
                zip(TreeKey._fields[1:], (s.astype(float) for s in sizes), strict=True)
            ),
            **{key: np.array(columns[key], np.float64) for key in NODE_FEATURES},
        },
        np.array(columns["energy_j"], dtype=np.float64),
    )


def _check_runs(runs: Sequence[tuple[str, int, int]], starts: Any) -> None:
    if not len(runs) or starts[0] != 0:
        raise ValueError("the first row is not a model")
    for start, stop in pairwise(starts):
        if len(set(runs[start:stop])) > 1:
            raise ValueError(f"row {start}: a tree with nodes of different runs")


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError(
            "Parquet files need pyarrow: pip install 'irene-energy[data]'"
        ) from error
