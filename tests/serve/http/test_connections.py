"""Connections that never end, and those who have too many."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import select
import selectors
import socket
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from irene.serve.answers.memory import make_ready
from irene.serve.computing.turns import Rounds
from irene.serve.http.access import Held
from irene.serve.http.connections import PatientProtocol
from irene.serve.http.exchange import PIECE, Exchange
from irene.serve.http.fair_loop import FairLoop, FairSelector
from irene.serve.http.settings import Limits, Settings

from ..real_server import RealServer

PROGRAM = """
import sys
from pathlib import Path
from irene.serve.http import connections, server
from irene.serve.http.settings import Limits, Settings
connections.REST_S = 0.3
limits = Limits(
    headers_s=2, body_s=30, send_s=1, connections=60, client_connections=20
)
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


def memory_mb(server: RealServer) -> float:
    words = Path(f"/proc/{server.process.pid}/statm").read_text().split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


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


def test_who_takes_no_answer_has_its_time(server: RealServer) -> None:
    asked = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        line.settimeout(60)
        line.connect(server.address)
        line.sendall(asked * 200)
        ends = select.poll()
        ends.register(line, 0)
        assert ends.poll(60_000)  # cut off, though nothing was read


def test_nobody_fills_the_memory_with_bodies(server: RealServer) -> None:
    head = b"POST /api/v1/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
    size = 13_000_000
    with contextlib.ExitStack() as stack:

        def send(source: str) -> socket.socket:
            line = stack.enter_context(connect(server, source))
            with contextlib.suppress(OSError):  # refused already
                line.sendall(head % (size + 1) + b"\r\n" + bytes(size))
            return line

        before = memory_mb(server)
        lines = [send("127.0.0.9") for _ in range(5)]
        (refused,), _, _ = select.select(lines, [], [], 60)
        assert refused.recv(20).startswith(b"HTTP/1.1 429")
        lines.remove(refused)
        assert memory_mb(server) < before + 20  # not where they are
        other = send("127.0.0.8")
        other.sendall(b"]")
        assert other.recv(20).startswith(b"HTTP/1.1 400")  # read, and no document
        lines[0].sendall(b"]")
        assert lines[0].recv(20).startswith(b"HTTP/1.1 400")
        again = send("127.0.0.9")  # there is room again
        again.sendall(b"]")
        assert again.recv(20).startswith(b"HTTP/1.1 400")


def test_a_large_answer_is_whole_and_waits_for_its_reader() -> None:
    body = bytes(range(256)) * 5_000
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            assert message["more_body"] == (len(b"".join(sent)) < len(body) - PIECE)
            sent.append(message["body"])

    async def receive() -> Any:
        raise AssertionError

    held = Held(10 * len(body), 2 * len(body))

    async def give(client: str) -> Exchange:
        scope = {"headers": [], "path": "/"}
        exchange = Exchange(scope, receive, send, held)
        exchange.client = client
        sent.clear()
        ready = make_ready("x", body, "text/plain", packed=body)
        await exchange.give(*ready.response({}))
        return exchange

    async def go() -> None:
        first, _, third = [await give("a") for _ in range(3)]
        assert (first.status, first.sent, first.is_complete) == (200, len(body), True)
        assert (third.status, third.is_too_much, sent) == (0, True, [])
        assert (await give("b")).status == 200
        assert b"".join(sent) == body
        assert max(map(len, sent)) == PIECE
        first.let_go()
        assert (await give("a")).status == 200

    asyncio.run(go())


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
        rounds = Rounds(at_once=4, most=64)
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


class Loop(FairLoop):
    """A server in this process, its clients, and whom it has heard and answered."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        super().__init__(Settings(folder, proxies=(), limits=limits or Limits()))
        self.begun: list[str] = []
        self.answered: list[str] = []
        self.alive: weakref.WeakSet[PatientProtocol] = weakref.WeakSet()
        self.clients: list[socket.socket] = []
        self.config = uvicorn.Config(
            self.answer, interface="asgi3", http=PatientProtocol, log_config=None
        )
        self.config.load()

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.answered.append(scope["client"][0])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    def made(self) -> PatientProtocol:
        made = Noted(self.config, ServerState(), {"stopping": None}, self)
        self.alive.add(made)
        return made

    def until(self, is_so: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not is_so():
                await asyncio.sleep(0)

        self.run_until_complete(asyncio.wait_for(wait(), 60))

    def ask_from(self, *sources: str, begun: int = 0) -> None:
        """Have these ask at once, until all are answered or so many have begun."""
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        work = self.create_server(self.made, sock=sock, backlog=300)
        with closing(self.run_until_complete(work)):
            for source in sources:
                place = sock.getsockname()
                self.clients.append(socket.create_connection(place, 60, (source, 0)))
                self.clients[-1].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            found, wanted = (
                (self.begun, begun) if begun else (self.answered, len(sources))
            )
            self.until(lambda: len(found) >= wanted)

    def leave(self) -> None:
        """Have all clients leave."""
        for each in self.clients:
            each.close()


class Noted(PatientProtocol):
    """Notes when it begins."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        assert isinstance(self.loop, Loop)
        self.loop.begun.append(self.address)


def test_one_who_comes_behind_two_hundred_is_among_the_first(tmp_path: Path) -> None:
    with closing(Loop(tmp_path)) as loop:
        loop.ask_from(*["127.0.0.5"] * 200, "127.0.0.6")
        assert loop.begun.index("127.0.0.6") < 20
        assert loop.answered.index("127.0.0.6") < 20
        loop.leave()
        loop.until(lambda: not loop.lines.count)


def test_more_than_may_wait_for_their_turn_are_turned_away(tmp_path: Path) -> None:
    limits = Limits(client_connections=5, connections=1_000)
    with closing(Loop(tmp_path, limits)) as loop:
        loop.ask_from(*["127.0.0.5"] * 100, "127.0.0.6", begun=12)
        # One begins at once, and twice as many wait as may be open.
        assert (loop.begun.count("127.0.0.5"), loop.begun.count("127.0.0.6")) == (11, 1)
        loop.leave()
        loop.until(lambda: not (loop.lines.count or loop.lines.rounds.count))


def test_a_connection_that_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    with closing(Loop(tmp_path)) as loop:
        loop.ask_from(*["127.0.0.5"] * 5)
        assert len(loop.alive) == 5
        gc.disable()  # who waits for it keeps all that a request brought
        try:
            loop.leave()
            loop.until(lambda: not loop.alive)
        finally:
            gc.enable()


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


def test_of_all_that_is_ready_an_address_has_one_in_a_round() -> None:
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(closing(FairSelector()))
        files: dict[str, set[int]] = {"many": set(), "one": set(), "nobody's": set()}
        for address in ["many"] * 30 + ["one", "nobody's", "nobody's"]:
            ours, theirs = map(stack.enter_context, socket.socketpair())
            theirs.send(b"x")
            selector.register(ours, selectors.EVENT_READ)
            files[address].add(ours.fileno())
            if address != "nobody's":
                selector.addresses[ours.fileno()] = address
        seen: set[int] = set()
        for _ in range(100):  # nobody reads: all stay ready
            heard = {key.fd for key, _ in selector.select(0)}
            assert len(heard & files["many"]) == 1
            assert heard >= files["one"] | files["nobody's"]
            seen |= heard
        assert seen == set().union(*files.values())  # and everybody has a turn
