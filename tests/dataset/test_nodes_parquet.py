"""The Parquet format: versions, provenance, damage."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from irene import __version__
from irene.dataset import (
    NodeTable,
    Provenance,
    read_data,
    read_parquet,
    read_provenance,
    write_parquet,
)
from irene.errors import FormatError, IreneError, MissingExtraError

from .conftest import make_table

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = importlib.import_module("pyarrow.parquet")


@pytest.fixture
def file(tmp_path: Path, table: NodeTable) -> Path:
    path = tmp_path / "data.parquet"
    write_parquet(table, path, Provenance("pc1", "a folder", "2021-05-01"))
    return path


def rewrite(file: Path, change: Any, metadata: dict[str, Any] | None = None) -> None:
    """Change a sound file with pyarrow alone."""
    data = pq.read_table(file)
    stored = json.loads(data.schema.metadata[b"irene"])
    stored.update(metadata or {})
    data = change(data)
    data = data.replace_schema_metadata({b"irene": json.dumps(stored).encode()})
    pq.write_table(data, file)


def with_column(name: str, row: int, value: object) -> Any:
    def change(data: Any) -> Any:
        values = data.column(name).to_pylist()
        values[row] = value
        place = data.column_names.index(name)
        field = data.schema.field(name)
        return data.set_column(place, field, pa.array(values, field.type))

    return change


def test_the_file_says_what_it_is(file: Path) -> None:
    stored = json.loads(pq.read_schema(file).metadata[b"irene"])
    assert stored == {
        "schema": "irene.nodes/1",
        "irene": __version__,
        "name": "made-up",
        "provenance": {
            "hardware": "pc1",
            "source": "a folder",
            "date": "2021-05-01",
        },
    }
    assert read_provenance(file) == Provenance("pc1", "a folder", "2021-05-01")


def test_others_can_read_it(file: Path, table: NodeTable) -> None:
    data = pq.read_table(file)
    assert data.num_rows == len(table)
    assert {"model", "batch_size", "seq_len", "path", "parent"} <= set(
        data.column_names
    )
    assert np.array_equal(data.column("energy_j").to_numpy(), table.energy_j)


def test_a_name_can_be_given(file: Path) -> None:
    assert read_data(file)[0].name == "made-up"
    assert read_data(file, name="mine")[0].name == "mine"


def test_a_newer_version_is_refused(file: Path) -> None:
    rewrite(file, lambda data: data, {"schema": "irene.nodes/2"})
    with pytest.raises(FormatError, match=r"'irene.nodes/2'.* needs a newer irene"):
        read_parquet(file)


def test_a_foreign_file_is_refused(file: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), file)
    for read in (read_parquet, read_provenance):
        with pytest.raises(FormatError, match="but not of irene"):
            read(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_column("energy_j", 3, -1.0), "row 3: energy_j must be positive"),
        (with_column("energy_j", 3, None), "a value is missing"),
        (with_column("cpu", 2, float("inf")), "row 2: cpu must be finite"),
        (with_column("parent", 4, 9), "row 4: the parent, row 9, is not above it"),
        (with_column("parent", 4, 4), "row 4: the parent, row 4, is not above it"),
        (with_column("parent", 3, 999), "row 3: the parent"),
        (with_column("parent", 3, -7), "row 3: the parent"),
        (with_column("parent", 0, 3), "the first row is not a model"),
        (with_column("parent", 2, -1), "two trees have the key"),
        (with_column("kind", 0, "module"), "does not begin with its model"),
        (with_column("kind", 2, "atom"), "damaged"),
        (with_column("kind", 2, "model"), "row 2: only the first row"),
        (with_column("path", 2, ""), "row 2: only the first row"),
        (with_column("batch_size", 2, 7), "nodes of different runs"),
        (lambda data: data.slice(0, 0), "the first row is not a model"),
        (lambda data: data.drop_columns(["op"]), "the columns are not those"),
        (
            lambda data: pa.concat_tables([data, data]),
            "two trees have the key",
        ),
    ],
)
def test_a_damaged_table_is_refused(file: Path, change: Any, message: str) -> None:
    rewrite(file, change)
    with pytest.raises(FormatError, match=message):
        read_parquet(file)


def test_every_changed_byte_is_noticed_or_harmless(
    file: Path, table: NodeTable
) -> None:
    sound = file.read_bytes()
    for place in range(0, len(sound), 7):
        changed = bytearray(sound)
        changed[place] ^= 0xFF
        file.write_bytes(changed)
        try:
            again = read_parquet(file)
        except IreneError:
            continue
        assert again.equals(table), place


@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    place=st.floats(0, 1, exclude_max=True),
    removed=st.integers(0, 40),
    added=st.binary(max_size=10),
)
def test_mutated_bytes_never_break_the_reader(
    file: Path, place: float, removed: int, added: bytes
) -> None:
    sound = file.parent / "sound.parquet"
    if not sound.exists():
        write_parquet(make_table(), sound)
    content = sound.read_bytes()
    start = int(place * len(content))
    file.write_bytes(content[:start] + added + content[start + removed :])
    with contextlib.suppress(IreneError):
        read_parquet(file)


def test_without_pyarrow_the_message_says_what_to_install(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("pyarrow")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'irene-energy\[data\]'"):
        read_data(file)
