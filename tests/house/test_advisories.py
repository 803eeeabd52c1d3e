"""Known faults of pins: found, or said to be not looked at."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from scripts import advisories

FAULT = {"id": "PYSEC-1", "fixed_in": ["1.1"], "withdrawn": None}
TAKEN_BACK = {"id": "PYSEC-2", "fixed_in": [], "withdrawn": "2026-01-01"}
KNOWN = {
    "/old/1.0/json": ("1.0", [FAULT, TAKEN_BACK]),
    "/new/json": ("3.0", []),
    "/moved/json": ("9.9", [FAULT]),
}


class Index(BaseHTTPRequestHandler):
    """Has some versions."""

    def do_GET(self) -> None:
        version, faults = KNOWN.get(self.path, ("", []))
        self.send_response(200 if version else 404)
        self.end_headers()
        document = {"info": {"version": version}, "vulnerabilities": faults}
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *words: object) -> None:
        """Nothing."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with HTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(advisories, "INDEX", url)
        yield
        server.shutdown()


@pytest.mark.parametrize(
    ("pins", "code", "words"),
    [
        ("old==1.0 \\\n    --hash=x\nnew==3.0", 1, "old 1.0: PYSEC-1 (mended in 1.1)"),
        ("new[all]==3.0\nmoved==1.0", 0, "not looked at: moved 1.0"),
        ("moved==1.0", 1, "0 of 1 pins looked at"),
    ],
)
def test_faults_of_pins(
    index: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    pins: str,
    code: int,
    words: str,
) -> None:
    (tmp_path / "pins").write_text(pins)
    assert advisories.main([str(tmp_path / "pins")]) == code
    told = capsys.readouterr().out
    assert words in told
    assert "PYSEC-2" not in told
