"""What goes wrong with servers: nothing accepted is lost, nothing wrong is served."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from irene.serve.http.app import create_app
from irene.serve.http.settings import Settings

from ..full_disk import FullDisk
from .conftest import Attacked, InProcess, Serve

pytestmark = pytest.mark.xdist_group("hostile")
JOB = {"kind": "predict", "model": "bert-l2-h128", "batch_size": 3, "seq_len": 16}


def submit(server: Attacked, **changes: Any) -> str:
    response = server.client.post("/api/v1/jobs", json=JOB | changes)
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


def is_running(job: dict[str, Any]) -> bool:
    return bool(job["state"] == "running" and job["progress"]["total"])


def is_final(job: dict[str, Any]) -> bool:
    return job["state"] in ("succeeded", "failed", "cancelled")


def result_of(server: Attacked, job: dict[str, Any]) -> bytes:
    assert job["state"] == "succeeded", job
    answer = server.client.get(job["result"]["link"])
    assert answer.status_code == 200
    assert hashlib.sha256(answer.content).hexdigest()[:32] == job["result"]["key"]
    return answer.content


def test_a_job_outlives_a_server_that_is_killed(serve: Serve) -> None:
    first = serve()
    key = submit(first)
    first.until(key, is_running)
    first.kill()
    second = serve()
    job = second.until(key, is_final)
    assert job["attempts"] == 2
    query = {name: JOB[name] for name in ("model", "batch_size", "seq_len")}
    asked = second.client.get("/api/v1/energy", params=query)
    assert asked.json() == json.loads(result_of(second, job))
    assert list((second.data_dir / "scratch").iterdir()) == []


def test_of_two_servers_on_one_folder_the_other_takes_over(serve: Serve) -> None:
    first = serve()
    second = serve()
    key = submit(second)
    first.until(key, is_running)  # whoever accepted it, the first one runs it
    first.kill()
    job = second.until(key, is_final)
    assert job["attempts"] == 2
    result_of(second, job)
    upload = second.client.post("/api/v1/uploads", json={"model_type": "bert"}).json()
    third = serve()
    assert third.client.get(upload["links"]["self"]).json() == {"model_type": "bert"}
    assert third.job(key) == job


class Writer(threading.Thread):
    """Brings files and asks for jobs until the server is gone; notes what was taken."""

    def __init__(self, base_url: httpx.URL, place: int) -> None:
        super().__init__(daemon=True)
        self.uploads: list[tuple[str, bytes]] = []
        self.jobs: list[str] = []
        self._place = place
        self._client = httpx.Client(base_url=base_url, trust_env=False, timeout=30)

    def run(self) -> None:
        with self._client, contextlib.suppress(httpx.TransportError):
            for number in itertools.count():
                self._write(number)

    def _write(self, number: int) -> None:
        body = json.dumps({"model_type": "bert", "x": [self._place, number]}).encode()
        kept = self._client.post("/api/v1/uploads", content=body)
        if kept.status_code == 201:
            self.uploads.append((kept.json()["links"]["self"], body))
        job = self._client.post("/api/v1/jobs", json=JOB)
        if job.status_code == 202:
            self.jobs.append(job.json()["links"]["self"])


def test_what_was_accepted_before_a_kill_is_there_after_it(serve: Serve) -> None:
    server = serve()
    writers = [Writer(server.client.base_url, place) for place in range(3)]
    for writer in writers:
        writer.start()
    limit = time.monotonic() + 60
    while min(len(w.jobs) for w in writers) < 8 and time.monotonic() < limit:
        time.sleep(0.01)
    server.kill()  # in the middle of whatever it was writing
    for writer in writers:
        writer.join(60)
    again = serve()
    links = [link for writer in writers for link in writer.jobs]
    assert len(links) >= 24
    for link in links:
        state = again.client.get(link).json()["state"]
        assert state in ("queued", "running", "succeeded")
        assert again.client.delete(link).status_code in (200, 409)  # it may have ended
    for writer in writers:
        for link, body in writer.uploads:
            assert again.client.get(link).content == body


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InProcess]:
    started = InProcess(Settings(data_dir=tmp_path / "data", computing=1))
    yield started
    started.close()


def large_config(number: int) -> bytes:
    """More than fits into the free rest of a page."""
    digits = [hashlib.sha256(b"%d %d" % (number, i)).hexdigest() for i in range(900)]
    return json.dumps({"model_type": "bert", "notes": digits}).encode()


def test_a_full_disk_is_said_and_survived(server: InProcess) -> None:
    disk = FullDisk(server.app.state.store.engine)
    kept = server.ask("POST", "/api/v1/uploads", content=large_config(1))
    assert kept.status_code == 201
    disk.fill()
    refused = server.ask("POST", "/api/v1/uploads", content=large_config(2))
    assert refused.status_code == 507
    assert refused.headers["content-type"] == "application/problem+json"
    assert server.ask("GET", kept.json()["links"]["self"]).content == large_config(1)
    assert server.ask("GET", "/healthz").status_code == 200
    disk.make_room()
    again = server.ask("POST", "/api/v1/uploads", content=large_config(2))
    assert again.status_code == 201


def test_a_server_without_room_to_start_says_so(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in its place")
    with pytest.raises(Exception, match="cannot"):
        create_app(Settings(data_dir=tmp_path / "data"))
