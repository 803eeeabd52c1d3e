from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import socket
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from irene.spec import RunSpec

from ..real_server import RealServer

SMALL = {"model": "bert-l2-h128", "batch_size": 3, "seq_len": 16}


def test_health_readiness_and_metrics(served: RealServer, api: httpx.Client) -> None:
    api.get("/energy", params=SMALL)
    assert httpx.get(f"{served.url}/healthz").json() == {"status": "ok"}
    assert httpx.get(f"{served.url}/readyz").json() == {"status": "ready"}
    text = httpx.get(f"{served.url}/metrics").text
    assert 'irene_answers_total{origin="computed"}' in text
    assert (
        'irene_requests_total{method="GET",route="/api/v1/energy",status="200"}' in text
    )
    assert "irene_computations_waiting" in text


def test_the_log_has_a_line_for_each_request(
    served: RealServer, api: httpx.Client
) -> None:
    answer = api.get("/models", params={"search": 'x"\n y', "limit": 1})
    ends = time.monotonic() + 120
    found: list[str] = []
    while not found and time.monotonic() < ends:  # it is written after the answer
        log = served.log.read_text().splitlines()
        found = [each for each in log if "search=x" in each]
    (line,) = found
    told = json.loads(line)
    assert told["target"] == "/api/v1/models?search=x%22%0A+y&limit=1"
    assert (told["method"], told["status"]) == ("GET", 200)
    assert told["request"] == answer.headers["x-request-id"]


def test_pages_and_files_of_the_dashboard(served: RealServer) -> None:
    for path in ("/", "/compare", "/jobs/abc", "/method"):
        page = httpx.get(served.url + path)
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
    script = httpx.get(f"{served.url}/static/app.js")
    assert "javascript" in script.headers["content-type"]
    etag = script.headers["etag"]
    again = httpx.get(f"{served.url}/static/app.js", headers={"if-none-match": etag})
    assert again.status_code == 304


def test_the_description_has_every_field_of_a_run(
    served: RealServer, api: httpx.Client
) -> None:
    document = api.get("/openapi.json").json()
    assert httpx.get(f"{served.url}/openapi.json").json() == document
    parameters = document["paths"]["/api/v1/energy"]["get"]["parameters"]
    names = {each["name"] for each in parameters}
    run = set(RunSpec("any").__slots__) - {"config_digest", "chosen"}
    assert run <= names
    assert all(each["description"] for each in parameters)
    dtype = next(each for each in parameters if each["name"] == "dtype")
    assert "fp16" in dtype["schema"]["enum"]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["summary"], path
            problem = operation["responses"]["422"]["content"]
            assert list(problem) == ["application/problem+json"], path


def test_equal_questions_at_once_are_computed_once(
    served: RealServer, api: httpx.Client
) -> None:
    def computed() -> float:
        text = httpx.get(f"{served.url}/metrics").text
        line = next(x for x in text.splitlines() if 'total{origin="computed"}' in x)
        return float(line.split()[-1])

    before = computed()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ask = {"model": "bert-l4-h256", "seq_len": 40}
        answers = list(pool.map(lambda _: api.get("/energy", params=ask), range(8)))
    assert {each.status_code for each in answers} == {200}
    assert len({each.content for each in answers}) == 1
    assert computed() == before + 1


def test_permalinks_outlive_a_restart_and_two_servers_share_a_folder(
    served: RealServer, api: httpx.Client, tmp_path: Path
) -> None:
    first = api.get("/energy", params=SMALL)
    damaged = api.get("/energy", params={**SMALL, "seq_len": 17})
    key = damaged.headers["etag"].strip('"')
    with sqlite3.connect(served.data_dir / "irene.sqlite", timeout=30) as store:
        store.execute("UPDATE answers SET body = x'00' WHERE key = ?", (key,))
    store.close()
    other = RealServer(served.data_dir, tmp_path / "log", ("--computing", "1")).start()
    try:
        link = httpx.get(other.url + first.headers["content-location"])
        assert link.content == first.content
        # The damaged row is not served, and the same question is computed anew.
        assert httpx.get(f"{other.url}/api/v1/answers/{key}").status_code == 404
        anew = httpx.get(
            f"{other.url}/api/v1/energy", params={**SMALL, "seq_len": 17}, timeout=60
        )
        assert anew.content == damaged.content
        mine = httpx.get(
            f"{other.url}/api/v1/energy", params={**SMALL, "seq_len": 18}, timeout=60
        )
        theirs = api.get(mine.headers["content-location"].removeprefix("/api/v1"))
        assert theirs.content == mine.content
        check_a_stop_waits_for_the_answers_under_way(other)
    finally:
        other.stop()


