from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import event

from irene.errors import UsageError
from irene.serve.answers.memory import make_ready
from irene.serve.http import app as app_module
from irene.serve.http import gate
from irene.serve.http.access import Access, Rates, network_of
from irene.serve.http.problems import CLIENT_LEFT, MEDIA_TYPE, Problem
from irene.serve.http.routes import asking, health, questions, reference
from irene.serve.http.settings import Limits, Settings
from irene.serve.http.tokens import add_token, remove_token
from irene.serve.jobs.runner import JobRunner
from irene.serve.uploads import endpoints

from ..in_process import app_with, send

TOKEN = "a-long-secret"


def check_access(
    settings: Settings, method: str, path: str, headers: dict[bytes, bytes]
) -> None:
    access = Access(settings)
    access.check_host(headers.get(b"host", b"127.0.0.1:8000"))
    access.check({"method": method, "path": path}, headers)


def test_a_server_that_others_can_reach_needs_a_token_or_reads_only() -> None:
    with pytest.raises(UsageError, match="--token"):
        Settings(Path(), host="0.0.0.0")
    assert Settings(Path(), host="0.0.0.0", token=TOKEN).token == TOKEN
    assert Settings(Path(), host="192.168.1.5", read_only=True).read_only
    with pytest.raises(UsageError, match=r"irene\.example can be reached"):
        Settings(Path(), public_url="https://irene.example")  # behind a proxy
    assert Settings(Path(), public_url="http://localhost:9000").is_local
    for local in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        assert Settings(Path(), host=local).is_local


