"""`irene serve` among hostile clients: no 500, no hang, and others are served.

A real server with its usual limits, on SQLite and on Postgres. Strangers at ten
addresses of this machine (127.0.0.11–20) send requests that nobody sane sends, to every
endpoint of the OpenAPI document, event streams included; beside them all attacks that
are known run at once. An innocent client at an address of its own asks for an answer
that is known, twenty times per second, first while all is quiet; in turn with it a bare
endpoint that nobody attacks, which shows what the machine itself does to everybody.

Attackers run with the lowest priority: on the internet they have machines of their own.
It ends when all requests are sent or the time is over, whichever is first; a SIGTERM or
Ctrl-C ends it before that, and what was found until then is told.

    python benchmarks/serve_hostile.py [--seconds 1200] [--requests 100000]
        [--store sqlite|postgres|both] [--workers 1]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import multiprocessing
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.serve import (
    BARE,
    fetch,
    free_port,
    http_cpu_s,
    http_processes,
    on_each_store,
    process,
    verdict,
    wait_for,
)
from tests.serve.hostile.mutation import (
    PARAMETERS,
    QUERY_VALUES,
    STRANGE,
    mutated_config,
    mutated_job,
)
from tests.serve.postgres import Postgres

from irene.work.bounds import give_way

HOST = "127.0.0.1"
STRANGERS = [f"127.0.0.{number}" for number in range(11, 21)]
INNOCENT = "127.0.0.99"
KNOWN = "/api/v1/energy?model=bert-base-uncased&batch_size=8&seq_len=128"
QUIET_S = 20.0
EVERY_S = 0.05
HANG_S = 120.0
"""Longer than waiting and computing may take together, s."""
TALE_S = 1.0
"""How long a stranger listens to an event stream, s."""
LARGE = "Content-Length: 19000000"
MOST_MEMORY, MOST_P99 = 1.5, 5.0


# Requests ---------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """What is sent, and to whom it looks like."""

    method: str
    target: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    def to_bytes(self) -> bytes:
        """As it goes over the wire."""
        length = [("Content-Length", str(len(self.body)))] if self.body else []
        told = "".join(f"{n}: {v}\r\n" for n, v in (*length, *self.headers))
        head = f"{self.method} {self.target} HTTP/1.1\r\nHost: localhost\r\n{told}\r\n"
        return head.encode("latin-1", "replace") + self.body


@asynccontextmanager
async def line(
    port: int, source: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection from an address."""
    reader, writer = await asyncio.open_connection(HOST, port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def status_of(reader: asyncio.StreamReader) -> int:
    """The status of an answer, when all of it is there; of a stream, when some is."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(b" ", 2)[1])
    length = head.partition(b"content-length: ")[2].split(b"\r\n")[0]
    if length.isdigit():
        await reader.readexactly(int(length))
    elif b"event-stream" in head:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TALE_S):
                while await reader.read(65_536):
                    pass
    return status


@dataclass
class Found:
    """What became of requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    sent: int = 0
    cut: int = 0
    wrong: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)

    async def send(self, port: int, source: str, request: Request) -> None:
        """Send one, and note what comes back."""
        try:
            async with asyncio.timeout(HANG_S), line(port, source) as (reader, writer):
                writer.write(request.to_bytes())
                status = await status_of(reader)
                self.statuses[status] += 1
                if status == 500:
                    self.wrong.append(f"500: {request}"[:2_000])
        except TimeoutError:
            self.wrong.append(f"no answer in {HANG_S:g} s: {request}"[:2_000])
        except (OSError, asyncio.IncompleteReadError):
            self.cut += 1  # a limit, told by closing


# The fuzzer -------------------------------------------------------------------


