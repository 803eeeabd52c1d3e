"""Connections that never end, and those who have too many."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest

from irene.serve.http.connections import Rounds

from ..real_server import RealServer

PROGRAM = """
import sys
from pathlib import Path
from irene.serve.http import connections, server
from irene.serve.http.settings import Limits, Settings
connections.REST_S = 0.3
limits = Limits(headers_s=2, body_s=30, connections=60, client_connections=20)
settings = Settings(Path(sys.argv[1]), port=0, computing=1, limits=limits)
sock = server.listen(settings)
print("irene serves http://127.0.0.1:%d" % sock.getsockname()[1], flush=True)
server.run(settings, sock)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    folder = tmp_path_factory.mktemp("few")
    server = RealServer(folder, folder / "log", program=("-c", PROGRAM, str(folder)))
    yield server.start(ready=False)
    server.stop()


def connect(server: RealServer, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(server.address, 60, (source, 0))


def is_closed(line: socket.socket) -> bool:
    try:
        while line.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("path", ["GET /healthz", "POST /nowhere", "GET /static/x"])
def test_a_body_that_nobody_reads_has_its_time(server: RealServer, path: str) -> None:
    with connect(server) as line:
        head = f"{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        line.sendall(head.encode())
        assert line.recv(20).startswith(b"HTTP/1.1 ")
        line.sendall(b"x")
        assert is_closed(line)


def test_who_keeps_us_waiting_makes_room(server: RealServer) -> None:
    stuck = [connect(server) for _ in range(70)]
    head = b"POST /api/v1/trade-off HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100"
    for line in stuck:
        with contextlib.suppress(OSError):  # cut off already
            line.sendall(head + b"\r\n\r\nx")
    with httpx.Client() as client:
        assert client.get(f"{server.url}/healthz").status_code == 200
    assert is_closed(stuck[0])  # the oldest
    for line in stuck:
        line.close()


def test_one_address_has_its_share_of_connections(server: RealServer) -> None:
    mine = [connect(server, "127.0.0.9") for _ in range(25)]
    assert all(is_closed(line) for line in mine[:5])
    mine[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert mine[-1].recv(20).startswith(b"HTTP/1.1 200")
    for line in mine:
        line.close()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"421"),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"505"),
        (
            b"POST /api/v1/trade-off HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3"
            b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"400",
        ),
        (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n\r\n"
            % (b"x" * 40_000),
            b"4",
        ),
    ],
    ids=["another name", "version", "two lengths", "large head"],
)
def test_what_is_no_request_to_us_is_refused(
    server: RealServer, words: bytes, status: bytes
) -> None:
    with connect(server) as line:
        line.sendall(words)
        assert line.recv(100).startswith(b"HTTP/1.1 " + status)


def test_in_each_round_one_of_an_address_goes_on() -> None:
    async def go() -> None:
        rounds = Rounds()
        went: list[str] = []

        def come(address: str) -> None:
            if rounds.may(address, partial(went.append, address)):
                went.append(address)

        for _ in range(30):
            come("many")
        come("one")
        assert went == ["many", "one"]
        before = len(went)
        for number in range(60):  # also those who come while others wait
            await asyncio.sleep(0)
            come(f"other {number}")
            assert went[-1] == f"other {number}"
            assert len(went) <= before + 2
            before = len(went)
        assert went.count("many") == 30
        come("many")
        assert went[-1] == "many"  # nobody is kept waiting for ever

    asyncio.run(go())


def test_many_requests_of_one_address_at_once_are_all_answered(
    server: RealServer,
) -> None:
    body = json.dumps({"x": "y" * 300_000}).encode()
    head = f"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
    whole = f"{head}\r\nConnection: close\r\n\r\n".encode() + body
    with ThreadPoolExecutor(12) as threads:

        def post(_: int) -> bytes:
            with connect(server, "127.0.0.5") as line:
                line.sendall(whole)
                return line.recv(12)

        assert set(threads.map(post, range(60))) == {b"HTTP/1.1 405"}
