from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import socketserver
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import psutil
import pytest

from irene.serve.http import server as server_module
from irene.serve.http.server import METRICS, SILENT_S, _metrics_folder
from irene.serve.http.settings import METRICS_FOLDER, Settings
from irene.serve.uploads.endpoints import READ_HERE_BYTES
from irene.spec import RunSpec

from ..patience import first_line, until
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

    def found() -> list[str]:  # it is written after the answer
        log = served.log.read_text().splitlines()
        return [each for each in log if "search=x" in each]

    (line,) = until(found, "a line of the log")
    told = json.loads(line)
    assert told["target"] == "/api/v1/models?search=x%22%0A+y&limit=1"
    assert (told["method"], told["status"]) == ("GET", 200)
    assert told["request"] == answer.headers["x-request-id"]


def test_known_answers_are_whole_on_one_line_and_then_it_closes(
    served: RealServer, api: httpx.Client
) -> None:
    first = api.get("/energy", params=SMALL)
    query = str(httpx.QueryParams(SMALL))
    head = f"GET /api/v1/energy?{query} HTTP/1.1\r\nHost: localhost\r\n"
    with socket.create_connection(served.address, 60) as line:
        line.sendall(f"{head}\r\n{head}\r\n{head}Connection: close\r\n\r\n".encode())
        got = b"".join(iter(lambda: line.recv(65_536), b""))
    answers = got.split(b"HTTP/1.1 200 OK\r\n")[1:]
    heads, bodies = zip(*(each.split(b"\r\n\r\n", 1) for each in answers), strict=True)
    assert bodies == (first.content,) * 3
    told = [dict(each.split(b": ", 1) for each in h.split(b"\r\n")) for h in heads]
    assert len({each[b"x-request-id"] for each in told}) == 3
    for each in told:
        assert each[b"etag"].decode() == first.headers["etag"]
        assert each[b"x-content-type-options"] == b"nosniff"
        assert b"date" in each
    assert [each.get(b"Connection") for each in told] == [None, None, b"close"]


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


def test_a_large_tree_is_read_elsewhere(api: httpx.Client) -> None:
    tree = api.get("/energy", params={**SMALL, "fold": "false", "level": "math"}).json()
    tree["tree"]["children"] *= 8  # more than the HTTP process reads itself
    body = json.dumps(tree).encode()
    assert len(body) > READ_HERE_BYTES
    kept = api.post("/uploads", content=body)
    assert kept.status_code == 201, kept.text
    assert api.get(f"/uploads/{kept.json()['id']}").content == body
    assert api.post("/uploads", content=body[:-1]).status_code == 400


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
            f"{other.url}/api/v1/energy", params={**SMALL, "seq_len": 17}, timeout=240
        )
        assert anew.content == damaged.content
        mine = httpx.get(
            f"{other.url}/api/v1/energy", params={**SMALL, "seq_len": 18}, timeout=240
        )
        theirs = api.get(mine.headers["content-location"].removeprefix("/api/v1"))
        assert theirs.content == mine.content
    finally:
        other.stop()


GATED = """
import sys
from pathlib import Path
from irene.serve.computing import pool
from irene.serve.http import server
from irene.serve.http.settings import Settings
from irene.serve.jobs import execution
sys.path.insert(0, sys.argv[2])
pool.WORKER = "tests.serve.http.gated"
execution.WORK["predict"] = "tests.serve.jobs.programs:quick"
settings = Settings(Path(sys.argv[1]), port=0, computing=1, private_webhooks=True)
pool.KEPT_VARIABLES += ("IRENE_GATE",)
sock = server.listen(settings)
print("irene serves http://127.0.0.1:%d" % sock.getsockname()[1], flush=True)
server.run(settings, sock)
"""
ROOT = Path(__file__).parents[3]


