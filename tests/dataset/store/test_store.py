"""What is put into a store comes out of it, and nothing is mixed silently."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from irene.dataset import table_of
from irene.dataset.store import Origin, Store, is_store
from irene.errors import FormatError, UsageError
from irene.spec import RunSpec
from irene.tables import pyarrow
from tests.dataset.store.made_up_trees import DESK, SHELF, TORCH, made_up_tree, origin


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


def test_trees_come_back_as_they_were(store: Store) -> None:
    trees = [made_up_tree(batch_size=size) for size in (1, 2, 4)]
    for tree in trees:
        store.add(tree, origin())
    again = list(Store.open(store.path).trees())
    assert sorted(t.spec.batch_size for t in again) == [1, 2, 4]
    for tree in again:
        assert tree == next(t for t in trees if t.spec == tree.spec)


def test_a_folded_tree_is_kept_unfolded(store: Store) -> None:
    tree = made_up_tree()
    store.add(tree.fold(), origin())
    assert next(store.trees()) == tree.fold().unfold()


def test_the_manifest_alone_tells_of_entries(store: Store) -> None:
    tree = made_up_tree()
    name = store.add(tree, origin())
    for segment in store.files.segments.iterdir():
        segment.write_bytes(b"not read")
    (entry,) = Store.open(store.path).entries()
    assert (entry.id, entry.spec, entry.hardware) == (name, tree.spec, "desk")
    assert (entry.state, entry.nodes, entry.origin) == ("measured", 9, origin())
    assert entry.segment


def test_the_same_again_changes_nothing(store: Store) -> None:
    first = store.add(made_up_tree(), origin())
    before = store.files.manifest.read_bytes()
    assert store.add(made_up_tree(), origin()) == first
    assert Store.open(store.path).add(made_up_tree(), origin()) == first
    assert store.files.manifest.read_bytes() == before
    other = store.add(made_up_tree(), origin(host="there"))
    assert other != first
    assert len(store.entries()) == 2


def test_once_per_run_if_asked(store: Store) -> None:
    first = store.add(made_up_tree(), origin())
    again = store.add(made_up_tree(scale=2), origin(), unless_there=True)
    assert again == first
    newer = origin(software={**TORCH, "torch": "3.0"})
    assert store.add(made_up_tree(scale=2), newer, unless_there=True) != first


def test_has_knows_machine_and_software(store: Store) -> None:
    spec = made_up_tree().spec
    assert not store.has(spec, "desk")
    store.add(made_up_tree(), origin())
    other = Store.open(store.path)
    assert other.has(spec, "desk")
    assert other.has(spec, "desk", "torch 2.9.1, transformers 5.1.0")
    assert not other.has(spec, "desk", "torch 3.0, transformers 5.1.0")
    assert not other.has(spec, "shelf")
    assert not other.has(RunSpec("tiny", batch_size=3, seq_len=8), "desk")


def test_what_others_add_is_seen(store: Store) -> None:
    reader = Store.open(store.path)
    store.add(made_up_tree(), origin())
    assert reader.has(made_up_tree().spec, "desk")
    assert len(list(reader.trees())) == 1


def test_failures_are_kept_with_their_reason(store: Store) -> None:
    spec = made_up_tree().spec
    name = store.add_failure(spec, origin(), "out of memory")
    assert store.add_failure(spec, origin(), "out of memory") == name
    (entry,) = Store.open(store.path).entries()
    assert (entry.state, entry.reason, entry.nodes) == ("failed", "out of memory", 0)
    assert not store.has(spec, "desk")
    assert list(store.trees()) == []


def test_another_machine_of_the_same_name_is_refused(store: Store) -> None:
    store.add(made_up_tree(), origin())
    with pytest.raises(UsageError, match=r"another machine 'desk'.*name of its own"):
        store.add(made_up_tree(hardware=SHELF), origin(SHELF))
    wall = replace(DESK, covers="gpu-board")
    with pytest.raises(UsageError, match="gpu-board"):
        store.add(made_up_tree(hardware=wall), origin(wall))
    assert len(store.entries()) == 1


def test_a_tree_without_energy_or_run_is_refused(store: Store) -> None:
    tree = made_up_tree()
    with pytest.raises(UsageError, match="carry energy"):
        store.add(tree._derive(tree.columns, energy=None), origin())


def test_trees_are_chosen(store: Store) -> None:
    shelf = replace(SHELF, name="shelf")
    store.add(made_up_tree(), origin())
    store.add(made_up_tree(hardware=shelf), origin(shelf))
    store.add(made_up_tree(phase="decode"), origin())
    assert [t.hardware for t in store.trees("shelf")] == [shelf]
    decode = list(store.trees(where=lambda entry: entry.spec.phase == "decode"))
    assert [tree.spec.phase for tree in decode] == ["decode"]


def test_a_table_is_that_of_the_trees(store: Store) -> None:
    trees = [
        made_up_tree(model, scale, batch_size=size)
        for scale, (model, size) in enumerate(
            [("a", 1), ("a", 2), ("b", 1), ("b", 12)], start=1
        )
    ]
    for tree in reversed(trees):
        store.add(tree, origin())
    store.add(made_up_tree("a", phase="decode"), origin())
    table = store.table()
    assert table.name == "desk"
    assert table.equals(table_of(trees, "desk"))


def test_a_table_mixes_nothing_silently(store: Store) -> None:
    shelf = replace(SHELF, name="shelf")
    store.add(made_up_tree(), origin())
    store.add(made_up_tree(hardware=shelf), origin(shelf))
    with pytest.raises(UsageError, match=r"2 machines .desk; shelf.*--hardware"):
        store.table()
    newer = origin(software={**TORCH, "torch": "3.0"})
    store.add(made_up_tree(batch_size=4), newer)
    with pytest.raises(UsageError, match="2 versions of software"):
        store.table("desk")
    assert len(store.table("desk", allow_mixed=True).keys) == 2
    old = store.table("desk", software=origin().software_name)
    assert [key.batch_size for key in old.keys] == [2]
    store.add(made_up_tree(dtype="bf16"), origin())
    with pytest.raises(UsageError, match=r"2 kinds of run.*bf16"):
        store.table("desk", allow_mixed=True)
    with pytest.raises(UsageError, match="no measured forward pass on nowhere"):
        store.table("nowhere")


def test_what_was_left_open_is_no_other_kind_of_run(store: Store) -> None:
    """A run is what ran, whether it was asked for or chosen."""
    store.add(made_up_tree(), origin())
    store.add(made_up_tree(dtype="fp32", batch_size=4), origin())
    assert len({entry.spec.chosen for entry in store.entries()}) == 2
    assert [key.batch_size for key in store.table().keys] == [2, 4]


def test_of_two_measurements_the_same_one_counts_everywhere(tmp_path: Path) -> None:
    tables = []
    for order in ((1, 2), (2, 1)):
        store = Store.open(tmp_path / str(order[0]), create=True)
        for scale in order:
            store.add(made_up_tree(scale=scale), origin())
        tables.append(store.table())
    assert len(tables[0].keys) == 1
    assert tables[0].equals(tables[1])


def test_opening_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no store .*irene collect"):
        Store.open(tmp_path / "none")
    (tmp_path / "data.parquet").touch()
    with pytest.raises(UsageError, match="irene data merge"):
        Store.open(tmp_path)
    with pytest.raises(UsageError, match="empty or new"):
        Store.open(tmp_path, create=True)
    with pytest.raises(UsageError, match="is a file"):
        Store.open(tmp_path / "data.parquet", create=True)
    assert not is_store(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": "irene.store/2"}', "a newer store needs a newer irene"),
        ('{"schema": "other/1"}', "not a store of ours"),
        ("{", "damaged"),
    ],
)
def test_a_store_of_others_is_refused(store: Store, text: str, message: str) -> None:
    store.files.about.write_text(text)
    with pytest.raises(FormatError, match=message):
        Store.open(store.path)
    assert is_store(store.path)


def test_a_segment_of_fewer_columns_is_read(store: Store) -> None:
    """As one is that was written before a column was added."""
    store.add(made_up_tree(), origin())
    (path,) = store.files.segments.iterdir()
    pq = pyarrow().pq
    table = pq.read_table(path)
    fewer = table.drop_columns(["more", "feature_repeats"])
    pq.write_table(fewer.replace_schema_metadata(table.schema.metadata), path)
    (tree,) = Store.open(store.path).trees()
    assert "rounds_busy" not in tree.features
    assert tree.find("layer.1").energy == made_up_tree().find("layer.1").energy


def test_a_newer_segment_is_refused(store: Store) -> None:
    store.add(made_up_tree(), origin())
    (path,) = store.files.segments.iterdir()
    pq = pyarrow().pq
    table = pq.read_table(path)
    metadata = {b"irene": b'{"schema": "irene.segment/2"}'}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    with pytest.raises(FormatError, match="newer irene"):
        list(Store.open(store.path).trees())


def test_an_origin_says_what_the_tree_says() -> None:
    tree = made_up_tree()
    told = Origin.of_tree(tree, host="here", engine="ray")
    assert (told.host, told.engine, told.meter) == ("here", "ray", "a wall meter")
    assert told.software_name == "torch 2.9.1"
    assert Origin.from_dict(json.loads(json.dumps(told.to_dict()))) == told
    with pytest.raises(FormatError, match="colour"):
        Origin.from_dict({**told.to_dict(), "colour": "red"})
