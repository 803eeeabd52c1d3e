"""A cached answer of `irene serve` against a bare endpoint that returns the same bytes.

Both run in one process each under the same uvicorn with the same settings; 32 clients
keep their connections and ask again as soon as they have their answer. They come from
other addresses than this machine's own, so that all limits are on; the rate is one that
nobody reaches. The two take turns, so that whatever else the machine does meets both.
Also: the first answer for a model that nobody has asked for, after start-up.

    python benchmarks/serve.py [SECONDS]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.serve.postgres import Postgres, running_postgres, why_not

CLIENTS = 32
STRANGERS = [f"127.0.0.{number}" for number in range(2, 2 + CLIENTS)]
LEAST = 0.7
ROUNDS = 6
QUERY = "/api/v1/energy?model=bert-base-uncased&batch_size=8&seq_len=128"
UNCACHED = ("roberta-base", "gpt2", "distilgpt2", "t5-small", "llama-3.2-1b")
BARE = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

body = open(sys.argv[1], "rb").read()
packed = open(sys.argv[2], "rb").read()

async def endpoint(request):
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers = {"content-encoding": "gzip"}
        return Response(packed, media_type="application/json", headers=headers)
    return Response(body, media_type="application/json")

app = Starlette(routes=[Route("/api/v1/energy", endpoint)])
uvicorn.run(app, port=int(sys.argv[3]), access_log=False, log_level="error")
"""


class Client(asyncio.Protocol):
    """One keep-alive connection that asks again and again until a time."""

    def __init__(
        self, asked: Iterator[str], ends: float, done: asyncio.Future[None]
    ) -> None:
        self.asked, self.ends, self.done = asked, ends, done
        self.times_s: list[float] = []
        self.buffer = bytearray()
        self.missing = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first time."""
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        """Send the next request."""
        self.began = time.perf_counter()
        self.transport.write(next(self.asked).encode())  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Ask again when the answer is whole."""
        self.buffer += data
        if self.missing < 0:
            head, mark, _ = self.buffer.partition(b"\r\n\r\n")
            if not mark:
                return
            if not head.startswith(b"HTTP/1.1 200"):
                self.transport.close()
                self.done.set_exception(RuntimeError(bytes(self.buffer).decode()))
                return
            length = re.search(rb"content-length: (\d+)", bytes(head), re.IGNORECASE)
            assert length is not None
            self.missing = len(head) + 4 + int(length[1])
        if len(self.buffer) < self.missing:
            return
        now = time.perf_counter()
        self.times_s.append(now - self.began)
        self.buffer.clear()
        self.missing = -1
        if now < self.ends:
            self.ask()
        else:
            self.transport.close()
            self.done.set_result(None)


async def load(
    port: int, seconds: float, gzip: bool, queries: Iterable[str] = repeat(QUERY)
) -> list[float]:
    """Times of all requests of all clients, s."""
    loop = asyncio.get_running_loop()
    accept = "Accept-Encoding: gzip\r\n" if gzip else ""
    asked = (
        f"GET {query} HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n" for query in queries
    )
    ends = time.perf_counter() + seconds
    clients = []
    for stranger in STRANGERS:
        done = loop.create_future()
        _, client = await loop.create_connection(
            partial(Client, asked, ends, done), "127.0.0.1", port,
            local_addr=(stranger, 0),
        )  # fmt: skip
        clients.append(client)
    await asyncio.gather(*(client.done for client in clients))
    return [each for client in clients for each in client.times_s]


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server that ends with the block."""
    made = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, process_group=0,
    )  # fmt: skip
    try:
        yield made
    finally:
        made.terminate()
        made.wait(30)


def fetch(url: str, gzip: bool = False) -> bytes:
    """The body of an answer."""
    headers = {"Accept-Encoding": "gzip"} if gzip else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return bytes(answer.read())


def wait_for(url: str) -> float:
    """Wait until an address answers; how long that took, s."""
    began = time.perf_counter()
    while True:
        try:
            fetch(url)
        except OSError:
            time.sleep(0.1)
        else:
            return time.perf_counter() - began


def on_each_store(
    usage: str,
    options: dict[str, int],
    try_out: Callable[[Path, Postgres | None, argparse.Namespace], bool],
) -> int:
    """Try a server on SQLite and on Postgres; the exit code.

    Args:
        usage: What is tried.
        options: Numbers that can be given, and what they are otherwise.
        try_out: Tries one in a folder; whether all is as it should be.
    """
    parser = argparse.ArgumentParser(description=usage)
    for name, number in options.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    known = ("sqlite", "postgres")
    parser.add_argument("--store", choices=(*known, "both"), default="both")
    given = parser.parse_args()
    good = True
    for name in known if given.store == "both" else (given.store,):
        print(f"{name}:", flush=True)
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            database = None
            if name == "postgres":
                if reason := why_not():
                    print(f"  left out: {reason}")
                    continue
                database = stack.enter_context(running_postgres(fsync=True))
            good = try_out(Path(folder), database, given) and good
    return 0 if good else 1


def verdict(checks: dict[str, bool]) -> bool:
    """Print what was looked at, line by line; whether all of it is as it should be."""
    for words, good in checks.items():
        print(f"  {'yes' if good else 'NO '} {words}", flush=True)
    return all(checks.values())


def free_port() -> int:
    """A port that nobody uses."""
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def cpu_s(pid: int) -> float:
    """CPU time that a process has taken, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def http_processes(pid: int) -> list[psutil.Process]:
    """A server, and those of its processes that take connections and answer them."""
    found = [psutil.Process(pid)]
    for each in found[0].children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            if "spawn_main" in str(each.cmdline()):
                found.append(each)
    return found


