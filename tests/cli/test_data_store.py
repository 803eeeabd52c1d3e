"""`irene data` on a store as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irene.cli import main
from irene.dataset import read_data
from irene.dataset.store import Store
from tests.dataset.store.made_up_trees import SHELF, made_up_tree, origin


@pytest.fixture
def run(capsys):
    def call(*words: object) -> tuple[int, str, str]:
        code = main(["data", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    store = Store.open(tmp_path / "store", create=True)
    for size in (1, 2):
        store.add(made_up_tree(batch_size=size), origin())
    store.add_failure(made_up_tree(batch_size=64).spec, origin(), "out of memory")
    return store.path


def test_show(run, path: Path) -> None:
    code, out, err = run("show", path)
    assert (code, err) == (0, "")
    assert f"{path}: 2 trees, 18 nodes" in out
    assert "desk: a desk, 2 cores" in out
    assert "software torch 2.9.1, transformers 5.1.0: 2 trees" in out
    assert "host here: 2026-01-02T03:04:05" in out
    assert "desk: 1 run of tiny: out of memory" in out
    code, out, _ = run("show", path, "--json")
    document = json.loads(out)
    assert document["schema"] == "irene.data-store/1"
    assert document["machines"][0]["levels"][0]["highest_j"] == 9.0
    assert document["failures"][0]["reason"] == "out of memory"


def test_check(run, path: Path) -> None:
    code, out, _ = run("check", path)
    assert (code, out.strip()) == (
        0,
        f"{path}: 2 trees in 2 segments, all as it was written",
    )
    segment = next((path / "segments").iterdir())
    segment.write_bytes(segment.read_bytes()[::-1])
    code, out, _ = run("check", path, "--json")
    document = json.loads(out)
    assert (code, document["trees"]) == (1, 1)
    (finding,) = document["findings"]
    assert (finding["file"], finding["done"]) == (segment.name, "quarantined")
    assert (path / "quarantine" / segment.name).exists()
    code, out, _ = run("check", path)
    assert code == 0
    code, out, _ = run("show", path)
    assert "1 trees were in damaged files" in out


def test_check_names_what_a_killed_writer_left(run, path: Path) -> None:
    manifest = path / "manifest.jsonl"
    lines = manifest.read_bytes().splitlines(keepends=True)
    manifest.write_bytes(b"".join([lines[0], lines[2]]))
    code, out, _ = run("check", path)
    assert code == 1
    assert "whole, but not in the manifest: adopted (1 entries)" in out
    assert "2 trees in 2 segments" in out


def test_merge_export_and_compact(run, path: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "desk.parquet", tmp_path / "out"
    code, said, _ = run("export", path, "--to", "parquet", "--out", file)
    assert (code, said.strip()) == (0, f"{file}: 2 trees, 14 nodes")
    other = Store.open(tmp_path / "other", create=True)
    other.add(made_up_tree(hardware=SHELF), origin(SHELF, host="there"))
    code, _, err = run("merge", path, other.path, "--out", out)
    assert code == 2
    assert "--keep-apart" in err
    code, said, _ = run("merge", path, other.path, "--out", out, "--keep-apart")
    assert code == 0
    assert "desk (a shelf, 8 cores, covers wall) is desk@there" in said
    assert "3 trees (27 nodes) and 1 failures added, 0 were there already" in said
    code, said, _ = run("merge", file, "--out", out, "--json")
    assert (code, json.loads(said)["added"]) == (0, 2)
    # What was exported is known again as that machine.
    assert Store.open(out).table("desk").equals(read_data(file)[0])
    covers = {e.origin.hardware.covers for e in Store.open(out).entries()}
    assert covers == {"wall"}
    code, said, _ = run("compact", out, "--json")
    assert (code, json.loads(said)["segments_after"]) == (0, 1)
    code, _, err = run("export", out, "--to", "csv", "--out", tmp_path / "csv")
    assert code == 2
    assert "--hardware" in err
    words = ("--hardware", "desk@there", "--to", "jsonl", "--out", tmp_path / "x")
    code, said, _ = run("export", out, *words, "--json")
    assert (code, json.loads(said)["trees"]) == (0, 1)
    assert read_data(tmp_path / "x")[0].keys == (("tiny", 2, 8),)


def test_mistakes_are_answered(run, path: Path, tmp_path: Path) -> None:
    code, _, err = run("check", tmp_path / "none")
    assert code == 2
    assert "there is no store" in err
    code, _, err = run("export", path, "--to", "csv", "--out", "x", "--only", "fp32")
    assert code == 2
    assert "FIELD=VALUE" in err
    (path / "store.json").write_text('{"schema": "irene.store/99"}')
    code, _, err = run("show", path)
    assert code == 2
    assert "newer irene" in err
