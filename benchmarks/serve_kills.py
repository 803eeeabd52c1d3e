"""`irene serve` killed again and again, with clients on: nothing is lost or done twice.

A real server with two HTTP processes runs under a supervisor that starts it again, as
systemd does. Clients bring files, ask for jobs and ask questions all the time; every
few seconds something is killed with SIGKILL, all kinds equally often: the server's
parent, an HTTP process, its door, a computing process, a job's process, or the database
(Postgres, which is started again a second later). After each: how long until a question
nobody has asked is answered again. A SIGTERM ends the killing, not the look after it.

At the end every file that was accepted is there, every job that was accepted has ended
once, well, with the document that the same question has; no job changed after its end.

    python benchmarks/serve_kills.py [--kills 50] [--store sqlite|postgres|both]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.serve import cpu_s, free_port, on_each_store, verdict
from tests.serve.postgres import Postgres

READY_S = 10.0
PATIENCE_S = 120.0
BETWEEN_S = (0.5, 4.0)
ALWAYS = ("parent", "http process", "door", "computing process")
"""Kinds of processes that are there whenever all is well."""
JOB = {"model": "bert-l2-h128", "batch_size": 2, "seq_len": 16}


class Supervised:
    """The server, started again when it has ended, as systemd would."""

    def __init__(self, folder: Path, store: str | None) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = (folder / "log").open("ab")
        self._words = [
            sys.executable, "-m", "irene", "serve", "--port", str(self.port),
            "--data-dir", str(folder / "data"), "--workers", "2", "--computing", "1",
            *(["--store", store] if store else []),
        ]  # fmt: skip
        self.starts = 0
        self.is_over = threading.Event()
        self._start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self) -> None:
        self.starts += 1
        self.process = subprocess.Popen(  # a signal to all of us is not for it
            self._words, stdout=self._log, stderr=self._log, process_group=0
        )

    def _watch(self) -> None:
        while not self.is_over.wait(0.2):
            if self.process.poll() is not None:
                self._start()  # until its port is free it ends at once

    def stop(self) -> None:
        """For good."""
        self.is_over.set()
        self.process.terminate()
        self.process.wait(60)
        self._log.close()

    def answers(self, seq_len: int) -> bool:
        """Whether it is ready, and answers something new."""
        query = {"model": "bert-l2-h128", "batch_size": 3, "seq_len": seq_len}
        with contextlib.suppress(httpx.HTTPError):
            found = httpx.get(f"{self.url}/readyz", timeout=5)
            if found.status_code == 200:
                asked = httpx.get(f"{self.url}/api/v1/energy", params=query, timeout=20)
                return asked.status_code == 200
        return False

    def family(self) -> dict[str, list[int]]:
        """Processes that can be killed, by what they are."""
        found: dict[str, list[int]] = {"parent": [self.process.pid]}
        for http in _children(self.process.pid):
            for child in _children(http):
                if "spawn_main" in _words(child):
                    found.setdefault("door", []).append(child)
                elif "irene.work.child" in _words(child):
                    found.setdefault("http process", []).append(http)
                    is_job = "scratch" in _folder(child)
                    name = "job" if is_job else "computing process"
                    found.setdefault(name, []).append(child)
        return found


def _children(pid: int) -> list[int]:
    """Of all threads: each has those that it started."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text().split())
    return found


