from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from irene.serve.http.app import create_app
from irene.serve.http.settings import Limits, Settings
from irene.serve.jobs import watch
from irene.serve.jobs.runner import JobRunner
from irene.serve.store import Store

from .conftest import Start, ended, reached
from .programs import ENDLESS, QUICK

CONFIG = {"model_type": "bert", "num_hidden_layers": 1}
Choose = Callable[[str], None]
pytestmark = pytest.mark.usefixtures("small_program")


class Client:
    """The app without a network, and without the processes that compute."""

    def __init__(self, settings: Settings, start: Start) -> None:
        self.app: FastAPI = create_app(settings)
        self.runner: JobRunner = start(settings)
        self.app.state.jobs = self.runner

    def ask(self, method: str, path: str, **rest: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            url = "http://127.0.0.1:8000"
            async with httpx.AsyncClient(transport=transport, base_url=url) as client:
                return await client.request(method, f"/api/v1{path}", **rest)

        return asyncio.run(send())

    def submit(self, **fields: Any) -> httpx.Response:
        return self.ask("POST", "/jobs", json={"model": "bert-l2-h128", **fields})


def runs_none(store: Store) -> Start:
    """Takes jobs and runs none."""
    return lambda settings: JobRunner(settings, store)


@pytest.fixture
def accepting(settings: Settings, store: Store) -> Iterator[Client]:
    made = Client(settings, runs_none(store))
    yield made
    made.app.state.store.close()


@pytest.fixture
def client(settings: Settings, start: Start) -> Iterator[Client]:
    made = Client(settings, start)
    yield made
    made.app.state.store.close()


def happened(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Names and documents of an event stream."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_a_brought_config_becomes_an_answer(client: Client) -> None:
    kept = client.ask("POST", "/uploads", json=CONFIG, headers={"X-Filename": "mine"})
    assert kept.status_code == 201
    assert kept.json()["kind"] == "config"
    assert kept.json()["name"] == "mine"
    assert client.ask("POST", "/uploads", json=CONFIG).status_code == 200
    job = client.submit(model=f"upload:{kept.json()['id']}", batch_size=4)
    assert job.status_code == 202
    assert job.headers["location"] == job.json()["links"]["self"]
    assert job.json()["state"] == "queued"
    ended(client.runner, job.json()["id"])
    done = client.ask("GET", f"/jobs/{job.json()['id']}").json()
    assert done["state"] == "succeeded"
    answer = client.ask("GET", f"/answers/{done['result']['key']}")
    assert answer.json() == {"model": f"upload:{kept.json()['id']}"}


def test_the_events_end_with_the_job(client: Client) -> None:
    key = client.submit().json()["id"]
    stream = client.ask("GET", f"/jobs/{key}/events")
    assert stream.headers["content-type"].startswith("text/event-stream")
    found = happened(stream.text)
    assert found[0][0] == "state"
    assert found[-1][0] == "done"
    assert found[-1][1]["state"] == "succeeded"
    versions = [document["version"] for _, document in found]
    assert versions == sorted(set(versions))
    assert client.runner.watch.streams == 0
    again = client.ask(
        "GET", f"/jobs/{key}/events", headers={"Last-Event-ID": str(versions[-1])}
    )
    assert [name for name, _ in happened(again.text)] == ["done"]


def test_a_quiet_stream_has_a_heartbeat(
    client: Client, small_program: Choose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "HEARTBEAT_S", 0.05)
    small_program(ENDLESS)
    key = client.submit().json()["id"]
    record = reached(client.runner, key, lambda r: r.progress["done"] == 1)

    async def listen() -> list[bytes]:
        followed = client.runner.watch
        followed.reserve()
        heard: list[bytes] = []
        async for part in watch.event_stream(followed, record, str(record.version)):
            heard.append(part)
            if heard.count(b": heartbeat\n\n") == 3:
                client.runner.cancel(key)
        return heard

    heard = asyncio.run(listen())
    assert not any(b"event: progress" in part for part in heard)  # it has that already
    assert b"event: done" in heard[-1]
    assert b'"cancelled"' in heard[-1]


def test_of_a_clients_streams_one_is_told_in_a_round(client: Client) -> None:
    key = client.submit().json()["id"]
    record = reached(client.runner, key, lambda r: r.is_final)
    told: list[tuple[str, bytes]] = []

    async def listen(who: str) -> None:
        stream = watch.event_stream(client.runner.watch, record, None, who)
        async for part in stream:
            if part.startswith(b"id: "):
                told.append((who, part))  # noqa: PERF401  while others listen

    async def go() -> None:
        crowd = [asyncio.create_task(listen("many")) for _ in range(30)]
        one = asyncio.create_task(listen("one"))
        while not all(each.done() for each in (*crowd, one)):
            before = len(told)
            await asyncio.sleep(0)
            new = [who for who, _ in told[before:]]
            assert new.count("many") <= 1

    asyncio.run(go())
    assert "one" in [who for who, _ in told[:3]]
    assert len(told) == 31
    assert len({id(part) for _, part in told}) == 1  # written once for all


def test_a_stopping_server_ends_its_streams(
    client: Client, small_program: Choose
) -> None:
    small_program(ENDLESS)
    key = client.submit().json()["id"]
    reached(client.runner, key, lambda r: r.state == "running")
    client.app.state.stopping.set()
    stream = client.ask("GET", f"/jobs/{key}/events")
    assert "event: done" not in stream.text


def test_cancelling_is_final(client: Client, small_program: Choose) -> None:
    small_program(ENDLESS)
    key = client.submit().json()["id"]
    for _ in range(2):
        assert client.ask("DELETE", f"/jobs/{key}").json()["state"] == "cancelled"
    small_program(QUICK)
    other = client.submit().json()["id"]
    ended(client.runner, other)
    late = client.ask("DELETE", f"/jobs/{other}")
    assert late.status_code == 409
    assert "succeeded" in late.json()["detail"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"model": "no-such-model"}, 404),
        ({"model": "upload:" + "0" * 32}, 404),
        ({"model": "upload:../../x"}, 404),
        ({"model": 3}, 422),
        ({"kind": "train"}, 422),
        ({"batch_size": 0}, 422),
        ({"batch_size": 10**12}, 422),
        ({"batch_size": [1]}, 422),
        ({"batch_size": True}, 422),
        ({"dtype": "fp8?"}, 422),
        ({"hardware": "/etc/passwd"}, 404),
        ({"nonsense": 1}, 422),
        ({"level": "ml"}, 422),
        ({"device": "cpu"}, 422),
        ({"model_class": "os.system"}, 422),
        ({"kind": "measure", "hardware": "pc1"}, 400),
        ({"kind": "measure", "protocol": "forever"}, 422),
        ({"protocol": "quick"}, 400),
        ({"kind": "measure", "phase": "train"}, 400),
        ({"notify": 3}, 422),
        ({"notify": {"sms": "1"}}, 422),
        ({"notify": {"webhook": None}}, 422),
        ({"notify": {"email": "me@lab.example"}}, 400),
        ({"notify": {"webhook": "file:///etc/passwd"}}, 400),
    ],
)
def test_a_job_that_cannot_be_run_is_not_accepted(
    accepting: Client, fields: dict[str, Any], status: int
) -> None:
    refused = accepting.submit(**fields)
    assert refused.status_code == status, refused.text
    assert refused.headers["content-type"] == "application/problem+json"
    assert accepting.runner.records.count()["queued"] == 0


