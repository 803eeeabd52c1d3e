"""`irene data` as a user meets it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from irene.cli import main
from irene.dataset import NodeTable, read_data
from irene.dataset import fetch as fetching


@pytest.fixture
def run(capsys):
    def call(*words: object) -> tuple[int, str, str]:
        try:
            code = main(["data", *map(str, words)])
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_show(run, folder: Path) -> None:
    code, out, err = run("show", folder)
    assert (code, err) == (0, "")
    assert "made-up: 4 trees, 44 nodes" in out
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "1, 2; 8" in lines["small"]
    assert lines["ml"].split()[1:3] == ["28", "24"]
    assert "J" in lines["ml"]


def test_show_as_json(run, folder: Path) -> None:
    model = folder / "model_level_features.csv"
    model.write_text("\n".join(model.read_text().splitlines()[:-1]) + "\n")
    code, out, _ = run("show", folder, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "irene.data/1"
    assert document["trees"] == 3
    assert document["models"][0]["batch_sizes"] == [1, 2]
    assert [level["kind"] for level in document["levels"]] == ["model", "module", "ml"]
    assert len(document["left_out"]) == 1
    assert document["provenance"] is None


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_convert(
    run, folder: Path, table: NodeTable, tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "sub" / f"data.{kind}"
    code, said, err = run("convert", folder, "--to", kind, "--out", out)
    assert (code, err) == (0, "")
    assert f"{out}: 4 trees, 44 nodes" in said
    assert read_data(out)[0].equals(table)
    code, said, _ = run("convert", out, "--to", "jsonl", "--out", out.parent / "x")
    assert code == 0
    code, said, _ = run("convert", out, "--to", "csv", "--out", out.parent, "--json")
    assert json.loads(said)["nodes"] == 44


def test_convert_keeps_where_data_is_from(run, folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    facts = ("--hardware", "pc1", "--name", "mine")
    run("convert", folder, "--to", "parquet", "--out", first, *facts)
    run("convert", first, "--to", "parquet", "--out", second, "--date", "2021-05")
    _, out, _ = run("show", second, "--json")
    assert json.loads(out)["provenance"] == {
        "hardware": "pc1",
        "source": str(folder),
        "date": "2021-05",
    }
    _, out, _ = run("show", second)
    assert out.startswith("mine: 4 trees")
    assert "hardware: pc1" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "arguments are required: ACTION"),
        (("burn",), "invalid choice"),
        (("show", "nothing-of-that-name"), "irene data fetch irene-2021"),
        (("convert", "x", "--to", "csv"), "--out"),
        (("convert", "x", "--to", "xls", "--out", "y"), "invalid choice"),
        (("fetch", "irene-1921"), "there is irene-2021"),
        (("fetch", "irene-2021", "--out", "x", "--base-url", "file:///"), "http"),
    ],
)
def test_wrong_usage(run, words: tuple[str, ...], message: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert message in err


def test_a_folder_in_the_way(run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    out = tmp_path / "taken"
    code, _, err = run("convert", folder, "--to", "jsonl", "--out", out)
    assert code == 2
    assert f"cannot write {out}" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["made-up", "taken"]


@pytest.mark.parametrize("words", [("show", "x", "--debug"), ("--debug", "show", "x")])
def test_debug_is_known_before_and_after_the_action(run, words) -> None:
    with pytest.raises(Exception, match="no data 'x'"):
        run(*words)


@pytest.fixture
def address(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A server with the made-up files in place of the public ones."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Stay silent."""

    files = tuple(
        fetching.PublicFile(
            file.name,
            len(content := (folder / file.name).read_bytes()),
            hashlib.sha256(content).hexdigest(),
        )
        for file in fetching.PUBLIC["irene-2021"].files
    )
    data = replace(fetching.PUBLIC["irene-2021"], files=files)
    monkeypatch.setitem(fetching.PUBLIC, "irene-2021", data)
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_fetch_and_use(
    run, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRENE_DATA_DIR", str(tmp_path / "all"))
    code, out, err = run("fetch", "irene-2021", "--base-url", address)
    assert code == 0
    assert out.strip() == str(tmp_path / "all" / "irene-pc1")
    assert err.count("downloaded") == 4
    code, out, _ = run("show", "irene-pc1")
    assert out.startswith("irene-pc1: 4 trees")
    code, out, err = run("fetch", "irene-2021", "--base-url", address, "--json")
    assert [file["downloaded"] for file in json.loads(out)["files"]] == [False] * 4
    assert "do not pass it on" in err


def test_fetch_elsewhere(run, address: str, tmp_path: Path) -> None:
    out = tmp_path / "here"
    assert run("fetch", "irene-2021", "--base-url", address, "--out", out)[0] == 0
    assert len(list(out.iterdir())) == 4


def test_fetch_from_a_wrong_place(run, address: str, tmp_path: Path) -> None:
    out = tmp_path / "here"
    code, said, err = run(
        "fetch", "irene-2021", "--base-url", f"{address}/nowhere", "--out", out
    )
    assert (code, said) == (1, "")
    assert "404" in err
    assert not out.exists()
