"""Damaged and foreign files end in a message with the place, never in a traceback."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from irene.dataset import (
    MeasuredNode,
    NodeTable,
    TreeKey,
    read_data,
    read_folder,
    read_jsonl,
    read_parquet,
    write_data,
)
from irene.dataset.formats import jsonl2021 as jsonl_module
from irene.errors import FormatError, IreneError, UsageError

from .conftest import make_table

ML1 = "ml1_level_features.csv"
thorough = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def change_line(file: Path, number: int, change: Callable[[str], str]) -> None:
    lines = file.read_text().splitlines()
    lines[number - 1] = change(lines[number - 1])
    file.write_text("\n".join(lines) + "\n")


def cell(column: int, value: str) -> Callable[[str], str]:
    def change(line: str) -> str:
        cells = line.split(",")
        cells[column] = value
        return ",".join(cells)

    return change


@pytest.mark.parametrize("level", ["module", "ml1", "ml2"])
def test_a_file_with_a_header_only_is_told(folder: Path, level: str) -> None:
    file = folder / f"{level}_level_features.csv"
    file.write_text(file.read_text().splitlines()[0] + "\n")
    assert f"{file.name} has no rows" in read_data(folder)[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line.rpartition(",")[0], "14 columns, line 1 has 15"),
        (lambda line: line + ",7", "16 columns"),
        (cell(2, "many"), "flops is not a number: 'many'"),
        (cell(2, "inf"), "flops is not finite"),
        (cell(2, "-3"), "flops is negative"),
        (cell(0, "1.5"), "batch_size must be whole"),
        (cell(1, "1e300"), "seq_len must be whole"),
        (cell(0, ""), "batch_size must be whole"),
        (cell(-3, "-1.0"), "energy_mean must be positive"),
        (cell(-3, "0"), "energy_mean must be positive"),
        (cell(-3, ""), "energy_mean is not a number"),
        (cell(-2, "encoder.dense"), "is not scope:Class"),
        (cell(-2, ":Linear"), "is not scope:Class"),
        (cell(-1, ""), "model_name is empty"),
        (lambda line: line.replace("e", "é").encode().hex(), "1 columns"),
        (lambda line: '"' + line, "not CSV"),
    ],
)
def test_a_damaged_row_of_csv(
    folder: Path, change: Callable[[str], str], message: str
) -> None:
    change_line(folder / ML1, 3, change)
    with pytest.raises(FormatError) as caught:
        read_folder(folder)
    assert message in str(caught.value)
    if message != "not CSV":  # an open quote swallows the rest of the file
        assert f"{ML1}:3: " in str(caught.value)


def test_a_node_twice_in_csv(folder: Path) -> None:
    file = folder / "module_level_features.csv"
    text = file.read_text()
    file.write_text(text + text.splitlines()[1] + "\n")
    with pytest.raises(
        FormatError, match=r"features\.csv:14: encoder of tiny .* twice"
    ):
        read_folder(folder)


def test_a_tree_twice_in_csv(folder: Path) -> None:
    file = folder / "model_level_features.csv"
    text = file.read_text()
    file.write_text(text + text.splitlines()[1] + "\n")
    with pytest.raises(FormatError, match=r"the model of tiny batch 1 .* twice"):
        read_folder(folder)


def test_a_tree_without_a_model_row_is_left_out(folder: Path) -> None:
    file = folder / "model_level_features.csv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:-1]) + "\n")
    table, left_out = read_data(folder)
    assert len(table.keys) == 3
    assert left_out == ["small batch 2 length 8: no model row, 10 nodes left out"]
    file.write_text(lines[0] + "\n")
    with pytest.raises(FormatError, match="no tree with a model row"):
        read_data(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "csv:1: the file is empty"),
        (b"a,b\n1,2\n", "csv:1: no column batch_size"),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "csv:1: not UTF-8"),
        (b"\x00" * 100, "csv:1: no column"),
        (b"x" * (2 << 20), "csv:1: the line is longer"),
        (b"a," * 600_000, "csv:1: the line is longer"),
    ],
)
def test_a_file_that_is_not_csv(folder: Path, content: bytes, message: str) -> None:
    (folder / ML1).write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_folder(folder)


def test_a_missing_file_of_a_folder(folder: Path) -> None:
    (folder / ML1).unlink()
    with pytest.raises(UsageError, match=f"no {ML1}"):
        read_data(folder)


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    write_data(make_table(), tmp_path / "sound.jsonl", "jsonl")
    return dict(json.loads((tmp_path / "sound.jsonl").read_text().splitlines()[0]))


def read_changed(tmp_path: Path, document: Any) -> tuple[NodeTable, list[str]]:
    file = tmp_path / "data.jsonl"
    file.write_text("\n" + json.dumps(document) + "\n")
    return read_data(file)


def change(document: dict[str, Any], name: str, value: object) -> None:
    """Change a field of the line, of the root, or of the encoder."""
    root = document["frontend_tree"]
    where, _, field = name.rpartition("/")
    holder = {"": document, "root": root, "encoder": root["child_nodes_obj"][0]}[where]
    if value is ...:
        del holder[field]
    else:
        holder[field] = value


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch_size", ..., "no batch_size"),
        ("batch_size", 0, "batch_size must be whole"),
        ("seq_len", "8", "seq_len is not a number"),
        ("seq_len", True, "seq_len is not a number"),
        ("model_name", "", "model_name is empty"),
        ("model_name", 7, "model_name is not text"),
        ("model_name", "\ud800", "model_name is not text"),
        ("frontend_tree", [], "not a node"),
        ("root/type", "module", "type cannot be 'module'"),
        ("encoder/type", "model", "type cannot be 'model'"),
        ("encoder/type", "math?", "type cannot be"),
        ("encoder/scope", "root", "no scope below the root"),
        ("encoder/scope", ["root"], "scope is not text"),
        ("encoder/ground_truth_energy", -1.0, "must be positive"),
        ("encoder/flops", "many", "flops is not a number"),
        ("encoder/flops", float("inf"), "flops is not finite"),
        ("encoder/flops", 10**400, "flops is not a number"),
        ("encoder/cpu", -1, "cpu is negative"),
        ("encoder/parent_name", "root.gone", "parent of encoder, 'root.gone', is miss"),
        ("encoder/child_nodes_obj", {}, "child_nodes_obj is not a list"),
        ("encoder/child_nodes_obj", [None], "not a node"),
    ],
)
def test_a_damaged_tree_of_jsonl(
    tmp_path: Path, document: dict[str, Any], name: str, value: object, message: str
) -> None:
    change(document, name, value)
    with pytest.raises(FormatError) as caught:
        read_changed(tmp_path, document)
    assert message in str(caught.value)
    assert "data.jsonl:2: " in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("root/type", None),
        ("encoder/type", ...),
        ("encoder/scope", "root.encoder:Encoder"),
        ("encoder/scope", "encoder"),
        ("encoder/parent_name", "root:tiny"),
        ("encoder/parent_name", ...),
        ("root/child_nodes", ...),
        ("encoder/id", ...),
        ("encoder/level", "one"),
        ("encoder/colour", "green"),
    ],
)
def test_what_is_irregular_is_read(
    tmp_path: Path, document: dict[str, Any], name: str, value: object
) -> None:
    change(document, name, value)
    table, left_out = read_changed(tmp_path, document)
    assert table.equals(make_table().take([0]))
    assert left_out == []


def test_missing_features_and_energies_are_unknown(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    for name, value in (("flops", ...), ("cpu", None), ("ground_truth_energy", ...)):
        change(document, f"encoder/{name}", value)
    change(document, "encoder/gpu", float("nan"))  # as Python's json writes it
    table, _ = read_changed(tmp_path, document)
    unknown = {
        name for name, values in table.features.items() if values[1] != values[1]
    }
    assert unknown == {"num_parameters", "flops", "cpu", "gpu"}
    assert table.energy_j[1] != table.energy_j[1]


def test_functional_primitives_and_absent_children(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    change(document, "root/child_nodes", ["root.encoder", "root.embeddings", "root.x"])
    leaf = document["frontend_tree"]["child_nodes_obj"][1]
    leaf["type"] = "ml-np"
    del leaf["instance_type"]
    table, left_out = read_changed(tmp_path, document)
    assert left_out == [
        "tiny batch 1 length 8: 1 children are named but not in the file"
    ]
    assert (table.op[-1], len(table.rows("ml"))) == ("embeddings", 7)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "no tree in the file"),
        (b'{"model_name": "a", ', "data.jsonl:1: not JSON, or cut off"),
        (b"[1]\n", "data.jsonl:1: not a JSON object"),
        (b"{}\n", "data.jsonl:1: no model_name, batch_size"),
        (b'{"a":' * 100_000, "data.jsonl:1: not JSON, or cut off"),
        (b'{"a":"\xff"}', "data.jsonl:1: not UTF-8"),
        (b'{"a": 1' + b"0" * 10_000 + b"}", "data.jsonl:1: not JSON, or cut off"),
        (b"\x00\x01\x02\xff", "data.jsonl:1: not UTF-8"),
    ],
)
def test_a_file_that_is_not_jsonl(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "data.jsonl"
    file.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_data(file)


def test_a_line_that_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    write_data(make_table(), file, "jsonl")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(FormatError, match=r"data\.jsonl:4: not JSON, or cut off"):
        read_data(file)


def test_a_tree_twice_in_jsonl(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    write_data(make_table(), file, "jsonl")
    file.write_text(file.read_text() * 2)
    with pytest.raises(FormatError, match=r"data\.jsonl:5: tiny batch 1 .* twice"):
        read_data(file)


def test_a_huge_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "data.jsonl"
    write_data(make_table(), file, "jsonl")
    monkeypatch.setattr(jsonl_module, "LONGEST_LINE_BYTES", 1000)
    with pytest.raises(FormatError, match="longer than 1,000 bytes"):
        read_jsonl(file)


def test_a_foreign_file(tmp_path: Path, folder: Path) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(b"\x89PNG\r\n")
    with pytest.raises(FormatError, match="neither a JSONL nor a Parquet"):
        read_data(file)
    with pytest.raises(FormatError, match="give the folder that holds"):
        read_data(folder / ML1)


@pytest.mark.parametrize("parents", [(-1, -1), (-1, 5), (-1, 1), (1, 0), ()])
def test_a_tree_needs_one_root_with_all_below(parents: tuple[int, ...]) -> None:
    nodes = [MeasuredNode("a", "ml", "Op", 1.0, {}, parent) for parent in parents]
    with pytest.raises(FormatError, match="parent is missing or below"):
        NodeTable.from_trees("x", [(TreeKey("m", 1, 1), nodes)])


def sound_files(kind: str) -> dict[str, bytes]:
    """Content of sound data by file name."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "data"
        if kind != "csv":
            path = path.with_suffix(f".{kind}")
        table = make_table(models=("tiny",), sizes=((1, 8),))
        write_data(table, path, kind)
        files = [p for p in Path(temporary).rglob("*") if p.is_file()]
        return {p.relative_to(temporary).as_posix(): p.read_bytes() for p in files}