class Fuzzer:
    """Requests to every operation of an OpenAPI document."""

    def __init__(self, document: dict[str, Any], seed: int) -> None:
        self.draw = random.Random(seed)
        self.operations = [
            (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ] + [
            ("GET", each, {}) for each in ("/metrics", "/readyz", "/healthz", "/", "/x")
        ]

    def request(self, jobs: list[str]) -> Request:
        """The next one."""
        method, path, operation = self.draw.choice(self.operations)
        names = [*jobs[-50:], "0" * 32, "x", "%00", "..%2f..%2fetc%2fpasswd"]
        target = path.replace("{key}", self.draw.choice(names))
        pairs = [
            f"{each['name']}={_quoted(self.value(each['schema']))}"
            for each in operation.get("parameters", ())
            if each["in"] == "query"
            and (each.get("required") or self.draw.random() < 0.2)
        ]
        if self.draw.random() < 0.2:
            name = self.draw.choice((*PARAMETERS, "no_such"))
            pairs.append(f"{name}={quote(self.draw.choice(QUERY_VALUES), safe='%')}")
        body = b""
        if method == "POST":
            makers = (mutated_config, mutated_job, _good_job, _table)
            own = {"uploads": mutated_config, "jobs": mutated_job}
            maker = own.get(path.rpartition("/")[2], _table)
            chosen = maker if self.draw.random() < 0.7 else self.draw.choice(makers)
            body = chosen(self.draw) or b"x"
        query = f"?{'&'.join(pairs)}" if pairs else ""
        return Request(method, target + query, body, self.headers())

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Some that are strange, now and then."""
        known = (
            ("Accept", "text/csv"), ("Accept-Encoding", "gzip"), ("If-None-Match", "*"),
            ("Origin", "http://["), ("Origin", "null"), ("Authorization", "Bearer x"),
            ("X-Forwarded-For", '1.2.3.4 "GET /x" 200'), ("Last-Event-ID", "\xff"),
            ("Content-Type", "multipart/form-data"), ("Expect", "100-continue"),
            ("Range", "bytes=0-1"), ("X-Filename", "%00%0d%0a" * 50),
            ("traceparent", "00-0-0-zz"), ("Cookie", "a=b" * 500),
        )  # fmt: skip
        return tuple(each for each in known if self.draw.random() < 0.03)

    def value(self, schema: dict[str, Any]) -> Any:
        """Of a parameter: what it allows, or what nobody would."""
        if self.draw.random() < 0.15:
            return self.draw.choice((*STRANGE, *QUERY_VALUES))
        if "enum" in schema:
            return self.draw.choice(schema["enum"])
        if schema.get("type") in ("integer", "number"):
            return self.draw.choice((1, 2, 8, 16, self.draw.randint(1, 300)))
        if schema.get("type") == "boolean":
            return self.draw.choice(("true", "false"))
        good = ("bert-l2-h128", "bert-l2-h256", "gpt2", "pc1", "h100", "DE", "bert-l2")
        examples = schema.get("examples") or schema.get("items", {}).get("examples")
        return self.draw.choice((*(examples or ()), *good))


def _quoted(value: Any) -> str:
    return quote(str(value), safe="", errors="surrogatepass")


def _good_job(draw: random.Random) -> bytes:
    body = {"model": "bert-l2-h128", "batch_size": draw.randint(1, 9), "seq_len": 8}
    return json.dumps(body).encode()


def _table(draw: random.Random) -> bytes:
    rows = [f"bert-l2-h128@b{draw.randint(1, 9)},{draw.random()}\n" for _ in range(3)]
    return b"model,accuracy\n" + "".join(rows).encode()


# Attacks ----------------------------------------------------------------------

Attack = Callable[[int, str, Found], Awaitable[None]]


async def leave(port: int, source: str, found: Found) -> None:
    """Ask what nobody knows and leave, while others ask the same."""
    number = random.randint(9, 400)
    target = f"/api/v1/energy?model=bert-l2-h128&batch_size=7&seq_len={number}"
    for _ in range(3):
        async with line(port, source) as (_, writer):
            writer.write(Request("GET", target).to_bytes())
            await writer.drain()
    asked = [found.send(port, source, Request("GET", target)) for _ in range(4)]
    await asyncio.gather(*asked)


async def hold(port: int, source: str, found: Found) -> None:
    """Connections that are never done: half heads, bodies without an end."""
    heads = (
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx",
        b"POST /api/v1/uploads HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 99\r\n\r\n{",
        b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",
        b"GET / HTTP/1.1\r\nHost: ",
    )
    async with contextlib.AsyncExitStack() as stack:
        for number in range(300):
            _, writer = await stack.enter_async_context(line(port, source))
            writer.write(heads[number % len(heads)])
        await asyncio.sleep(5)


async def pour(port: int, source: str, found: Found) -> None:
    """Large bodies, all but the end of them."""
    head = f"POST /api/v1/uploads HTTP/1.1\r\nHost: localhost\r\n{LARGE}\r\n\r\n"
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(20):
            _, writer = await stack.enter_async_context(line(port, source))
            writer.write(head.encode() + bytes(10_000_000))
            await writer.drain()
        await asyncio.sleep(20)


async def dawdle(port: int, source: str, found: Found) -> None:
    """Large answers, one after the other, and a byte is read of them now and then."""
    asked = Request("GET", "/api/v1/openapi.json").to_bytes() * 50
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(socket.socket()) for _ in range(150)]
        for each in lines:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            each.setblocking(False)
            each.bind((source, 0))
            await loop.sock_connect(each, (HOST, port))
            await loop.sock_sendall(each, asked)
        for _ in range(30):
            await asyncio.sleep(1)
            for each in lines:
                with contextlib.suppress(OSError):
                    each.recv(1)


async def listen(port: int, source: str, found: Found) -> None:
    """More event streams than one may have."""
    if found.jobs:
        target = f"/api/v1/jobs/{random.choice(found.jobs[-20:])}/events"
        asked = [found.send(port, source, Request("GET", target)) for _ in range(150)]
        await asyncio.gather(*asked)


async def flood(port: int, source: str, found: Found) -> None:
    """As many requests as there is time for, under forged addresses."""
    for number in range(500):
        forged = ("X-Forwarded-For", f"9.9.9.{number % 250}")
        await found.send(port, source, Request("GET", KNOWN, headers=(forged,)))


async def invent(port: int, source: str, found: Found) -> None:
    """Methods and headers that somebody might remember."""
    for number in range(100):
        await found.send(port, source, Request(f"M{random.random()}", "/healthz"))
        accept = ("Accept", f"{number}{'x' * 25_000}")
        await found.send(port, source, Request("GET", KNOWN, headers=(accept,)))


async def rank(port: int, source: str, found: Found) -> None:
    """Leaderboards that nobody waits for."""
    for size in range(1, 60):
        target = f"/api/v1/leaderboard?partial=true&batch_size={size}"
        await found.send(port, source, Request("GET", target))


async def bring(port: int, source: str, found: Found) -> None:
    """Large trees, bombs, and files that are never the same."""
    node = {
        "path": "x", "kind": "ml", "op": "Linear", "dtype": "fp32", "count": 1,
        "params": 1, "flops": 1, "bytes_read": 1, "bytes_written": 1, "inputs": [],
        "outputs": [], "children": [],
    }  # fmt: skip
    root = {**node, "kind": "model", "path": "", "children": [node] * 50_000}
    tree = json.dumps({"schema": "irene.tree/1", "tree": root, "x": random.random()})
    bodies = (tree.encode(), gzip.compress(bytes(60_000_000), 1), b"[" * 1_000_000)
    for body in bodies:
        await found.send(port, source, Request("POST", "/api/v1/uploads", body))


async def call(port: int, source: str, found: Found) -> None:
    """Jobs whose webhooks answer a byte now and then; jobs by the dozen."""

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while not writer.is_closing():
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(0.5)

    async with await asyncio.start_server(drip, HOST, 0) as server:
        hook = f"http://{HOST}:{server.sockets[0].getsockname()[1]}/"
        body = {"model": "bert-l2-h128", "seq_len": 8, "notify": {"webhook": hook}}
        for _ in range(30):
            await submit(port, source, found, json.dumps(body).encode())
        await asyncio.sleep(30)


async def submit(port: int, source: str, found: Found, body: bytes) -> None:
    """A job, whose name is noted."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        async with asyncio.timeout(HANG_S), line(port, source) as (reader, writer):
            writer.write(Request("POST", "/api/v1/jobs", body).to_bytes())
            head = await reader.readuntil(b"\r\n\r\n")
            found.statuses[int(head.split(b" ", 2)[1])] += 1
            place = head.lower().partition(b"location: ")[2].split(b"\r\n")[0]
            if place:
                found.jobs.append(place.decode().rpartition("/")[2])


async def guess(port: int, source: str, found: Found) -> None:
    """Tokens, names of the server, and versions of HTTP."""
    for number in range(50):
        token = ("Authorization", f"Bearer {number}")
        await found.send(
            port, source, Request("DELETE", "/api/v1/jobs/x", b"", (token,))
        )
    async with line(port, source) as (reader, writer):
        writer.write(b"GET / HTTP/9.9\r\nHost: evil.example\r\n\r\n")
        found.statuses[await status_of(reader)] += 1


ATTACKS: tuple[Attack, ...] = (
    leave, hold, pour, dawdle, listen, flood, invent, rank, bring, call, guess,
)  # fmt: skip


async def attack(port: int, requests: int, seconds: float, document: Any) -> Found:
    """All of it, until all requests are sent, the time is over, or we are told."""
    found, fuzzer = Found(), Fuzzer(document, 7)
    begun, each_s = time.monotonic(), EARLY * seconds / requests
    numbers = iter(range(requests))  # whichever line is free takes the next

    async def fuzz(source: str) -> None:
        for number in numbers:
            due = begun + number * each_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            found.sent += 1
            await found.send(port, source, fuzzer.request(found.jobs))

    async def again(one: Attack, source: str) -> None:
        while True:
            try:
                await one(port, source, found)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                found.cut += 1
            await asyncio.sleep(1.0)

    pairs = zip(ATTACKS, cycle(STRANGERS), strict=False)
    beside = [asyncio.create_task(again(one, source)) for one, source in pairs]
    sources = [STRANGERS[number % len(STRANGERS)] for number in range(LINES)]
    fuzzing = asyncio.gather(*map(fuzz, sources))
    with on_signal(fuzzing.cancel):
        await asyncio.wait([fuzzing], timeout=seconds)
    for task in (fuzzing, *beside):
        task.cancel()
    await asyncio.gather(fuzzing, *beside, return_exceptions=True)
    return found


@contextmanager
def on_signal(end: Callable[[], object]) -> Iterator[None]:
    """Do something when this process is told to end, instead of ending."""
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, end)
    try:
        yield
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)


