"""Data of other formats becomes a store, and a store becomes data."""

from __future__ import annotations

from pathlib import Path

import pytest

from irene.dataset import Provenance, add_to_file, read_data, write_data
from irene.dataset.measured_data import table_of
from irene.dataset.store import Store
from irene.dataset.store.store_exchange import export_store, import_data
from irene.errors import UsageError
from irene.hardware import Hardware
from tests.dataset.conftest import make_table
from tests.dataset.store.made_up_trees import made_up_tree, origin


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_into_a_store_and_out_again(store: Store, tmp_path: Path, kind: str) -> None:
    table = make_table()
    write_data(table, tmp_path / "data", kind, Provenance(hardware="pc1: a desk"))
    ids, left_out = import_data(store, tmp_path / "data")
    assert (len(ids), left_out) == (4, [])
    assert import_data(store, tmp_path / "data")[0] == ids
    assert len(store.entries()) == 4
    out = store.table()
    order = sorted(range(4), key=lambda place: table.keys[place])
    assert out.equals(table.take(order))
    export_store(store, tmp_path / "out", kind)
    assert read_data(tmp_path / "out")[0].equals(out)
    assert read_data(store.path)[0].equals(out)
    assert store.check() == []


def test_files_of_irene_measure_keep_what_they_say(
    store: Store, tmp_path: Path
) -> None:
    machine = Hardware("lab", "gpu-board", "a shelf")
    for size in (1, 2):
        tree = made_up_tree(hardware=machine, batch_size=size, dtype="bf16")
        add_to_file(tree, tmp_path / "lab.parquet")
    import_data(store, tmp_path / "lab.parquet")
    entries = store.entries()
    assert {entry.origin.hardware for entry in entries} == {machine}
    assert {entry.spec.dtype for entry in entries} == {"bf16"}
    assert {entry.origin.engine for entry in entries} == {"import"}
    assert store.has(entries[0].spec, "lab")
    tree = next(store.trees(where=lambda entry: entry.spec.batch_size == 2))
    assert tree.root.energy.joules == 9.0
    assert tree.find("layer.0.fc").params == 20
    assert any("imported" in note for note in tree.notes)


def test_export_says_where_data_is_from(store: Store, tmp_path: Path) -> None:
    trees = [made_up_tree(batch_size=size) for size in (1, 2)]
    for tree in trees:
        store.add(tree, origin())
    store.add(made_up_tree(dtype="bf16"), origin())
    with pytest.raises(UsageError, match="--only FIELD=VALUE"):
        export_store(store, tmp_path / "x.parquet", "parquet")
    with pytest.raises(UsageError, match="no field 'colour'"):
        export_store(store, tmp_path / "x", "jsonl", only={"colour": "red"})
    out = tmp_path / "desk.parquet"
    table = export_store(store, out, "parquet", only={"dtype": "fp32"})
    assert table.equals(table_of(trees, "desk"))
    from irene.dataset import read_provenance

    told = read_provenance(out)
    assert told.hardware == "desk: a desk, 2 cores"
    assert told.date == "2026-01-02"
    assert "torch 2.9.1" in told.source
    assert "covers wall" in told.source