def http_cpu_s(pid: int) -> float:
    """CPU time that a server has taken to answer, without what it computed, s."""
    return sum(cpu_s(each.pid) for each in http_processes(pid))


def told(name: str, times_s: list[float], seconds: float, cpu: float) -> str:
    """One line of the table."""
    cuts = statistics.quantiles(times_s, n=100)
    rate = len(times_s) / seconds
    return (
        f"{name:24} {rate:6.0f} requests/s   p50 {cuts[49] * 1e3:6.2f} ms   "
        f"p99 {cuts[98] * 1e3:6.2f} ms   CPU {cpu / len(times_s) * 1e6:4.0f} µs each"
    )


@dataclass(frozen=True)
class Server:
    """A server that is measured."""

    name: str
    port: int
    pid: int


def measure(servers: tuple[Server, Server], seconds: float, gzip: bool) -> float:
    """Both servers in turn; prints the table and returns the ratio of rates."""
    times: dict[str, list[float]] = {server.name: [] for server in servers}
    cpu = {server.name: 0.0 for server in servers}
    ratios = []
    for _ in range(ROUNDS):
        counts = []
        for server in servers:
            before = http_cpu_s(server.pid)
            found = asyncio.run(load(server.port, seconds, gzip))
            cpu[server.name] += http_cpu_s(server.pid) - before
            times[server.name] += found
            counts.append(len(found))
        ratios.append(counts[0] / counts[1])
    print(f"{CLIENTS} clients, {'gzip' if gzip else 'identity'}:")
    for name, all_of_it in times.items():
        print("  " + told(name, all_of_it, seconds * ROUNDS, cpu[name]))
    ratio = statistics.median(ratios)
    span = f"{min(ratios):.2f}–{max(ratios):.2f}"
    each = [cpu[server.name] / len(times[server.name]) for server in servers]
    print(f"  ratio of requests/s: {ratio:.2f} (rounds {span})")
    print(f"  ratio of requests per CPU second: {each[1] / each[0]:.2f}")
    return ratio


def uncached(root: str) -> None:
    """Times of first answers."""
    for name in UNCACHED:
        began = time.perf_counter()
        fetch(f"{root}/api/v1/energy?model={name}&batch_size=8&seq_len=128")
        print(f"  first answer for {name:20} {time.perf_counter() - began:6.2f} s")


def main(seconds: float) -> int:
    """Run both servers and compare them."""
    with tempfile.TemporaryDirectory() as folder:
        port, bare = free_port(), free_port()
        root = f"http://127.0.0.1:{port}"
        serve = (
            sys.executable, "-m", "irene", "serve", "--port", str(port), "--data-dir",
            folder, "--rate", "1000000",
        )  # fmt: skip
        with process(*serve) as ours:
            print(f"ready after {wait_for(root + '/readyz'):.1f} s")
            uncached(root)
            body, packed = fetch(root + QUERY), fetch(root + QUERY, gzip=True)
            print(f"tree of bert-base: {len(body):,} bytes, {len(packed):,} as gzip")
            files = Path(folder, "body"), Path(folder, "packed")
            files[0].write_bytes(body)
            files[1].write_bytes(packed)
            words = (sys.executable, "-c", BARE, *map(str, files), str(bare))
            with process(*words) as other:
                wait_for(f"http://127.0.0.1:{bare}/api/v1/energy")
                servers = (
                    Server("irene serve", port, ours.pid),
                    Server("bare Starlette endpoint", bare, other.pid),
                )
                ratios = [measure(servers, seconds, gzip) for gzip in (True, False)]
    return 0 if min(ratios) >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0))
