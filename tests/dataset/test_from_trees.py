"""Measured trees become data, and data is what predictors learn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irene.dataset import (
    add_to_file,
    read_data,
    read_parquet,
    read_provenance,
    table_of,
)
from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.trace.tracer import trace
from irene.tree import EnergyColumns, ModelTree

HARDWARE = Hardware("lab", "wall", "a desk")


def measured(model: str = "bert-l2-h128", scale: float = 1.0, **sizes) -> ModelTree:
    """A trace with 1 µJ per 1000 FLOPs and 1 mJ per node, and its latencies."""
    tree = trace(model, **{"batch_size": 2, "seq_len": 16, **sizes}).at_level("ml")
    joules = scale * (tree.columns.flops * 1e-9 + 1e-3)
    source = np.zeros(len(tree), np.uint8)
    energy = EnergyColumns(joules, joules * 0.9, joules * 1.1, source, "made up")
    features = {"times_mean": joules / 20.0, "cpu": np.full(len(tree), 90.0)}
    return tree.with_features(features).with_energy(energy, HARDWARE)


def changed(tree: ModelTree, **attributes) -> ModelTree:
    return tree._derive(tree.columns, **attributes)


def test_a_table_has_the_units_of_the_2021_data():
    tree = measured()
    table = table_of([tree], "lab")
    assert table.keys == (("bert-l2-h128", 2, 16),)
    query = tree.find("encoder.layer.0.attention.self.query")
    row = table.path.index(query.path)
    assert table.features["flops"][row] == query.flops / 1e6
    assert table.features["mem_bytes"][row] == query.bytes / 2**20
    assert table.features["num_parameters"][row] == 128 * 128 + 128
    assert table.features["cpu"][row] == 90.0
    assert table.features["times_mean"][row] == query.energy.joules / 20.0
    assert np.isnan(table.features["gpu"][row])
    assert table.energy_j[row] == query.energy.joules
    assert table.path[table.parent[row]] == "encoder.layer.0.attention.self"


def test_folded_trees_are_unfolded():
    tree = measured()
    assert table_of([tree.fold()]).equals(table_of([tree]))


def test_what_is_not_known_stays_unknown():
    tree = measured()
    joules = tree.energy.joules.copy()
    joules[3], joules[4] = np.nan, 0.0
    unknown = replace(tree.energy, joules=joules, low=joules)
    table = table_of([tree.with_energy(unknown)])
    assert np.flatnonzero(np.isnan(table.energy_j)).tolist() == [3, 4]


def test_trees_gather_in_one_file(tmp_path: Path):
    file = tmp_path / "lab.parquet"
    assert add_to_file(measured(), file) == 1
    assert add_to_file(measured(batch_size=4), file) == 2
    assert add_to_file(measured("bert-l2-h256"), file) == 3
    assert add_to_file(measured(scale=2.0), file) == 3
    table = read_parquet(file)
    assert table.name == "lab"
    trees = [measured(batch_size=4), measured("bert-l2-h256"), measured(scale=2.0)]
    assert table.equals(table_of(trees))


@pytest.mark.parametrize(
    "other",
    [
        lambda: measured(dtype="bf16"),
        lambda: measured(attention="sdpa"),
        lambda: changed(measured(), hardware=Hardware("lab", "gpu-board", "a desk")),
        lambda: changed(measured(), hardware=Hardware("elsewhere", "wall", "a desk")),
    ],
)
def test_what_does_not_belong_together_is_refused(tmp_path: Path, other):
    file = tmp_path / "lab.parquet"
    add_to_file(measured(), file)
    before = file.read_bytes()
    with pytest.raises(UsageError, match="choose another"):
        add_to_file(other(), file)
    assert file.read_bytes() == before


def test_only_forward_passes_are_data():
    tree = measured()
    step = changed(tree, spec=replace(tree.spec, phase="decode"))
    with pytest.raises(UsageError, match="phase decode"):
        table_of([step])
    with pytest.raises(UsageError, match="carry energy"):
        table_of([trace("bert-l2-h128", seq_len=8)])


def test_a_foreign_file_is_left_alone(tmp_path: Path):
    file = tmp_path / "lab.parquet"
    file.write_text("not parquet")
    with pytest.raises(FormatError):
        add_to_file(measured(), file)
    assert file.read_text() == "not parquet"


def test_the_file_says_where_it_is_from(tmp_path: Path):
    add_to_file(measured(), tmp_path / "lab.parquet")
    told = read_provenance(tmp_path / "lab.parquet")
    assert told.hardware == "lab: a desk"
    assert told.source == "irene measure, fp32, eager attention, covers wall"
    assert read_data(tmp_path / "lab.parquet")[0].name == "lab"
