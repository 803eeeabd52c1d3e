from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from irene.errors import UsageError
from irene.serve.http.access import Rates, check_access, client_of
from irene.serve.http.problems import MEDIA_TYPE, Problem
from irene.serve.http.settings import Limits, Settings

from ..in_process import app_with, send

TOKEN = "a-long-secret"


def test_a_server_that_others_can_reach_needs_a_token_or_reads_only() -> None:
    with pytest.raises(UsageError, match="--token"):
        Settings(Path(), host="0.0.0.0")
    assert Settings(Path(), host="0.0.0.0", token=TOKEN).token == TOKEN
    assert Settings(Path(), host="192.168.1.5", read_only=True).read_only
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
    assert refused.value.status == 403


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
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:2")
    assert client_of("2001:db8::1") != client_of("2001:db9::1")
    assert client_of("10.0.0.1") != client_of("10.0.0.2")


def test_too_many_requests_are_told_when_to_come_back(tmp_path: Path) -> None:
    with app_with(tmp_path, Limits(requests_per_s=0.01, burst=2)) as app:
        answers = [send(app, "GET", "/api/v1/models?limit=1") for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert int(answers[2].headers["retry-after"]) >= 1
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
