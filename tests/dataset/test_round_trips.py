"""What is written is read back the same, in every format."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.dataset import (
    MeasuredNode,
    NodeTable,
    TreeKey,
    copy_with_predictions,
    read_data,
    read_folder,
    read_jsonl,
    read_parquet,
    write_data,
    write_folder,
    write_jsonl,
    write_parquet,
)
from irene.dataset.formats.format_checks import read_lines
from irene.errors import UsageError

from .conftest import make_table, tables

FORMATS = ("csv", "jsonl", "parquet")
quick = settings(max_examples=40)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_comes_back(tmp_path: Path, table: NodeTable, kind: str) -> None:
    path = tmp_path / f"data.{kind}"
    write_data(table, path, kind)
    again, left_out = read_data(path)
    assert again.equals(table)
    assert left_out == []
    assert not again.equals(make_table(models=("tiny", "other")))


@quick
@given(table=tables())
def test_any_table_survives_parquet(table: NodeTable) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.parquet"
        write_parquet(table, path)
        again = read_parquet(path)
    assert again.equals(table)
    assert again.name == table.name


@quick
@given(table=tables())
def test_any_table_survives_jsonl(table: NodeTable) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.jsonl"
        write_jsonl(table, path)
        assert read_jsonl(path)[0].equals(table)


@st.composite
def csv_rows(draw) -> dict[str, list[str]]:
    """Scopes and classes of one tree in the four files, also odd ones."""
    words = st.sampled_from(("a", "b", "a.b", "a.b.c", "a.0.x", "MatMul", "a.MatMul"))
    ops = st.sampled_from(("MatMul", "Softmax", "Gelu", "Linear", "b", "x"))
    pairs = st.tuples(words, ops)
    unique = st.lists(pairs, unique_by=lambda pair: pair[0], max_size=5)
    # A parametric primitive is not called like its class: a table keeps no files, and
    # that is how functional ones are told apart again.
    return {
        "module": [f"{s}:{op}" for s, op in draw(unique)],
        "ml1": [f"{s}:{op}" for s, op in draw(unique) if not s.endswith(op)],
        "ml2": [f"{s}:{op}" for s, op in draw(st.lists(pairs, max_size=5))],
    }


@quick
@given(rows=csv_rows())
def test_a_csv_folder_is_stable(rows: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        first, second = Path(temporary) / "data", Path(temporary) / "again"
        first.mkdir()
        head = "batch_size,seq_len,flops,energy_mean,level_name,model_name\n"
        energy_j = 1
        for level, names in {"model": ["m"], **rows}.items():
            lines = [head]
            for name in names:
                energy_j += 1
                lines.append(f"2,4,{energy_j},{energy_j},{name},m\n")
            (first / f"{level}_level_features.csv").write_text("".join(lines))
        table, _ = read_folder(first)
        write_folder(table, second)
        again, _ = read_folder(second)
    same = sorted(zip(table.path, table.op, table.energy_j, strict=True))
    assert same == sorted(zip(again.path, again.op, again.energy_j, strict=True))
    assert again.equals(table)


def test_functional_primitives_are_in_their_own_file(folder: Path) -> None:
    names = {
        level: [
            line.split(",")[-2]
            for line in read_lines(folder / f"{level}_level_features.csv", 1000)
        ]
        for level in ("model", "module", "ml1", "ml2")
    }
    assert names["model"][:2] == ["level_name", "tiny"]
    assert set(names["ml2"][1:]) == {
        "encoder.layer.0.attention:MatMul",
        "encoder.layer.0.attention:Softmax",
    }
    assert "encoder.layer.0.LayerNorm:LayerNorm" in names["ml1"]


def test_csv_has_parameters_only_where_they_are_known(
    tmp_path: Path, folder: Path
) -> None:
    file = "ml1_level_features.csv"
    assert "num_parameters" not in (folder / file).read_text()
    features = {"num_parameters": 12.0}
    node = MeasuredNode("", "model", "M", 1.0, features, -1)
    table = NodeTable.from_trees("x", [(TreeKey("m", 1, 1), [node])])
    write_folder(table, tmp_path / "with")
    assert read_folder(tmp_path / "with")[0].equals(table)


def test_a_table_that_csv_cannot_say_is_refused(tmp_path: Path) -> None:
    def refuse(*below: MeasuredNode, energy_j: float = 1.0) -> None:
        root = MeasuredNode("", "model", "m", energy_j, {}, -1)
        table = NodeTable.from_trees("x", [(TreeKey("m", 1, 1), [root, *below])])
        with pytest.raises(UsageError, match="parquet"):
            write_folder(table, tmp_path / "out")
        assert not list(tmp_path.rglob("*.csv"))

    def node(path: str, kind: str, parent: int) -> MeasuredNode:
        return MeasuredNode(path, kind, "Op", 1.0, {}, parent)

    refuse(energy_j=np.nan)
    refuse(node("a", "module", 0), node("b", "ml", 1))  # b does not begin with a
    refuse(node("a:b", "ml", 0))
    refuse(node("a", "module", 0), node("a", "module", 0))


def test_jsonl_looks_as_in_2021(tmp_path: Path, table: NodeTable) -> None:
    path = tmp_path / "data.jsonl"
    write_jsonl(table, path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 4
    assert set(lines[0]) == {"model_name", "batch_size", "seq_len", "frontend_tree"}
    root = lines[0]["frontend_tree"]
    assert (root["scope"], root["level"], root["type"]) == ("root", 0, "model")
    assert root["parent_name"] == ""
    assert root["num_parameters"] is None
    assert "predicted_energy" not in root
    encoder = root["child_nodes_obj"][0]
    assert root["child_nodes"] == ["root.encoder", "root.embeddings"]
    assert (encoder["parent_name"], encoder["level"]) == ("root", 1)
    text = path.read_text()
    identifiers = text.count('"id": "')
    assert len(set(text.split('"id": "')[1:])) == identifiers == len(table)


def test_predictions_are_filled_in(tmp_path: Path, table: NodeTable) -> None:
    path = tmp_path / "data.jsonl"
    predicted_j = np.arange(len(table)) + 0.5
    predicted_j[3] = np.nan
    write_jsonl(table, path, predicted_j)
    root = json.loads(path.read_text().splitlines()[0])["frontend_tree"]
    assert root["predicted_energy"] == 0.5
    layer = root["child_nodes_obj"][0]["child_nodes_obj"][0]
    assert layer["predicted_energy"] == 2.5
    assert layer["child_nodes_obj"][0]["predicted_energy"] is None
    assert read_jsonl(path)[0].equals(table)
    with pytest.raises(UsageError, match="44 nodes"):
        write_jsonl(table, path, predicted_j[1:])


def test_predictions_can_be_added_to_a_file_as_it_is(
    tmp_path: Path, table: NodeTable
) -> None:
    source, copy = tmp_path / "data.jsonl", tmp_path / "copy.jsonl"
    write_jsonl(table, source)
    source.write_text(source.read_text().replace('"level"', '"extra": 7, "level"'))
    copy_with_predictions(source, copy, np.arange(len(table)) + 1.0)
    root = json.loads(copy.read_text().splitlines()[1])["frontend_tree"]
    was = json.loads(source.read_text().splitlines()[1])["frontend_tree"]
    assert root["predicted_energy"] == len(table) / 4 + 1
    assert (root["id"], root["extra"]) == (was["id"], 7)
    with pytest.raises(UsageError, match="there are 44 nodes"):
        copy_with_predictions(source, copy, np.ones(3))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, table: NodeTable, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    write_data(table, path, kind)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(UsageError, match="No space left"):
        write_data(make_table(models=("other",)), path, kind)
    after = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert after == before


def test_an_unsound_table_is_not_written(tmp_path: Path, table: NodeTable) -> None:
    twice = table.take([0, 0])
    for kind in FORMATS:
        with pytest.raises(UsageError, match="two trees have the key"):
            write_data(twice, tmp_path / "data", kind)
    assert list(tmp_path.iterdir()) == []