@pytest.fixture
def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealServer]:
    """A server whose answers come when `gate` is there, and whose jobs do nothing."""
    monkeypatch.setenv("IRENE_GATE", str(tmp_path))
    words = ("-c", GATED, str(tmp_path / "data"), str(ROOT))
    server = RealServer(tmp_path / "data", tmp_path / "log", program=words)
    try:
        yield server.start()
    finally:
        server.stop()


def test_a_stop_waits_for_the_answers_under_way(
    gated: RealServer, tmp_path: Path
) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        url = f"{gated.url}/api/v1/energy?model=gpt2"
        waiting = pool.submit(httpx.get, url, timeout=240)
        until((tmp_path / "begun").exists, "it is computed")
        gated.process.terminate()
        (tmp_path / "gate").touch()
        assert waiting.result().json() == {"question": "energy"}
    assert gated.stop() == 0
    assert '"ERROR"' not in gated.log.read_text()


class Drip(socketserver.BaseRequestHandler):
    """Answers a byte now and then, for ever."""

    def handle(self) -> None:
        self.server.called.append(1)  # type: ignore[attr-defined]
        with contextlib.suppress(OSError):
            while True:
                self.request.sendall(b"H")
                time.sleep(0.1)


def test_webhooks_that_never_end_hold_up_no_job_and_no_stop(
    gated: RealServer, tmp_path: Path
) -> None:
    class Drips(socketserver.ThreadingTCPServer):
        daemon_threads = True
        called: ClassVar[list[int]] = []

    with Drips(("127.0.0.1", 0), Drip) as drips, httpx.Client(timeout=240) as client:
        threading.Thread(target=drips.serve_forever, daemon=True).start()
        hook = f"http://127.0.0.1:{drips.server_address[1]}/"

        def submit(**more: Any) -> str:
            body = {"model": "gpt2", **more}
            job = client.post(f"{gated.url}/api/v1/jobs", json=body)
            return str(job.json()["links"]["self"])

        for _ in range(3):
            submit(notify={"webhook": hook})
        until(lambda: len(drips.called) >= 2, "two of them are being told")
        other = gated.url + submit()
        until(lambda: client.get(other).json()["state"] == "succeeded", "another job")
        # A stop has ten seconds for all of it; kill -9 was needed before.
        assert gated.stop() == 0
        drips.shutdown()


STUCK = """
import os, signal, sys, threading
from pathlib import Path
from irene.serve.http import server
from irene.serve.http.settings import Settings
signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
server.END_S = 0.5
app = server._make_app(Settings(Path(sys.argv[1])), os.getppid())
threading.Thread(target=threading.Event().wait).start()
print("ready", flush=True)
threading.Event().wait()
"""


