"""A store in numbers: those of its trees, whatever its files are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from irene.dataset.store import Store
from irene.dataset.summaries import LevelCount, summarise_store
from irene.errors import FormatError
from tests.dataset.store.made_up_trees import SHELF, TORCH, made_up_tree, origin


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store", create=True)
    shelf = replace(SHELF, name="shelf")
    store.add(made_up_tree(), origin())
    newer = origin(host="b", software={**TORCH, "torch": "3.0"}, started="2020-01-01")
    store.add(made_up_tree("other", 3.0, batch_size=4), newer)
    store.add(made_up_tree(hardware=shelf), origin(shelf))
    for size, reason in ((16, "out of memory"), (32, "out of memory"), (2, "a crash")):
        store.add_failure(made_up_tree(batch_size=size).spec, origin(), reason)
    return store


def test_counts_are_those_of_the_trees(store: Store) -> None:
    summary = summarise_store(store)
    assert (summary.trees, summary.nodes, summary.segments) == (3, 27, 3)
    desk, shelf = summary.machines
    assert (desk.name, desk.trees, desk.nodes) == ("desk", 2, 18)
    assert [(m.model, m.batch_sizes) for m in desk.models] == [
        ("other", (4,)),
        ("tiny", (2,)),
    ]
    assert desk.levels == (
        LevelCount("model", 2, 0, 0, 9.0, 27.0),
        LevelCount("module", 4, 0, 0, 5.0, 24.0),
        LevelCount("ml", 8, 2, 2, 2.0, 21.0),
        LevelCount("math", 4, 0, 0, 3.0, 18.0),
    )
    assert desk.software == {
        "torch 2.9.1, transformers 5.1.0": 1,
        "torch 3.0, transformers 5.1.0": 1,
    }
    assert desk.dates["b"] == ("2020-01-01", "2020-01-01")
    assert desk.dates["here"][0].startswith("2026")
    assert shelf.levels[0] == LevelCount("model", 1, 0, 0, 9.0, 9.0)


def test_failures_that_were_measured_since_do_not_count(store: Store) -> None:
    (failure,) = summarise_store(store).failures
    assert (failure.hardware, failure.reason) == ("desk", "out of memory")
    assert (failure.runs, failure.models) == (2, ("tiny",))


def test_files_do_not_matter(store: Store) -> None:
    before = summarise_store(store)
    (segment, *_) = store.files.segments.iterdir()
    store.pack()
    after = summarise_store(store)
    assert after.segments == 1
    assert replace(after, segments=3, size_bytes=before.size_bytes) == before
    # A copy that a crash has left is not counted, before it is taken away.
    (packed,) = store.files.segments.iterdir()
    segment.write_bytes(packed.read_bytes())
    assert summarise_store(store).machines == before.machines


def test_an_empty_store(tmp_path: Path) -> None:
    summary = summarise_store(Store.open(tmp_path / "store", create=True))
    assert (summary.trees, summary.machines, summary.failures) == (0, (), ())


def test_a_damaged_segment_is_named(store: Store) -> None:
    (segment, *_) = store.files.segments.iterdir()
    segment.write_bytes(segment.read_bytes()[:500])
    with pytest.raises(FormatError, match="irene data check"):
        summarise_store(store)
    assert len(store.check()) == 1
    assert summarise_store(store).lost == 1