def check_a_stop_waits_for_the_answers_under_way(server: RealServer) -> None:
    computing = _computing_process(server)
    os.kill(computing, signal.SIGSTOP)  # the answer is under way until we say
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ask = {"model": "bert-l2-h128", "batch_size": "1:8"}
        waiting = pool.submit(
            httpx.get, f"{server.url}/api/v1/what-if", params=ask, timeout=120
        )
        _until(lambda: _gauge(server, "irene_computations_running") > 0)
        stopped = pool.submit(server.stop, signal.SIGTERM)
        _until(lambda: not _takes_connections(server))
        os.kill(computing, signal.SIGCONT)
        code = stopped.result()
        answer = waiting.result()
    assert code == 0
    assert answer.status_code == 200
    assert len(answer.json()["rows"]) == 8
    assert '"ERROR"' not in server.log.read_text()


def _computing_process(server: RealServer) -> int:
    parent = server.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    (child,) = [
        int(each)
        for each in children
        if b"irene.work.child" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]
    return child


def _until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


def _takes_connections(server: RealServer) -> bool:
    try:
        httpx.get(f"{server.url}/healthz")
    except httpx.TransportError:
        return False
    return True


def _gauge(server: RealServer, name: str) -> float:
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return float(next(x for x in lines if x.startswith(name)).split()[-1])


def test_several_processes_answer_on_one_port(tmp_path: Path) -> None:
    options = ("--workers", "2", "--computing", "1")
    server = RealServer(tmp_path / "data", tmp_path / "log", options)
    server.start(ready=False)
    try:
        server.wait("/healthz")
        for _ in range(20):
            assert httpx.get(f"{server.url}/api/v1/models?limit=1").status_code == 200
        text = httpx.get(f"{server.url}/metrics").text
        counted = [x for x in text.splitlines() if x.startswith("irene_requests")]
        (line,) = [x for x in counted if "/api/v1/models" in x]
        assert float(line.split()[-1]) == 20  # of both processes together
    finally:
        assert server.stop() == 0
    assert not list((tmp_path / "data").glob("metrics-*"))


SHORT = """
import sys
from pathlib import Path
from irene.serve.http.server import listen, run
from irene.serve.http.settings import Limits, Settings
limits = Limits(headers_s=0.5, body_s=0.5)
settings = Settings(Path(sys.argv[1]), port=0, computing=1, limits=limits)
sock = listen(settings)
print("irene serves http://127.0.0.1:%d" % sock.getsockname()[1], flush=True)
run(settings, sock)
"""


def test_slow_clients_are_cut_off_and_others_are_answered(tmp_path: Path) -> None:
    server = RealServer(tmp_path, tmp_path / "log")
    server.program = ("-c", SHORT, str(tmp_path))
    server.start(ready=False)
    server.wait("/healthz")
    address = urlsplit(server.url)
    where = (str(address.hostname), int(address.port or 0))
    heads = [socket.create_connection(where) for _ in range(50)]
    for each in heads:
        each.sendall(b"GET / HTTP/1.1\r\nHost: ")
    body = socket.create_connection(where)
    body.sendall(
        b"POST /api/v1/trade-off HTTP/1.1\r\nHost: [::1]\r\n"
        b"Content-Length: 9\r\n\r\nmodel"
    )
    try:
        assert httpx.get(f"{server.url}/healthz", timeout=30).status_code == 200
        for each in heads:
            each.settimeout(60)
            assert each.recv(1000) == b""  # closed by the server
        body.settimeout(60)
        assert body.recv(1000).startswith(b"HTTP/1.1 408")
    finally:
        for each in (*heads, body):
            each.close()
        server.stop()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--host", "0.0.0.0"), "--token"),
        (("--port", "99999"), "65535"),
        (("--store", "nonsense"), "cannot open the store"),
    ],
)
def test_what_cannot_start_says_why(
    tmp_path: Path,
    options: tuple[str, ...],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from irene.cli import main

    words = ["serve", "--data-dir", str(tmp_path), *options]
    assert main(words) == 2
    assert told in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(
    served: RealServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from irene.cli import main

    port = str(urlsplit(served.url).port)
    assert main(["serve", "--port", port, "--data-dir", str(tmp_path)]) == 2
    assert "choose another --port" in capsys.readouterr().err
