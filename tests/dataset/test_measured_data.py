"""Data is found by name, and the message helps where it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irene.dataset import NodeTable, read_data, write_jsonl
from irene.errors import UsageError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("IRENE_DATA_DIR", raising=False)


def test_a_name_is_looked_up(
    folder: Path, table: NodeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRENE_DATA_DIR", str(folder.parent))
    again, _ = read_data("made-up")
    assert again.equals(table)
    assert again.name == "made-up"
    write_jsonl(table, folder.parent / "other.jsonl")
    assert read_data("other")[0].name == "other"


def test_a_name_is_looked_up_in_the_cache(tmp_path: Path, table: NodeTable) -> None:
    write_jsonl(table, tmp_path / "cache" / "irene" / "data" / "mine.jsonl")
    assert read_data("mine")[0].equals(table)


def test_an_unknown_name_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError) as caught:
        read_data("irene-pc1")
    message = str(caught.value)
    assert "no data 'irene-pc1'" in message
    assert str(tmp_path / "cache" / "irene" / "data") in message
    assert "it is not set" in message
    assert "irene data fetch irene-2021" in message
    monkeypatch.setenv("IRENE_DATA_DIR", "/nowhere")
    with pytest.raises(UsageError, match="now /nowhere"):
        read_data("irene-pc1")


@pytest.mark.parametrize("path", ["no/such/file", "../x", "..x/", "a" * 5000, "a\0b"])
def test_a_path_that_is_not_there(path: str) -> None:
    with pytest.raises(UsageError):
        read_data(path)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder of 2021 data"):
        read_data(tmp_path)


def test_a_level_in_another_unit_is_told(tmp_path: Path, table: NodeTable) -> None:
    assert read_data(_written(table, tmp_path))[1] == []
    leaves = np.where(table.has_children, table.energy_j, 1000 * table.energy_j)
    odd = read_data(_written(replace(table, energy_j=leaves), tmp_path))[1]
    assert "in another unit" in odd[0]
    roots = np.where(table.parent < 0, 1000 * table.energy_j, table.energy_j)
    odd = read_data(_written(replace(table, energy_j=roots), tmp_path))[1]
    assert any(line.startswith("warning: models take") for line in odd)


def _written(table: NodeTable, folder: Path) -> Path:
    write_jsonl(table, folder / "t.jsonl")
    return folder / "t.jsonl"
