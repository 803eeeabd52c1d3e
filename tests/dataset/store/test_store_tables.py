"""Of several measurements of one run, the median of each node counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from irene.dataset import read_parquet, write_parquet
from irene.dataset.measured_data import disturbed_nodes, table_of
from irene.dataset.store import Store
from irene.dataset.store.store_exchange import import_data
from irene.dataset.summaries import summarise_store
from tests.dataset.store.made_up_trees import made_up_tree, origin


@pytest.mark.parametrize(
    ("scales", "median"), [((1.0,), 1.0), ((1.0, 3.0), 2.0), ((9.0, 1.0, 3.0), 3.0)]
)
def test_the_median_of_each_node_counts(
    tmp_path: Path, scales: tuple[float, ...], median: float
) -> None:
    store = Store.open(tmp_path / "store", create=True)
    for place, scale in enumerate(scales):
        store.add(made_up_tree(scale=scale), origin(collector=str(place)))
    store.add(made_up_tree(scale=5.0, batch_size=4), origin())
    table = store.table()
    assert [key.batch_size for key in table.keys] == [2, 4]
    one = Store.open(tmp_path / "one", create=True)
    one.add(made_up_tree(), origin())
    alone = one.table()
    once = slice(*table.starts[:2])
    np.testing.assert_allclose(table.energy_j[once], median * alone.energy_j)
    np.testing.assert_allclose(
        table.features["times_mean"][once], median * alone.features["times_mean"]
    )
    rest = slice(*table.starts[1:3])
    np.testing.assert_allclose(table.energy_j[rest], 5.0 * alone.energy_j)


def test_what_was_disturbed_is_known_in_every_form(tmp_path: Path) -> None:
    tree = made_up_tree()
    store = Store.open(tmp_path / "store", create=True)
    store.add(tree, origin())
    table = store.table()
    assert np.flatnonzero(table.disturbed).tolist() == [2]
    assert table_of([tree]).equals(table)
    path = tmp_path / "nodes.parquet"
    write_parquet(table, path)
    assert read_parquet(path).equals(table)
    assert table.take([0, 0]).disturbed.sum() == 2
    other = Store.open(tmp_path / "other", create=True)
    import_data(other, path)
    assert other.table().disturbed.tolist() == table.disturbed.tolist()
    assert disturbed_nodes(next(other.trees())).sum() == 1
    quiet = made_up_tree().with_features({"rounds_busy": np.full(len(tree), np.nan)})
    store.add(quiet, origin(collector="another"))
    store.add(quiet, origin(collector="a third"))
    assert not store.table().disturbed.any()
    levels = summarise_store(store).machines[0].levels
    assert sum(level.disturbed for level in levels) == 1
