"""Of several measurements of one run, the median of each node counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from irene.dataset.store import Store
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