@pytest.mark.parametrize(
    "wrong",
    [{"port": 70_000}, {"workers": 0}, {"computing": 0}, {"token": "short"}],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        Settings(Path(), **wrong)  # type: ignore[arg-type]


def test_a_token_does_not_show_where_settings_are_printed() -> None:
    assert TOKEN not in repr(Settings(Path(), token=TOKEN))


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/uploads", "/api/v1/jobs/ab"])
def test_jobs_and_uploads_need_the_token(path: str) -> None:
    settings = Settings(Path(), token=TOKEN)
    for shown in (None, b"", b"Bearer", b"Bearer wrong", b"Basic a-long-secret"):
        headers = {} if shown is None else {b"authorization": shown}
        with pytest.raises(Problem) as refused:
            check_access(settings, "POST", path, headers)
        assert refused.value.status == 401
        assert "WWW-Authenticate" in refused.value.headers
    check_access(settings, "POST", path, {b"authorization": b"Bearer a-long-secret"})
    check_access(settings, "GET", path, {})
    check_access(settings, "POST", "/api/v1/trade-off", {})


def test_a_read_only_server_takes_no_jobs_and_no_uploads(tmp_path: Path) -> None:
    with app_with(tmp_path, read_only=True) as app:
        for method, path in (
            ("POST", "jobs"),
            ("DELETE", "jobs/x"),
            ("POST", "uploads"),
        ):
            answer = send(app, method, f"/api/v1/{path}", content=b"{}")
            assert answer.status_code == 403
            assert answer.headers["content-type"] == MEDIA_TYPE
        assert send(app, "GET", "/api/v1/models").status_code == 200


@pytest.mark.parametrize(
    ("origin", "host", "passes"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", True),
        ("http://localhost:8000", "localhost:8000", True),
        ("http://evil.example", "127.0.0.1:8000", False),
        ("http://evil.example:8000", "evil.example:8000", False),  # rebound name
        ("http://[", "127.0.0.1:8000", False),
        ("null", "127.0.0.1:8000", False),
    ],
)
def test_pages_of_other_sites_change_nothing(
    origin: str, host: str, passes: bool
) -> None:
    headers = {b"origin": origin.encode(), b"host": host.encode()}
    if passes:
        check_access(Settings(Path()), "POST", "/api/v1/uploads", headers)
        return
    with pytest.raises(Problem) as refused:
        check_access(Settings(Path()), "POST", "/api/v1/uploads", headers)
    assert refused.value.status == (421 if "evil" in host else 403)


def test_a_bucket_empties_and_fills_again() -> None:
    now = [0.0]
    rates = Rates(2.0, 3, clock=lambda: now[0])
    assert [rates.wait_s("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert rates.wait_s("a") == pytest.approx(0.5)
    assert rates.wait_s("b") == 0.0
    now[0] = 0.5
    assert rates.wait_s("a") == 0.0
    assert rates.wait_s("a") > 0.0
    now[0] = 100.0
    assert [rates.wait_s("a") for _ in range(4)][:3] == [0.0, 0.0, 0.0]


def test_an_ipv6_client_is_its_network() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2")
    assert network_of("2001:db8::1") != network_of("2001:db9::1")
    assert network_of("10.0.0.1") != network_of("10.0.0.2")


def test_too_many_requests_are_told_when_to_come_back(tmp_path: Path) -> None:
    with app_with(tmp_path, Limits(requests_per_s=0.01, burst=2)) as app:
        answers = [send(app, "GET", "/api/v1/models?limit=1") for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert int(answers[2].headers["retry-after"]) >= 1
        assert send(app, "GET", "/metrics").status_code == 429
        assert send(app, "GET", "/healthz").status_code == 200


def test_a_long_address_is_refused(tmp_path: Path) -> None:
    with app_with(tmp_path) as app:
        answer = send(app, "GET", f"/api/v1/models?search={'a' * 9_000}")
        assert answer.status_code == 414
        assert answer.json()["status"] == 414


def chunks(count: int, size: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b"x" * size


def test_a_body_past_the_limit_is_refused(tmp_path: Path) -> None:
    with app_with(tmp_path, Limits(body_bytes=1_000)) as app:
        told = send(app, "POST", "/api/v1/trade-off", content=b"x" * 1_001)
        assert told.status_code == 413

        async def body() -> object:
            for each in chunks(20, 100):
                yield each

        streamed = send(app, "POST", "/api/v1/trade-off", content=body())
        assert streamed.status_code == 413
        assert streamed.headers["content-type"] == MEDIA_TYPE


def test_every_response_has_its_security_headers(tmp_path: Path) -> None:
    with app_with(tmp_path) as app:
        for path in ("/", "/healthz", "/api/v1/hardware", "/nothing", "/static/app.js"):
            headers = send(app, "GET", path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"


def test_a_client_that_is_not_ready_is_told_so(tmp_path: Path) -> None:
    with app_with(tmp_path) as app:
        answer = send(app, "GET", "/readyz")
        assert answer.status_code == 503
        assert "starting" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../settings.py",
        "/static/%2e%2e/settings.py",
        "/static/..%2f..%2fspec.py",
        "/static//etc/passwd",
        "/../../etc/passwd",
    ],
)
def test_only_files_of_the_dashboard_are_served(tmp_path: Path, path: str) -> None:
    with app_with(tmp_path) as app:
        answer = send(app, "GET", path)
        assert answer.status_code == 404
        assert b"import" not in answer.content


def test_labels_and_memory_do_not_grow_by_what_strangers_send(tmp_path: Path) -> None:
    with app_with(tmp_path) as app:
        for number in range(30):
            send(app, f"X{number}", "/healthz")
        page = send(app, "GET", "/metrics").text
        methods = set(re.findall(r'irene_requests_total{method="(\w+)"', page))
        assert methods <= {"GET", "other"}
        memory = app.state.answering.memory
        ready = make_ready("k", b"{}", "application/json")
        memory.answers.put("k", ready)
        for number in range(30):
            memory.remember("/x", b"", b"*/*;q=%d" % number, "k")
        assert memory._keys.size == 1
        memory.remember("/x", b"a" * 5_000, b"", "k")
        assert memory._keys.size == 1
        assert memory.request("/x", b"", b"anything") is ready


def test_what_takes_long_is_packed_and_unpacked_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: list[str] = []

    def noting(work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            seen.add(work.__name__)
            with contextlib.suppress(RuntimeError):  # no loop runs in this thread
                asyncio.get_running_loop()
                inside.append(work.__name__)
            return work(*given, **named)

        return noted

    seen: set[str] = set()
    slow = {
        "make_ready": (asking,), "unpacked": (endpoints,),
        "check_model": (asking,), "models_document": (reference,),
        "describe": (app_module,), "_board": (questions,),
    }  # fmt: skip
    for name, modules in slow.items():
        for module in modules:
            monkeypatch.setattr(module, name, noting(getattr(module, name)))
    with app_with(tmp_path) as app:
        brought = send(app, "POST", "/api/v1/uploads", content=b'{"model_type":"bert"}')
        assert brought.status_code == 201
        again = send(app, "GET", brought.headers["location"])
        assert again.json() == {"model_type": "bert"}
        for path in ("models", "energy?model=no-such", "openapi.json"):
            send(app, "GET", f"/api/v1/{path}")
        board = send(app, "GET", "/api/v1/leaderboard?partial=true").json()
        assert board["pending"]
    assert seen == set(slow)
    assert not inside


def test_the_description_is_made_once_by_whichever_thread(tmp_path: Path) -> None:
    with app_with(tmp_path) as app, ThreadPoolExecutor(8) as threads:
        made = list(threads.map(app_module.describe, [app] * 8))
    assert all(each is made[0] for each in made)


def test_garbage_is_not_looked_for_while_others_wait(tmp_path: Path) -> None:
    usual = gc.get_threshold()

    async def tidy(app: FastAPI) -> None:
        task = asyncio.create_task(app_module._tidy(app))
        while gc.get_threshold() == usual:
            assert not task.done(), task
            await asyncio.sleep(0.05)
        assert gc.get_threshold() == app_module.YOUNG
        assert gc.get_freeze_count() > 100_000  # what was read at the start
        task.cancel()

    with app_with(tmp_path) as app:
        asyncio.run(tidy(app))
    assert gc.get_threshold() == usual


@pytest.mark.parametrize(
    "path", ["uploads/%00", "jobs/a%00b", "answers/x", "energy?model=upload:%00"]
)
def test_names_that_cannot_be_are_looked_up_nowhere(
    postgres_url: str, tmp_path: Path, path: str
) -> None:
    with app_with(tmp_path, store_url=postgres_url) as app:
        app.state.jobs = JobRunner(app.state.settings, app.state.store)
        assert send(app, "GET", f"/api/v1/{path}").status_code == 404


def test_named_tokens_have_scopes_and_an_end(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    reader = add_token(path, "reader", ["read"], None)
    worker = add_token(path, "worker", ["read", "compute"], None)
    ended = add_token(path, "ended", ["read", "compute"], time.time() - 1)
    assert worker not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    with app_with(tmp_path, private=True) as app:

        def status(method: str, where: str, token: str = "") -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            answer = send(
                app, method, f"/api/v1/{where}", headers=headers, content=b"{"
            )
            return answer.status_code

        assert status("GET", "models") == 401
        assert status("GET", "models", reader) == 200
        assert app.state.settings.needs_token
        assert status("POST", "uploads", reader) == 403
        assert status("POST", "uploads", worker) == 400  # no JSON: it was read
        assert status("POST", "uploads", ended) == 401
        remove_token(path, "worker")
        assert status("POST", "uploads", worker) == 401
        path.unlink()  # whoever takes them all away opens nothing
        assert status("GET", "models") == 401
        guesses = [status("GET", "models", f"guess-{n}") for n in range(12)]
        assert guesses[-1] == 429
    with app_with(tmp_path, private=True, token=TOKEN) as app:
        guesses = [status("GET", "models", f"guess-{n}") for n in range(12)]
        assert status("GET", "models", TOKEN) == 429  # a guess that is right, too


def test_the_server_tells_whether_it_needs_a_token(tmp_path: Path) -> None:
    with app_with(tmp_path) as app:
        for needed in (False, True):
            found = send(app, "GET", "/api/v1/server")
            assert found.json()["needs_token"] is needed
            add_token(tmp_path / "tokens.json", "somebody", ["compute"], None)


def test_what_is_mine_i_may_delete_and_others_may_not(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    mine, theirs = (add_token(path, name, ["compute"], None) for name in ("a", "b"))
    config = b'{"model_type": "bert", "num_hidden_layers": 1}'
    with app_with(tmp_path, token=TOKEN) as app:

        def ask(method: str, where: str, token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            found = send(app, method, where, headers=headers, content=config)
            places.append(found.headers.get("location", ""))
            return found.status_code

        places: list[str] = []
        assert ask("POST", "/api/v1/uploads", mine) == 201
        here = places[0]
        assert ask("DELETE", here, theirs) == 403
        assert ask("POST", "/api/v1/uploads", theirs) == 200
        assert ask("DELETE", here, mine) == 204
        assert send(app, "GET", here).status_code == 200  # it is theirs, too
        assert ask("DELETE", here, TOKEN) == 204  # whose server it is
        assert send(app, "GET", here).status_code == 404


def test_ready_means_that_the_store_is_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LOOK_S", 0.0)
    with app_with(tmp_path) as app:
        app.state.pool._first.set()
        app.state.pool.processes.add(object())
        found = send(app, "GET", "/readyz")
        assert found.json()["status"] == "ready"
        assert send(app, "HEAD", "/readyz").status_code == 200
        assert found.json()["degraded"] == ["a computing process is being replaced"]

        def allow_no_writing(connection: Any, *_: object) -> None:
            connection.execute("PRAGMA query_only=1")

        engine = app.state.store.engine
        event.listen(engine, "checkout", allow_no_writing)
        assert send(app, "GET", "/readyz").status_code == 503
        event.remove(engine, "checkout", allow_no_writing)
        app.state.store.close()
        assert send(app, "GET", "/readyz").status_code == 200
        for each in (tmp_path / "irene.sqlite", tmp_path / "irene.sqlite-wal"):
            with each.open("r+b") as file:  # as it is open, and was read a moment ago
                file.write(os.urandom(each.stat().st_size))
        assert send(app, "GET", "/readyz").status_code == 503


def test_private_data_are_cached_by_their_reader_alone(tmp_path: Path) -> None:
    with app_with(tmp_path) as app:
        kept = app.state.uploads.put("config", "x", b"{}")[0]
        found = send(app, "GET", f"/api/v1/uploads/{kept.id}")
        assert found.headers["cache-control"].startswith("private")
        assert send(app, "GET", "/api/v1/models/").status_code == 404  # no redirection


def test_a_proxied_client_is_limited_and_this_machine_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "USUAL_RATE", 0.01)
    with app_with(tmp_path, Limits(burst=2)) as app:

        async def ask(address: str) -> list[int]:
            way = httpx.ASGITransport(app, client=(address, 1))
            async with httpx.AsyncClient(
                transport=way, base_url="http://localhost"
            ) as client:
                return [(await client.get("/x")).status_code for _ in range(3)]

        assert asyncio.run(ask("203.0.113.9")) == [404, 404, 429]
        assert asyncio.run(ask("127.0.0.1")) == [404, 404, 404]
    settings = Settings(Path())
    assert settings.is_own("127.0.0.1")
    assert not settings.is_own("203.0.113.9")
    assert not settings.is_own("127.0.0.5")
    assert Settings(Path(), proxies=("10.0.0.0/8",)).is_proxy("10.1.2.3")
    with pytest.raises(UsageError, match="proxy"):
        Settings(Path(), proxies=("nginx",))


def test_who_leaves_while_it_sends_is_no_error_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[Any] = []

    async def leave() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def note(message: Any) -> None:
        sent.append(message.get("status"))

    scope = {
        "type": "http", "method": "POST", "path": "/api/v1/uploads",
        "headers": [(b"host", b"localhost"), (b"content-length", b"9")],
        "client": ("127.0.0.1", 1), "http_version": "1.1", "root_path": "",
        "query_string": b"",
    }  # fmt: skip
    with app_with(tmp_path) as app:
        asyncio.run(app(scope, leave, note))
    assert sent[0] == CLIENT_LEFT
    assert "unexpected" not in caplog.text
