"""Stores of several machines become one, and every number keeps its origin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from irene.dataset import table_of
from irene.dataset.store import Store
from irene.dataset.store.entries import Machine
from irene.dataset.store.store_exchange import merge_stores
from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from tests.dataset.store.made_up_trees import DESK, SHELF, TORCH, made_up_tree, origin


def make(path: Path, scales=(1,), hardware: Hardware = DESK, **facts) -> Store:
    """A store of one machine."""
    store = Store.open(path, create=True)
    for scale in scales:
        tree = made_up_tree(scale=scale, hardware=hardware, batch_size=scale)
        store.add(tree, origin(hardware, **facts))
    return store


def test_every_entry_is_there_once_with_its_origin(tmp_path: Path) -> None:
    a = make(tmp_path / "a", (1, 2, 3))
    b = make(tmp_path / "b", (3, 4), host="here")
    b.add_failure(made_up_tree(batch_size=9).spec, origin(), "out of memory")
    out = Store.open(tmp_path / "out", create=True)
    merged = merge_stores([a, b], out)
    assert (merged.added, merged.failures, merged.already_there) == (4, 1, 1)
    assert merged.nodes == 4 * 9
    assert out.check() == []
    known = {entry.id: entry for entry in [*a.entries(), *b.entries()]}
    for entry in Store.open(out.path).entries():
        assert entry.origin == known[entry.id].origin
        assert entry.spec == known[entry.id].spec
    trees = [made_up_tree(scale=n, batch_size=n) for n in (1, 2, 3, 4)]
    assert out.table().equals(table_of(trees, "desk"))
    again = merge_stores([a, b], out)
    assert (again.added, again.failures, again.already_there) == (0, 0, 6)


def test_the_order_of_sources_does_not_matter(tmp_path: Path) -> None:
    """Nor do clocks: one machine's is a year behind."""
    a = make(tmp_path / "a", (1, 2), started="2026-01-01T00:00:00+00:00")
    b = make(tmp_path / "b", (1, 3), host="b", started="2025-01-01T00:00:00+00:00")
    outs = [Store.open(tmp_path / name, create=True) for name in ("ab", "ba")]
    merge_stores([a, b], outs[0])
    merge_stores([b, a], outs[1])
    told = [
        [(e.id, e.hardware, e.origin, e.spec) for e in out.entries()] for out in outs
    ]
    assert told[0] == told[1]
    assert outs[0].table().equals(outs[1].table())
    origins = [entry.origin for entry in outs[0].entries()]
    starts = {told.host: told.started[:4] for told in origins}
    assert starts == {"here": "2026", "b": "2025"}


def test_machines_of_one_name_are_not_mixed_silently(tmp_path: Path) -> None:
    a, b = make(tmp_path / "a"), make(tmp_path / "b", (2,), SHELF, host="there")
    out = Store.open(tmp_path / "out", create=True)
    with pytest.raises(UsageError, match=r"called 'desk'.*--keep-apart.*--as NAME"):
        merge_stores([a, b], out)
    assert out.entries() == []
    merged = merge_stores([a, b], out, keep_apart=True)
    assert merged.renamed == {
        Machine("desk", "wall", DESK.description): "desk@here",
        Machine("desk", "wall", SHELF.description): "desk@there",
    }
    names = {entry.hardware: entry.origin.hardware for entry in out.entries()}
    assert names == {"desk@here": DESK, "desk@there": SHELF}
    assert next(out.trees("desk@there")).hardware == replace(SHELF, name="desk@there")


def test_machines_that_differ_can_be_said_to_be_one(tmp_path: Path) -> None:
    a, b = make(tmp_path / "a"), make(tmp_path / "b", (2,), SHELF)
    out = Store.open(tmp_path / "out", create=True)
    merge_stores([a, b], out, as_name="fleet")
    assert {entry.hardware for entry in out.entries()} == {"fleet"}
    assert {entry.origin.hardware for entry in out.entries()} == {DESK, SHELF}
    assert len(out.table("fleet").keys) == 2
    board = make(tmp_path / "c", (3,), replace(DESK, covers="gpu-board"))
    other = Store.open(tmp_path / "other", create=True)
    with pytest.raises(UsageError, match="gpu-board and wall"):
        merge_stores([a, board], other, as_name="fleet")


def test_a_machine_that_is_there_keeps_its_name(tmp_path: Path) -> None:
    out = make(tmp_path / "out")
    b = make(tmp_path / "b", (2,), SHELF, host="there")
    with pytest.raises(UsageError, match="--keep-apart"):
        merge_stores([b], out)
    with pytest.raises(UsageError, match="use --as desk"):
        merge_stores([b], out, as_name="fleet")
    merge_stores([b], out, keep_apart=True)
    assert {entry.hardware for entry in out.entries()} == {"desk", "desk@there"}


def test_another_torch_is_kept_apart(tmp_path: Path) -> None:
    a = make(tmp_path / "a")
    b = make(tmp_path / "b", (2,), software={**TORCH, "torch": "3.0"})
    out = Store.open(tmp_path / "out", create=True)
    merge_stores([a, b], out)
    with pytest.raises(UsageError, match=r"torch 2\.9\.1.*torch 3\.0"):
        out.table()
    assert len(out.table(software="torch 3.0, transformers 5.1.0").keys) == 1


def test_large_segments_are_taken_over_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = make(tmp_path / "a", (1, 2, 3)), make(tmp_path / "b", (3, 4))
    a.pack()
    (segment,) = a.files.segments.iterdir()
    monkeypatch.setattr("irene.dataset.store.store_exchange.SMALL_BYTES", 1)
    out = Store.open(tmp_path / "out", create=True)
    merge_stores([a, b], out)
    copies = [file.read_bytes() for file in out.files.segments.iterdir()]
    assert segment.read_bytes() in copies
    assert len(out.entries()) == len(list(out.trees())) == 4
    assert out.check() == []


@pytest.mark.parametrize("large", [True, False])
def test_a_damaged_source_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    a = make(tmp_path / "a")
    (segment,) = a.files.segments.iterdir()
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    if large:
        monkeypatch.setattr("irene.dataset.store.store_exchange.SMALL_BYTES", 1)
    out = Store.open(tmp_path / "out", create=True)
    with pytest.raises(FormatError, match=r"checksum.*irene data check"):
        merge_stores([a], out)
    assert out.entries() == []
    assert out.check() == []


def test_packing_changes_nothing_but_files(tmp_path: Path) -> None:
    store = make(tmp_path / "a", range(1, 8))
    store.add_failure(made_up_tree(batch_size=9).spec, origin(), "a crash")
    told = [replace(entry, segment="") for entry in store.entries()]
    table = store.table()
    packed = store.pack()
    assert (packed.segments_before, packed.segments_after) == (7, 1)
    assert len(list(store.files.segments.iterdir())) == 1
    again = Store.open(store.path)
    assert [replace(entry, segment="") for entry in again.entries()] == told
    assert again.table().equals(table)
    assert again.pack().entries == 0
    assert again.check() == []
    again.add(made_up_tree(batch_size=8), origin())
    assert len(again.table().keys) == 8