SOUND = {kind: sound_files(kind) for kind in ("csv", "jsonl")}
edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 30),
        st.one_of(
            st.binary(max_size=8), st.sampled_from((b"{", b"null", b"-1", b"\n", b'"'))
        ),
    ),
    min_size=1,
    max_size=4,
)


def mutate(content: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    for place, removed, added in changes:
        start = int(place * len(content))
        content = content[:start] + added + content[start + removed :]
    return content


def read_mutated(files: dict[str, bytes], which: str, content: bytes) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        for name, sound in files.items():
            file = folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content if name == which else sound)
        path = folder / next(iter(files)).partition("/")[0]
        try:
            table, _ = read_data(path)
        except IreneError:
            return
        assert len(table) == table.starts[-1]
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", sorted(SOUND))
@thorough
@given(data=st.data(), changes=edits)
def test_mutated_text_never_breaks_the_reader(
    kind: str, data: st.DataObject, changes: list[tuple[float, int, bytes]]
) -> None:
    which = data.draw(st.sampled_from(sorted(SOUND[kind])))
    read_mutated(SOUND[kind], which, mutate(SOUND[kind][which], changes))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@given(content=st.binary(max_size=200))
@settings(max_examples=50)
def test_garbage_never_breaks_the_reader(kind: str, content: bytes) -> None:
    which = sorted(SOUND[kind])[0]
    read_mutated(SOUND[kind], which, content)


def test_not_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    file = tmp_path / "data.parquet"
    for content in (b"PAR1", b"PAR1" * 10, b"hello", b"PAR1\x00\x00\x00\x7fPAR1"):
        file.write_bytes(content)
        with pytest.raises(FormatError, match=r"data\.parquet: not a sound Parquet"):
            read_data(file)
    with pytest.raises(UsageError, match="cannot read"):
        read_parquet(tmp_path / "gone.parquet")
