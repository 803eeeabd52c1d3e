"""Facts of the real data, where it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from irene.dataset import NodeTable, read_data, write_data
from irene.dataset.fetch import PUBLIC, fetch
from irene.dataset.summaries import summarise


@pytest.fixture(scope="module")
def real(real_folder: Path) -> tuple[NodeTable, list[str]]:
    return read_data(real_folder)


def test_what_is_in_it(real: tuple[NodeTable, list[str]]) -> None:
    table, left_out = real
    summary = summarise(table)
    assert summary.trees == 166
    levels = {level.kind: (level.nodes, level.distinct) for level in summary.levels}
    assert levels == {"model": (166, 166), "module": (7208, 890), "ml": (17223, 1384)}
    assert left_out == [
        "openai-gpt batch 32 length 128: no model row, 36 nodes left out"
    ]
    assert len(table.models) == 6
    depth = np.zeros(len(table), dtype=int)
    for row in np.flatnonzero(table.parent >= 0):
        depth[row] = depth[table.parent[row]] + 1
    assert depth.max() == 5


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_it_survives_every_format(
    real: tuple[NodeTable, list[str]], tmp_path: Path, kind: str
) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"data.{kind}"
    write_data(real[0], path, kind)
    again, left_out = read_data(path)
    assert again.equals(real[0])
    assert left_out == []


def test_it_is_the_public_data(real_folder: Path) -> None:
    files = list(fetch(PUBLIC["irene-2021"], real_folder, "http://127.0.0.1:9"))
    assert [downloaded for _, downloaded in files] == [False] * 4