def _words(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def _folder(pid: int) -> str:
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/cwd").readlink())
    return ""


class Client(threading.Thread):
    """Brings files and asks for jobs, and notes what was accepted."""

    def __init__(self, server: Supervised, place: int) -> None:
        super().__init__(daemon=True)
        self.server, self.place = server, place
        self.is_over = threading.Event()
        self.uploads: dict[str, bytes] = {}
        self.jobs: list[str] = []
        self.ended: dict[str, dict[str, Any]] = {}
        self.statuses: Counter[int] = Counter()

    def run(self) -> None:
        """Until the end."""
        number = 0
        with httpx.Client(base_url=self.server.url, timeout=20) as client:
            while not self.is_over.is_set():
                number += 1
                with contextlib.suppress(httpx.HTTPError):
                    self._write(client, number)
                time.sleep(0.3)

    def _write(self, client: httpx.Client, number: int) -> None:
        body = json.dumps({"model_type": "bert", "x": [self.place, number]}).encode()
        kept = client.post("/api/v1/uploads", content=body)
        self.statuses[kept.status_code] += 1
        if kept.status_code in (200, 201):
            self.uploads[kept.json()["links"]["self"]] = body
        if number % 8 == self.place:
            job = client.post("/api/v1/jobs", json=JOB)
            self.statuses[job.status_code] += 1
            if job.status_code == 202:
                self.jobs.append(job.json()["links"]["self"])
        for link in self.jobs:
            if link not in self.ended:
                found = client.get(link)
                if found.status_code == 200 and found.json()["finished"]:
                    self.ended[link] = found.json()


def try_out(server: Supervised, database: Postgres | None, kills: int) -> bool:
    """Kill, wait until it answers again; then see what is there."""
    draw = random.Random(5)
    seq_len = iter(range(8, 500))
    slow, killed = [], Counter[str]()
    is_told = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: is_told.set())
    _wait(server, seq_len)
    clients = [Client(server, place) for place in range(3)]
    for client in clients:
        client.start()
    kinds = [*ALWAYS, "job", *(["database"] if database else [])]
    names = (kinds * (kills // len(kinds) + 1))[:kills]
    draw.shuffle(names)
    for name in names:
        if is_told.wait(draw.uniform(*BETWEEN_S)):
            break
        killed[name] += 1
        if name == "database":
            assert database is not None
            database.kill()
            time.sleep(1.0)
            database.start()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(_there(server, name)), signal.SIGKILL)
        before = _cpu_s(server.process.pid)
        seconds = _wait(server, seq_len)
        now = _cpu_s(server.process.pid)
        taken = sum(each - before.get(pid, 0.0) for pid, each in now.items())
        slow.append((seconds, name))
        words = f"answers after {seconds:5.1f} s, in which it had {taken:4.1f} s of CPU"
        print(f"    {name:18} {words}", flush=True)
    for client in clients:
        client.is_over.set()
        client.join()
    told = ", ".join(f"{n} × {name}" for name, n in killed.items())
    late = sum(seconds > READY_S for seconds, _ in slow)
    print(f"  killed {told}; started {server.starts} ×")
    words = f"answers again: slowest {max(slow)[0]:.1f} s, {late} above {READY_S:g}"
    return verdict({words: not late, **_check(server, clients)})


def _there(server: Supervised, name: str) -> list[int]:
    """Processes of a kind, as soon as there are some: a job's is there for a moment."""
    ends = time.monotonic() + PATIENCE_S
    while not (found := server.family().get(name)):
        assert time.monotonic() < ends, f"there is no {name}"
        time.sleep(0.01)
    return found


def _cpu_s(pid: int) -> dict[int, float]:
    """CPU time of a process and of all below it, s, by process."""
    found: dict[int, float] = {}
    with contextlib.suppress(OSError):
        found[pid] = cpu_s(pid)
        for child in _children(pid):
            found |= _cpu_s(child)
    return found


def _wait(server: Supervised, seq_len: Iterator[int]) -> float:
    begun, number = time.monotonic(), next(seq_len)
    # The whole of it, after the answer: those whose parent was killed answer a little
    # longer, and it may still seem to be there when it is asked.
    while not server.answers(number) or set(ALWAYS) - set(server.family()):
        assert time.monotonic() < begun + PATIENCE_S, "it does not come back"
        time.sleep(0.1)
    return time.monotonic() - begun


def _check(server: Supervised, clients: list[Client]) -> dict[str, bool]:
    """Whether what was accepted is there, and every job has ended once, in words."""
    jobs = [link for client in clients for link in client.jobs]
    with httpx.Client(base_url=server.url, timeout=60) as client:
        ends = time.monotonic() + 10 * PATIENCE_S
        found: dict[str, Any] = {}
        while len(found) < len(jobs) and time.monotonic() < ends:
            for link in set(jobs) - set(found):
                job = client.get(link).json()
                if job.get("finished"):
                    found[link] = job
            time.sleep(0.5)
        lost = [link for link in jobs if link not in found]
        states = Counter(job["state"] for job in found.values())
        right = client.get("/api/v1/energy", params=JOB).json()
        wrong = [
            link
            for link, job in found.items()
            if job["state"] == "succeeded"
            and client.get(job["result"]["link"]).json() != right
        ]
        twice = [
            link
            for each in clients
            for link, before in each.ended.items()
            if found.get(link) != before
        ]
        uploads = {k: v for each in clients for k, v in each.uploads.items()}
        gone = [link for link, body in uploads.items()
                if client.get(link).content != body]  # fmt: skip
    attempts = Counter(job["attempts"] for job in found.values())
    given_up = [job for job in found.values() if job["state"] != "succeeded"]
    print(*(f"    {job['error']}" for job in given_up[:5]), sep="\n")
    return {
        f"{len(jobs)} jobs: {dict(states)}; attempts {dict(attempts)}": not given_up,
        f"jobs lost: {len(lost)}": not lost,
        f"results that are wrong: {len(wrong)}": not wrong,
        f"jobs that changed after their end: {len(twice)}": not twice,
        f"{len(uploads)} files, lost {len(gone)}": not gone,
    }


@contextmanager
def supervised(folder: Path, store: str | None) -> Iterator[Supervised]:
    """A server that ends with the block."""
    server = Supervised(folder, store)
    try:
        yield server
    finally:
        server.stop()


def kill(folder: Path, database: Postgres | None, given: argparse.Namespace) -> bool:
    """Try one store."""
    with supervised(folder, database.url if database else None) as server:
        return try_out(server, database, given.kills)


if __name__ == "__main__":
    sys.exit(on_each_store(__doc__, {"kills": 50}, kill))