def test_an_upload_comes_back_as_it_was(accepting: Client) -> None:
    kept = accepting.ask("POST", "/uploads", json=CONFIG).json()
    path = f"/uploads/{kept['id']}"
    assert accepting.ask("GET", path).json() == CONFIG
    known = {"If-None-Match": f'"{kept["id"]}"'}
    assert accepting.ask("GET", path, headers=known).status_code == 304
    assert accepting.ask("GET", "/uploads/nowhere").status_code == 404


def test_limits_say_when_to_come_back(settings: Settings, store: Store) -> None:
    limits = Limits(jobs=0, streams=0, upload_bytes=100)
    client = Client(replace(settings, limits=limits), runs_none(store))
    full = client.submit()
    assert full.status_code == 429
    assert full.headers["retry-after"]
    record = client.runner.records.add("a" * 32, "other", {"kind": "predict"}, 9)
    stream = client.ask("GET", f"/jobs/{record.id}/events")
    assert stream.status_code == 429
    large = client.ask("POST", "/uploads", json={"model_type": "b" * 200})
    assert large.status_code == 413
    client.app.state.store.close()


def test_the_token_guards_jobs_and_uploads(settings: Settings, store: Store) -> None:
    client = Client(replace(settings, token="a long secret"), runs_none(store))
    assert client.submit().status_code == 401
    assert client.ask("POST", "/uploads", json=CONFIG).status_code == 401
    head = {"Authorization": "Bearer a long secret"}
    assert client.ask("POST", "/uploads", json=CONFIG, headers=head).status_code == 201
    client.app.state.store.close()


def test_a_read_only_server_takes_nothing(settings: Settings, store: Store) -> None:
    client = Client(replace(settings, read_only=True), runs_none(store))
    assert client.submit().status_code == 403
    assert client.ask("POST", "/uploads", json=CONFIG).status_code == 403
    client.app.state.store.close()


def test_the_servers_machine_is_learned_by_a_job(client: Client) -> None:
    accepted = client.ask("POST", "/jobs/learn", json={"plan": "quick"})
    assert accepted.status_code == 202, accepted.text
    document = accepted.json()
    assert document["kind"] == "learn"
    assert document["request"] == {"kind": "learn", "plan": "quick"}
    record = ended(client.runner, document["id"])
    assert record.state == "succeeded"
    answer = client.ask("GET", f"/answers/{record.result_key}")
    assert answer.json() == {"plan": "quick"}


@pytest.mark.parametrize(
    ("body", "words"),
    [({"plan": "hasty"}, "plan: Input should be 'quick'"), ({"model": "x"}, "model: "),
     ([], "valid dict")],
)  # fmt: skip
def test_learning_that_is_not_understood(
    accepting: Client, body: Any, words: str
) -> None:
    refused = accepting.ask("POST", "/jobs/learn", json=body)
    assert refused.status_code == 422
    assert words in refused.json()["detail"]


def test_a_server_that_measures_nothing_learns_nothing(
    settings: Settings, store: Store
) -> None:
    client = Client(replace(settings, measuring=False), runs_none(store))
    refused = client.ask("POST", "/jobs/learn", json={})
    assert refused.status_code == 400
    assert "measures nothing" in refused.json()["detail"]
    client.app.state.store.close()


def test_learning_and_measuring_wait_for_each_other(
    client: Client, small_program: Choose
) -> None:
    small_program(ENDLESS)
    first = client.submit(kind="measure").json()["id"]
    reached(client.runner, first, lambda record: record.state == "running")
    second = client.ask("POST", "/jobs/learn", json={}).json()["id"]
    third = client.submit().json()["id"]  # a prediction does not wait
    reached(client.runner, third, lambda record: record.state == "running")
    waiting = client.runner.records.get(second)
    assert waiting is not None
    assert waiting.state == "queued"
