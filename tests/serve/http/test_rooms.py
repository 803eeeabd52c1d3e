"""Two processes for one server: one at the door, one inside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import uvicorn
from uvicorn.server import ServerState

from irene import predict
from irene.serve.answers.memory import Memory, make_ready
from irene.serve.http.connections import LARGEST_HEAD
from irene.serve.http.doorway import DoorProtocol
from irene.serve.http.fair_loop import FairLoop
from irene.serve.http.passage import ANSWER, MOST_BYTES, Passage, pair
from irene.serve.http.settings import Settings

from ..patience import until
from ..real_server import RealServer

PROGRAM = """
import sys
from pathlib import Path
from irene.serve.http import server
from irene.serve.http.settings import Limits, Settings
limits = Limits(burst=int(sys.argv[2]), requests_per_s=0.001)
settings = Settings(Path(sys.argv[1]), port=0, computing=1, limits=limits)
sock = server.listen(settings)
print("irene serves http://127.0.0.1:%d" % sock.getsockname()[1], flush=True)
server.run(settings, sock)
"""
STRANGER = "127.0.0.9"
KNOWN = "/api/v1/models?limit=1"
OTHER = "/api/v1/models?limit=%d"
SIZED = "/api/v1/energy?model=bert-l2-h128&on=pc1&batch_size=2&seq_len=%d"


def serve(folder: Path, burst: int) -> RealServer:
    words = ("-c", PROGRAM, str(folder), str(burst))
    return RealServer(folder, folder / "log", program=words).start(ready=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = serve(tmp_path_factory.mktemp("rooms"), 100_000)
    with stranger(server) as client:
        for _ in range(3):  # answered inside, told to the door, answered there
            assert client.get(KNOWN).status_code == 200
    yield server
    assert server.stop() == 0


@contextmanager
def stranger(server: RealServer) -> Iterator[httpx.Client]:
    way = httpx.HTTPTransport(local_address=STRANGER)
    with httpx.Client(transport=way, base_url=server.url, timeout=60) as client:
        yield client


def door(server: RealServer) -> psutil.Process:
    inside = psutil.Process(server.process.pid)
    words = "from multiprocessing.spawn"
    (found,) = [each for each in inside.children() if words in str(each.cmdline())]
    return found


def is_at_door(server: RealServer, port: int) -> bool:
    """Whether a connection from that port is."""
    found = door(server).net_connections("tcp")
    return any(each.raddr and each.raddr[1] == port for each in found)


@contextmanager
def halted(server: RealServer) -> Iterator[None]:
    """Nobody is inside for a while."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def test_what_is_known_is_answered_whatever_goes_on_inside(server: RealServer) -> None:
    with stranger(server) as client:
        before = client.get(KNOWN)
        with halted(server):
            after = client.get(KNOWN)
            assert client.get("/x", headers={"Host": "evil"}).status_code == 421
            with pytest.raises(httpx.ReadTimeout):
                client.get("/healthz", timeout=0.5)
        assert after.content == before.content
        assert after.headers["x-request-id"] != before.headers["x-request-id"]
        assert client.get("/healthz").status_code == 200


def test_between_two_requests_a_connection_is_at_the_door(server: RealServer) -> None:
    with stranger(server) as client:
        for number in range(2, 5):
            first = client.get(OTHER % number)
            way = first.extensions["network_stream"].get_extra_info("client_addr")
            until(partial(is_at_door, server, way[1]), "it is back")
            with halted(server):
                second = client.get(KNOWN)
            ways = {
                each.extensions["network_stream"].get_extra_info("client_addr")
                for each in (first, second)
            }
            assert (first.status_code, second.status_code) == (200, 200)
            assert len(ways) == 1  # one connection, which went in and came back


def test_other_sizes_are_asked_from_the_door(server: RealServer) -> None:
    with stranger(server) as client:

        def ask(length: int) -> httpx.Response:
            return client.get(SIZED % length)

        first = ask(9)  # answered by the app, the next one without
        assert [ask(length).status_code for length in (10, 11)] == [200, 200]
        energy_j = predict("bert-l2-h128", on="pc1", batch_size=2, seq_len=12).total()
        assert ask(12).json()["energy_j"] == energy_j.energy_j
        again = [ask(12) for _ in range(2)]  # told to the door by the first
        with halted(server):
            assert ask(12).content == again[0].content
        same = {"If-None-Match": again[0].headers["etag"]}
        assert client.get(SIZED % 12, headers=same).status_code == 304
        refused = ask(100_000)
        assert refused.status_code == 400
        assert "positions" in refused.json()["detail"]
        assert refused.json()["instance"] == SIZED.partition("?")[0]
        ways = {
            each.extensions["network_stream"].get_extra_info("client_addr")
            for each in (first, *again, refused)
        }
        assert len(ways) == 1