LINES = 80
"""Requests of the fuzzer that are under way at a time, at most."""
EARLY = 0.95
"""Part of the time in which all of them should be sent."""


def attackers(
    port: int, requests: int, seconds: float, document: Any, way: Any
) -> None:
    """A process of them, in a session of its own: the kernel may share among those."""
    os.setsid()
    give_way(19)
    way.send(asyncio.run(attack(port, requests, seconds, document)))


# The innocent -----------------------------------------------------------------


async def ask(
    ports: tuple[int, int], until: Callable[[], bool]
) -> tuple[list[list[float]], Counter[int]]:
    """Ask the server and a bare endpoint in turn; times of each, s, and statuses."""
    times: list[list[float]] = [[], []]
    statuses = Counter[int]()
    request = Request("GET", KNOWN, headers=(("Accept-Encoding", "gzip"),)).to_bytes()
    while not until():
        for place, port in enumerate(ports):
            begun, status = time.perf_counter(), 0
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                async with asyncio.timeout(HANG_S), line(port, INNOCENT) as way:
                    way[1].write(request)
                    status = await status_of(way[0])
            times[place].append(time.perf_counter() - begun)
            statuses[status] += place == 0
        await asyncio.sleep(EVERY_S)
    return times, statuses


def own_times(log: Path) -> list[float]:
    """How long the server itself says that the innocent's requests took, s."""
    with log.open(encoding="utf-8") as lines:
        ours = [each for each in lines if f'"client": "{INNOCENT}"' in each]
    return [json.loads(each)["ms"] / 1e3 for each in ours]