def test_a_stop_has_an_end_whatever_it_waits_for(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert first_line(process) == "ready\n"
            process.terminate()
            assert first_line(process) == "told\n"  # it may end in good order before
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_the_parent_of_several_processes_loads_little() -> None:
    program = "import sys, irene.serve.http.server; print(*sys.modules)"
    words = [sys.executable, "-c", program]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert not {"fastapi", "sqlalchemy", "numpy"} & set(loaded.split())


def children_of(pid: int) -> list[int]:
    return [each.pid for each in psutil.Process(pid).children(recursive=True)]


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    return False


def metrics_folder(pid: int) -> Path:
    """Where a server keeps its numbers: it has a lock in there."""
    opened = [each.path for each in psutil.Process(pid).open_files()]
    (found,) = [Path(each).parent for each in opened if METRICS in each]
    return found


def test_a_parent_that_is_killed_takes_its_processes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--workers", "2", "--computing", "1")
    server = RealServer(tmp_path / "data", tmp_path / "log", options)
    server.start(ready=False)
    theirs = children_of(server.process.pid)
    assert len(theirs) >= 3
    left = metrics_folder(server.process.pid)
    server.kill()
    until(lambda: not any(map(is_alive, theirs)), "all of them have ended")
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(server.address)
    monkeypatch.setenv(METRICS_FOLDER, "")
    monkeypatch.setattr(server_module, "NEW_S", 0.0)
    folder, lock = _metrics_folder(Settings(tmp_path / "data", workers=2))
    lock.release()
    shutil.rmtree(folder)
    assert not left.exists()  # the next server cleans up


def test_no_number_is_counted_on_a_disk_that_may_be_full(tmp_path: Path) -> None:
    """To write into a file that is mapped and has no room is to be killed."""
    server = RealServer(tmp_path / "data", tmp_path / "log", ("--computing", "1"))
    server.start(ready=False)
    try:
        pid = server.process.pid
        maps = [Path(f"/proc/{each}/maps") for each in (pid, *children_of(pid))]
        mapped = " ".join(each.read_text() for each in maps)
        assert METRICS in mapped
        # SQLite's own has its room before it is mapped.
        assert {*re.findall(re.escape(str(tmp_path)) + r"\S*", mapped)} <= {
            str(tmp_path / "data" / "irene.sqlite-shm")
        }
    finally:
        server.stop()


def test_a_parent_that_is_killed_at_once_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = RealServer(tmp_path / "data", tmp_path / "log", ("--workers", "2"))
    monkeypatch.setattr(server, "wait", lambda path: None)
    server.start()
    pid = server.process.pid
    until(lambda: len(children_of(pid)) >= 3, "two, and who cleans up after them")
    theirs = children_of(pid)
    server.kill()  # long before they have loaded anything
    until(lambda: not any(map(is_alive, theirs)), "all of them have ended")


def http_processes(pid: int) -> set[int]:
    found = set()
    for each in psutil.Process(pid).children():
        with contextlib.suppress(psutil.Error):  # it has ended
            if "spawn_main" in str(each.cmdline()):
                found.add(each.pid)
    return found


def test_a_process_that_dies_while_its_parent_waits_for_it_is_replaced(
    tmp_path: Path,
) -> None:
    options = ("--workers", "2", "--computing", "1")
    server = RealServer(tmp_path / "data", tmp_path / "log", options)
    server.start(ready=False)
    try:
        pid = server.process.pid
        before = http_processes(pid)
        one = min(before)
        os.kill(one, signal.SIGSTOP)
        time.sleep(2.0)  # its parent asks how it is, and would wait for a minute
        os.kill(one, signal.SIGKILL)
        until(lambda: http_processes(pid) - before, "there is another", SILENT_S / 2)
    finally:
        server.stop()


def test_several_processes_answer_on_one_port(tmp_path: Path) -> None:
    options = ("--workers", "2", "--computing", "1")
    server = RealServer(tmp_path / "data", tmp_path / "log", options)
    server.start(ready=False)
    try:
        for _ in range(20):
            assert httpx.get(f"{server.url}/api/v1/models?limit=1").status_code == 200
        text = httpx.get(f"{server.url}/metrics").text
        counted = [x for x in text.splitlines() if x.startswith("irene_requests")]
        (line,) = [x for x in counted if "/api/v1/models" in x]
        assert float(line.split()[-1]) == 20  # of both processes together
        folder = metrics_folder(server.process.pid)
    finally:
        assert server.stop() == 0
    assert not folder.exists()


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
    where = server.address
    heads = [socket.create_connection(where, 60) for _ in range(50)]
    for each in heads:
        each.sendall(b"GET / HTTP/1.1\r\nHost: ")
    body = socket.create_connection(where, 60)
    body.sendall(
        b"POST /api/v1/trade-off HTTP/1.1\r\nHost: [::1]\r\n"
        b"Content-Length: 9\r\n\r\nmodel"
    )
    try:
        assert httpx.get(f"{server.url}/healthz", timeout=30).status_code == 200
        for each in heads:
            assert each.recv(1000) == b""  # closed by the server
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

    port = str(served.address[1])
    assert main(["serve", "--port", port, "--data-dir", str(tmp_path)]) == 2
    assert "choose another --port" in capsys.readouterr().err
