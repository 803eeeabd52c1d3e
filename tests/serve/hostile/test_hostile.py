"""One test for each way of being hostile; the server answers others meanwhile."""

from __future__ import annotations

import gzip
import io
import json
import socket
import time
import zipfile
from typing import Any

import httpx
import pytest

from .conftest import Attacked, InProcess, Serve

pytestmark = pytest.mark.xdist_group("hostile")
CONFIG = {"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 24,
          "num_attention_heads": 2, "intermediate_size": 48}  # fmt: skip
STREAMS = 1_000


def bring(inside: InProcess, body: bytes, **headers: str) -> httpx.Response:
    return inside.ask("POST", "/api/v1/uploads", content=body, headers=headers)


def is_refused(response: httpx.Response, *statuses: int) -> str:
    assert response.status_code in statuses, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return str(response.json()["detail"])


def test_names_with_html_stay_text(inside: InProcess) -> None:
    name = "%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    kept = bring(
        inside, json.dumps({**CONFIG, "x": 1}).encode(), **{"X-Filename": name}
    )
    assert kept.json()["name"] == "<script>alert(1)</script>"
    response = inside.ask("GET", kept.json()["links"]["self"])
    for answer in (kept, response):
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
    unknown = inside.ask("GET", "/api/v1/energy", params={"model": "<img src=x>"})
    assert "<img src=x>" in is_refused(unknown, 404)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/uploads/..%2f..%2f..%2fetc%2fpasswd",
        "/api/v1/answers/..%2firene.sqlite",
        "/api/v1/jobs/..%2f..%2fserver-id",
        "/static/..%2f..%2fsettings.py",
        "/static/../settings.py",
        "/static/%2e%2e/settings.py",
        "/static//etc/passwd",
        "/api/v1/energy?model=../../../../etc/passwd",
        "/api/v1/energy?model=/etc/passwd",
        "/api/v1/energy?model=./config.json",
        "/api/v1/energy?model=gpt2&hardware=../../../etc/passwd",
        "/api/v1/energy?model=gpt2&hardware=/tmp/predictor.json",
        "/api/v1/energy?model=upload:../../x",
    ],
)
def test_no_path_leads_outside(inside: InProcess, path: str) -> None:
    # Written into the URL as it is: a client library would tidy it up.
    url = httpx.URL("http://127.0.0.1:8000").copy_with(raw_path=path.encode())
    response = inside.ask("GET", str(url))
    assert response.status_code in (400, 404), response.text
    assert "root:" not in response.text


def test_a_gzip_bomb_is_refused(inside: InProcess) -> None:
    bomb = gzip.compress(bytes(50_000_000), 1)
    assert "unpacks to more" in is_refused(bring(inside, bomb), 413)


def test_a_zip_archive_is_refused(inside: InProcess) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", b" " * 10_000_000)
    assert "zip" in is_refused(bring(inside, file.getvalue()), 400)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model_type":"bert","a":' + b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b"[" + b"[]," * 4_000_000 + b"[]]",
        b" " * 30_000_000,
    ],
    ids=["deep", "deep-objects", "many", "large"],
)
def test_json_bombs_are_refused(inside: InProcess, body: bytes) -> None:
    is_refused(bring(inside, body), 413)


def test_a_body_without_an_end_is_cut_off(inside: InProcess) -> None:
    async def endless() -> Any:
        while True:
            yield b" " * 1_000_000

    async def send() -> httpx.Response:
        return await inside.client.post("/api/v1/uploads", content=endless())

    is_refused(inside.run(send()), 413)


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5_000, "1e400", "-" + "9" * 4_299])
def test_huge_numbers_are_refused(inside: InProcess, number: str) -> None:
    body = f'{{"model_type":"bert","hidden_size":{number}}}'.encode()
    is_refused(bring(inside, body), 400, 413)
    job = f'{{"model":"gpt2","batch_size":{number}}}'.encode()
    is_refused(inside.ask("POST", "/api/v1/jobs", content=job), 400, 422)
    query = {"model": "gpt2", "batch_size": number}
    is_refused(inside.ask("GET", "/api/v1/energy", params=query), 400, 422)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_refused(inside: InProcess, number: str) -> None:
    body = f'{{"model_type":"bert","layer_norm_eps":{number}}}'.encode()
    assert "no JSON number" in is_refused(bring(inside, body), 400)
    query = {"model": "gpt2", "seq_len": number}
    is_refused(inside.ask("GET", "/api/v1/energy", params=query), 422)


def test_a_config_with_code_is_read_and_its_code_is_not_run(inside: InProcess) -> None:
    code = {"auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    detail = is_refused(
        bring(inside, json.dumps({**code, "model_type": "evil"}).encode()), 400
    )
    assert "never does" in detail
    kept = bring(inside, json.dumps(CONFIG | code).encode())
    assert kept.status_code == 201
    query = {"model": f"upload:{kept.json()['id']}", "seq_len": 8}
    answer = inside.ask("GET", "/api/v1/energy", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["tree"]["op"] == "BertModel"


def test_a_tree_that_unfolds_to_more_than_memory_is_refused(inside: InProcess) -> None:
    query = {"model": "bert-l2-h128", "seq_len": 8}
    document = inside.ask("GET", "/api/v1/energy", params=query).json()
    document["tree"]["children"][0]["count"] = 10**12
    body = json.dumps(document).encode()
    is_refused(bring(inside, body), 413)


# Real connections ----------------------------------------------------------------


def connect(server: Attacked) -> socket.socket:
    return socket.create_connection(server.address, 30)


def answers_others(server: Attacked) -> None:
    assert server.client.get("/healthz").status_code == 200
    found = server.client.get("/api/v1/models", params={"limit": 1})
    assert found.status_code == 200


def test_slow_clients_hold_nobody_up(serve: Serve) -> None:
    server = serve()
    slow = [connect(server) for _ in range(200)]
    head = b"POST /api/v1/uploads HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 9\r\n\r\n"
    for number, line in enumerate(slow):
        # Half a head, or a body that never comes.
        line.sendall(head[:20] if number % 2 else head + b"{")
    for _ in range(5):
        for line in slow[1::2]:
            line.sendall(b"x")
        answers_others(server)
    for line in slow:
        line.close()
    answers_others(server)


def test_a_thousand_open_streams_hold_nobody_up(serve: Serve) -> None:
    raise_limit(STREAMS + 200)  # the server does so by itself
    server = serve()
    body = {"kind": "measure", "model": "bert-l2-h128", "protocol": "default"}
    job = server.client.post("/api/v1/jobs", json=body)
    assert job.status_code == 202, job.text
    here = job.json()["links"]["self"]
    streams = [connect(server) for _ in range(STREAMS)]
    for stream in streams:
        head = f"GET {here}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        stream.sendall(head.encode())
    for stream in streams:
        read_until(stream, b'"irene.job/1"')
    answers_others(server)
    assert server.client.get(here).json()["state"] in ("queued", "running")
    cancelled = server.client.delete(here)
    assert cancelled.json()["state"] == "cancelled"
    for stream in streams:
        read_until(stream, b"event: done")
        stream.close()
    answers_others(server)


def read_until(stream: socket.socket, words: bytes) -> None:
    data = b""
    limit = time.monotonic() + 60
    while words not in data and time.monotonic() < limit:
        part = stream.recv(65_536)
        assert part, data
        data += part
    assert words in data


def raise_limit(number: int) -> None:
    """Let this process have that many files open."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < number:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number), hard))