def p99(times: list[float]) -> float:
    """What one of a hundred takes longer than, s."""
    return statistics.quantiles(times, n=100)[98]


# The server -------------------------------------------------------------------


def memory_mb(pid: int) -> float:
    """What a server's HTTP processes have of the machine's memory, MB."""
    return sum(each.memory_info().rss for each in http_processes(pid)) / 1e6


@contextmanager
def serving(folder: Path, store: str | None, workers: int) -> Iterator[tuple[int, int]]:
    """A server with its usual limits; its port and process."""
    port = free_port()
    words = [
        sys.executable, "-m", "irene", "serve", "--port", str(port), "--data-dir",
        str(folder), "--private-webhooks", "--no-measuring", "--seconds", "30",
        "--workers", str(workers),
        *(["--store", store] if store else []),
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # a signal to all of us is not for it
            words, stdout=log, stderr=log, process_group=0
        )
    try:
        print(f"  ready after {wait_for(f'http://{HOST}:{port}/readyz'):.1f} s")
        yield port, process.pid
        begun = time.monotonic()
        process.terminate()
        process.wait(60)
        print(f"  ended by SIGTERM in {time.monotonic() - begun:.1f} s")
    finally:
        if process.poll() is None:
            process.kill()


async def among(
    port: int, bare: int, pid: int, log: Path, given: argparse.Namespace
) -> bool:
    """The innocent alone, then among the others; whether all is as it should be."""
    url = f"http://{HOST}:{port}"
    document = json.loads(fetch(f"{url}/api/v1/openapi.json"))
    ends = time.monotonic() + QUIET_S
    quiet, _ = await ask((port, bare), lambda: time.monotonic() >= ends)
    before, had = memory_mb(pid), http_cpu_s(pid)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    words = (port, given.requests, given.seconds, document, theirs)
    process = context.Process(target=attackers, args=words, daemon=True)
    process.start()
    theirs.close()
    begun = time.monotonic()
    with on_signal(process.terminate):
        times, statuses = await ask((port, bare), ours.poll)
    found: Found = ours.recv()
    process.join()
    after = memory_mb(pid)
    seconds, cpu = time.monotonic() - begun, http_cpu_s(pid) - had
    told = ", ".join(f"{n:,} × {s}" for s, n in sorted(found.statuses.items()))
    print(f"  {found.sent:,} fuzzed requests in {seconds:.0f} s, {cpu:.0f} s of CPU")
    print(f"  all answers: {told}; {found.cut:,} cut off")
    print(*found.wrong[:10], sep="\n    ")
    inside = own_times(log)
    split = len(quiet[0])
    ratio = compare("the innocent", quiet[0], times[0])
    compare("a bare endpoint beside it", quiet[1], times[1])
    compare("inside the server", inside[:split], inside[split:])
    words = f"{before:.0f} -> {after:.0f} MB, {after / before:.2f} × ({MOST_MEMORY:g})"
    return verdict(
        {
            f"answers 500 and hangs: {len(found.wrong)} (0)": not found.wrong,
            f"memory {words}": after <= MOST_MEMORY * before,
            f"the innocent was answered: {dict(statuses)}": set(statuses) == {200},
            f"its p99 {ratio:.1f} × of quiet ({MOST_P99:g})": ratio <= MOST_P99,
        }
    )


def compare(name: str, quiet: list[float], times: list[float]) -> float:
    """Print how much longer one of a hundred takes among the others."""
    ratio = p99(times) / p99(quiet)
    words = f"quiet {p99(quiet) * 1e3:.1f} ms, then {p99(times) * 1e3:.1f} ms"
    print(f"  p99 of {name}: {words}: {ratio:.1f} ×")
    return ratio


def try_out(folder: Path, database: Postgres | None, given: argparse.Namespace) -> bool:
    """Try one store, with a bare endpoint that nobody attacks beside it."""
    url = database.url if database else None
    with serving(folder, url, given.workers) as (port, pid):
        files = folder / "body", folder / "packed"
        for file, gzipped in zip(files, (False, True), strict=True):
            file.write_bytes(fetch(f"http://{HOST}:{port}{KNOWN}", gzip=gzipped))
        bare = free_port()
        with process(sys.executable, "-c", BARE, *map(str, files), str(bare)):
            wait_for(f"http://{HOST}:{bare}/api/v1/energy")
            return asyncio.run(among(port, bare, pid, folder / "log", given))


if __name__ == "__main__":
    options = {"seconds": 1_200, "requests": 100_000, "workers": 1}
    sys.exit(on_each_store(__doc__, options, try_out))