def test_who_waits_for_another_size_stays_at_the_door(server: RealServer) -> None:
    with stranger(server) as client:
        for length in (20, 21):
            assert client.get(SIZED % length).status_code == 200
    with socket.create_connection(server.address, 60, (STRANGER, 0)) as line:
        with halted(server):
            line.sendall(
                f"GET {SIZED % 22} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            )
            with stranger(server) as client:
                for _ in range(3):
                    assert client.get(KNOWN).status_code == 200
            assert is_at_door(server, line.getsockname()[1])
        assert line.recv(12) == b"HTTP/1.1 200"


def test_who_waits_is_told_that_the_server_is_gone(tmp_path: Path) -> None:
    server = serve(tmp_path, 100)
    with stranger(server) as client:
        for length in (20, 21):
            assert client.get(SIZED % length).status_code == 200
    with socket.create_connection(server.address, 60, (STRANGER, 0)) as line:
        os.kill(server.process.pid, signal.SIGSTOP)
        line.sendall(f"GET {SIZED % 22} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        with stranger(server) as client:
            assert client.get("/x", headers={"Host": "evil"}).status_code == 421
        server.kill()
        assert line.recv(12) in (b"HTTP/1.1 503", b"")


def test_requests_behind_each_other_are_answered_in_order(server: RealServer) -> None:
    asked = [KNOWN, OTHER % 11, KNOWN, "/healthz", "/nowhere", KNOWN]
    with socket.create_connection(server.address, 60, (STRANGER, 0)) as line:
        words = [f"GET {each} HTTP/1.1\r\nHost: localhost\r\n" for each in asked]
        line.sendall("\r\n".join([*words, ""]).encode()[:-2] + b"Connection: close")
        line.sendall(b"\r\n\r\n")
        got = b""
        while part := line.recv(65_536):
            got += part
    heads = [each.split(b"\r\n")[0] for each in got.split(b"HTTP/1.1 ")[1:]]
    assert [each[:3] for each in heads] == [b"200"] * 4 + [b"404", b"200"]
    assert got.count(b'"status":"ok"') == 1


def test_a_body_is_whole_wherever_its_parts_were_read(server: RealServer) -> None:
    text = json.dumps({"model_type": "bert", "notes": ["x" * 99] * 800}).encode()

    def parts() -> Iterator[bytes]:
        for start in range(0, len(text), 40_000):
            yield text[start : start + 40_000]

    with stranger(server) as client:
        by_length = client.post("/api/v1/uploads", content=text)
        in_chunks = client.post("/api/v1/uploads", content=parts())
        assert (by_length.status_code, in_chunks.status_code) == (201, 200)
        assert client.get(by_length.json()["links"]["self"]).content == text


def test_who_is_at_the_door_is_replaced(server: RealServer) -> None:
    before = door(server)
    before.kill()
    gone = (psutil.NoSuchProcess, ValueError)

    def other() -> bool:
        with contextlib.suppress(*gone):
            return door(server).pid != before.pid
        return False

    until(other, "there is another")
    with stranger(server) as client:
        for _ in range(3):
            assert client.get(KNOWN).status_code == 200
        with halted(server):
            assert client.get(KNOWN).status_code == 200


def test_of_a_server_that_is_killed_nobody_stays_at_the_door(tmp_path: Path) -> None:
    server = serve(tmp_path, 100)
    left = door(server)
    server.kill()
    until(lambda: not left.is_running(), "it has ended")


def test_both_have_one_account_of_a_client(tmp_path: Path) -> None:
    server = serve(tmp_path, 6)
    try:
        with stranger(server) as client:
            asked = [KNOWN, KNOWN, KNOWN, OTHER % 2, OTHER % 3, KNOWN, KNOWN, OTHER % 4]
            found = [client.get(each).status_code for each in asked]
            assert found == [200] * 6 + [429] * 2
    finally:
        server.stop()


def test_where_connections_cannot_be_passed_one_process_does_both(
    tmp_path: Path,
) -> None:
    alone = "from irene.serve.http import rooms\nrooms.IS_POSSIBLE = False\n"
    words = ("-c", alone + PROGRAM, str(tmp_path), "100")
    server = RealServer(tmp_path, tmp_path / "log", program=words).start(ready=False)
    try:
        with stranger(server) as client:
            assert client.get(KNOWN).content == client.get(KNOWN).content
        with pytest.raises(ValueError, match="not enough values"):
            door(server)
    finally:
        assert server.stop() == 0


def test_an_answer_is_told_as_it_was_given(tmp_path: Path) -> None:
    inside, at_door = Memory(1_000_000), Memory(1_000_000)
    ready = make_ready("key", b"{}" * 2_000, "application/json")
    at_door.learn(inside.told("/energy", b"model=a", b"*/*", ready))
    assert at_door.request("/energy", b"model=a", b"application/json") == ready
    assert at_door.request("/energy", b"model=a", b"text/csv") is None
    assert at_door.request("/energy", b"model=b", b"*/*") is None


def test_what_the_way_cannot_take_is_said() -> None:
    ours, theirs = map(Passage, pair())
    with ours.sock, theirs.sock:
        assert not ours.tell(ANSWER, bytes(MOST_BYTES))
        count = 0
        while ours.tell(ANSWER, bytes(50_000)):
            count += 1
        assert count > 2
        for _ in range(count):
            assert theirs.receive() == (ANSWER, None, bytes(50_000))
        with pytest.raises(BlockingIOError):
            theirs.receive()
        ours.sock.close()
        with pytest.raises(EOFError):
            theirs.receive()
        assert not theirs.tell(ANSWER, b"x")
        assert theirs.is_closed


class Standing:
    """A door in this process: whom it heard, by address and path, and its clients."""

    def __init__(self, folder: Path) -> None:
        self.loop = FairLoop(Settings(folder, proxies=()))
        self.heard: list[tuple[str, str]] = []
        self.clients: list[socket.socket] = []
        self.config = uvicorn.Config(
            self.answer, interface="asgi3", log_config=None,
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )  # fmt: skip
        self.config.load()

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.heard.append((scope["client"][0], scope["path"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    def come(self, source: str, *paths: str) -> None:
        """Have somebody ask all of it at once."""
        with socket.create_server(("127.0.0.1", 0)) as listens:
            place = listens.getsockname()
            self.clients.append(socket.create_connection(place, 60, (source, 0)))
            for path in paths:
                self.clients[-1].sendall(
                    f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
                )
            ours, _ = listens.accept()
        made = partial(DoorProtocol, self.config, ServerState(), {}, self.loop)
        self.loop._come(made, ours, source, b"")

    def close(self) -> None:
        for each in self.clients:
            each.close()
        while self.loop.lines.count:
            self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


def test_a_request_that_is_there_is_read_as_its_connection_begins(
    tmp_path: Path,
) -> None:
    with closing(Standing(tmp_path)) as door:

        async def come() -> None:
            usual = door.loop.call_soon
            door.come("127.0.0.5", "/now")
            assert door.loop.call_soon == usual  # as it was before
            await asyncio.sleep(0)  # the only round that its answer waits
            assert door.heard == [("127.0.0.5", "/now")]

        door.loop.run_until_complete(come())


def test_who_asks_much_at_once_waits_for_itself(tmp_path: Path) -> None:
    paths = [f"/{number}" for number in range(60)]
    with closing(Standing(tmp_path)) as door:

        async def come() -> None:
            for _ in range(20):
                door.come("127.0.0.5", *paths)
            while door.loop.lines.count < 20:
                await asyncio.sleep(0)
            for number in range(10):  # also in the middle of it
                door.come("127.0.0.6", f"/other-{number}")
                before = len(door.heard)
                while door.heard[-1][0] != "127.0.0.6":
                    await asyncio.sleep(0)
                    assert len(door.heard) < before + 10
            while len(door.heard) < 20 * 60 + 10:
                await asyncio.sleep(0)

        door.loop.run_until_complete(asyncio.wait_for(come(), 60))
        many = [path for source, path in door.heard if source == "127.0.0.5"]
        assert sorted(many) == sorted(paths * 20)  # and all are answered
