"""Downloads, against a server on this machine."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from irene.dataset import NodeTable, read_data
from irene.dataset.fetch import PUBLIC, PublicData, PublicFile, fetch
from irene.dataset.formats.csv2021 import FILES
from irene.errors import FormatError, IreneError, UsageError


class Server(ThreadingHTTPServer):
    """Serves contents by path; a path in `cut` or `reset` loses its second half."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.reset: set[str] = set()
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/data"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        content = self.server.contents.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        half = content[: len(content) // 2]
        short = self.path in self.server.cut | self.server.reset
        self.wfile.write(half if short else content)
        if self.path in self.server.reset:
            now = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
            os.close(self.connection.detach())

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with Server() as running:
        for name in FILES.values():
            running.contents[f"/data/{name}"] = (folder / name).read_bytes()
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def public(folder: Path, server: Server) -> PublicData:
    contents = {name: (folder / name).read_bytes() for name in FILES.values()}
    files = tuple(
        PublicFile(name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in contents.items()
    )
    return PublicData("made-up", server.url, "made up", files)


def kept(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*")) if folder.exists() else []


def test_what_is_fetched_can_be_read(
    public: PublicData, server: Server, tmp_path: Path, table: NodeTable
) -> None:
    out = tmp_path / "new" / "folder"
    seen: list[tuple[int, int, str]] = []
    files = list(fetch(public, out, progress=lambda *facts: seen.append(facts)))
    assert [downloaded for _, downloaded in files] == [True] * 4
    assert read_data(out)[0].equals(table)
    assert kept(out) == sorted(FILES.values())
    assert {(name, done) for done, _, name in seen} >= {
        (file.name, file.size_bytes) for file in public.files
    }


def test_what_is_here_is_not_fetched_again(
    public: PublicData, server: Server, tmp_path: Path
) -> None:
    missing = FILES["ml1"]
    content = server.contents.pop(f"/data/{missing}")
    with pytest.raises(IreneError, match="404"):
        list(fetch(public, tmp_path / "out"))
    assert kept(tmp_path / "out") == sorted((FILES["model"], FILES["module"]))
    server.contents[f"/data/{missing}"] = content
    server.asked.clear()
    files = list(fetch(public, tmp_path / "out", server.url + "/"))
    assert [downloaded for _, downloaded in files] == [False, False, True, True]
    assert server.asked == [f"/data/{missing}", f"/data/{FILES['ml2']}"]


def test_a_server_that_leaves_is_no_fault_of_our_disk(
    public: PublicData, server: Server, tmp_path: Path
) -> None:
    server.contents[f"/data/{FILES['model']}"] = bytes(1 << 22)
    public = replace(public, files=(replace(public.files[0], size_bytes=1 << 22),))
    server.reset.add(f"/data/{FILES['model']}")
    with pytest.raises(IreneError, match=r"cannot download .*reset by peer"):
        list(fetch(public, tmp_path / "out"))
    assert kept(tmp_path / "out") == []


def test_a_body_that_is_cut_off(
    public: PublicData, server: Server, tmp_path: Path
) -> None:
    server.cut.add(f"/data/{FILES['model']}")
    with pytest.raises(FormatError, match="was cut off"):
        list(fetch(public, tmp_path / "out"))
    assert kept(tmp_path / "out") == []


@pytest.mark.parametrize("longer", [False, True])
def test_a_file_that_is_another(
    public: PublicData, server: Server, tmp_path: Path, longer: bool
) -> None:
    path = f"/data/{FILES['model']}"
    content = server.contents[path]
    server.contents[path] = content * 2 if longer else b"?" + content[1:]
    with pytest.raises(FormatError, match="not the file it should be"):
        list(fetch(public, tmp_path / "out"))
    assert kept(tmp_path / "out") == []


def test_no_connection(public: PublicData, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(IreneError, match="is there a connection"):
        list(fetch(public, tmp_path / "out", url))
    assert kept(tmp_path / "out") == []


@pytest.mark.parametrize("url", ["file:///etc", "ftp://x", "nowhere", "http://[bad"])
def test_an_address_that_is_none(public: PublicData, tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="address"):
        list(fetch(public, tmp_path / "out", url))


def test_a_file_of_the_user_is_not_replaced(public: PublicData, tmp_path: Path) -> None:
    own = tmp_path / FILES["model"]
    own.write_text("mine")
    with pytest.raises(UsageError, match="move it away"):
        list(fetch(public, tmp_path))
    assert own.read_text() == "mine"


def test_the_public_files_are_pinned() -> None:
    data = PUBLIC["irene-2021"]
    assert data.base_url.startswith("https://raw.githubusercontent.com/StonyBrookNLP/")
    assert [file.name for file in data.files] == list(FILES.values())
    assert all(len(file.sha256) == 64 for file in data.files)
