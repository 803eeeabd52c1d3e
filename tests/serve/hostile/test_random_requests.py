"""3,000 requests that nobody sane sends: no 500, no hang, nothing outside.

IRENE_HOSTILE_REQUESTS changes the number.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase

from .conftest import InProcess
from .mutation import mutated_config, mutated_job, mutated_query

REQUESTS = int(os.environ.get("IRENE_HOSTILE_REQUESTS", "3000"))
SEED = 6
AT_ONCE = 16
HANG_S = 60
"""Longer than any limit of the server."""
GOOD_ENOUGH = (503, 504)
"""A limit was reached, and said so."""
OURS = {".hypothesis", ".pytest_cache"}
"""Folders that the tests themselves make."""
pytestmark = pytest.mark.xdist_group("hostile")


def files_around(data_dir: Path) -> set[str]:
    """All files beside the data folder, and in the folder that we stand in."""
    around = {str(p) for p in data_dir.parent.rglob("*")}
    inside = {str(p) for p in data_dir.rglob("*")}
    here = {p.name for p in Path.cwd().iterdir()} - OURS
    return (around - inside) | here


@pytest.fixture
def nothing_outside(inside: InProcess) -> Any:
    before = files_around(inside.settings.data_dir)
    yield
    assert files_around(inside.settings.data_dir) == before
    assert inside.ask("GET", "/healthz").status_code == 200


def check(response: httpx.Response, sent: Any) -> int:
    status = response.status_code
    assert status < 500 or status in GOOD_ENOUGH, f"{status} after {sent!r}"
    if status >= 400 and response.request.method != "HEAD":
        assert response.headers["content-type"] == "application/problem+json", sent
        problem = response.json()
        assert problem["status"] == status
        assert problem["detail"]
    return status


def send_many(
    inside: InProcess,
    number: int,
    draw_one: Callable[[random.Random], Any],
    request: Callable[[Any], httpx.Request],
) -> Counter[int]:
    """Send that many, a few at a time, and count the answers."""
    draw = random.Random(SEED)
    places = asyncio.Semaphore(AT_ONCE)
    statuses: Counter[int] = Counter()

    async def one(sent: Any) -> None:
        async with places, asyncio.timeout(HANG_S):
            response = await inside.client.send(request(sent))
        statuses[check(response, sent)] += 1

    async def all_of_them() -> None:
        for start in range(0, number, 500):
            some = [draw_one(draw) for _ in range(min(500, number - start))]
            await asyncio.gather(*map(one, some))

    inside.run(all_of_them())
    assert statuses.total() == number
    return statuses


@pytest.mark.usefixtures("nothing_outside")
def test_mutated_configs(inside: InProcess) -> None:
    def request(body: bytes) -> httpx.Request:
        name = {"X-Filename": "%3Cb%3E..%2F..%2Fx"}
        return inside.client.build_request(
            "POST", "/api/v1/uploads", content=body or b"x", headers=name
        )

    statuses = send_many(inside, int(REQUESTS * 0.45), mutated_config, request)
    assert set(statuses) <= {200, 201, 400, 413}
    assert {201, 400, 413} <= set(statuses)


@pytest.mark.usefixtures("nothing_outside")
def test_mutated_queries(inside: InProcess) -> None:
    def request(path: str) -> httpx.Request:
        return inside.client.build_request("GET", path)

    statuses = send_many(inside, int(REQUESTS * 0.3), mutated_query, request)
    assert {404, 422} <= set(statuses)


@pytest.mark.usefixtures("nothing_outside")
def test_mutated_jobs(inside: InProcess) -> None:
    def request(body: bytes) -> httpx.Request:
        return inside.client.build_request("POST", "/api/v1/jobs", content=body or b"x")

    statuses = send_many(inside, int(REQUESTS * 0.1), mutated_job, request)
    assert set(statuses) <= {400, 404, 413, 422}


OPERATIONS_SHARE = 0.15
LONG = ("/suggest", "/what-if", "/cost")
"""Questions about several runs: as few of them as find something."""
WHOLE_CATALOGUE = ("/leaderboard", "/trade-off", "/serve-plan")
"""Questions that take the server seconds each, if they are good."""


# It is a thread of the job queue that uses `random` meanwhile, not a strategy.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.usefixtures("nothing_outside")
def test_requests_made_from_the_openapi_document(inside: InProcess) -> None:
    document = inside.ask("GET", "/api/v1/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    operations = [found.ok() for found in schema.get_all_operations()]
    each = int(REQUESTS * OPERATIONS_SHARE) // len(operations)
    sent: Counter[str] = Counter()
    for operation in operations:
        number = each
        if operation.path.endswith(LONG):
            number = each // 2
        elif operation.path.endswith(WHOLE_CATALOGUE):
            number = each // 25
        _fuzz(inside, operation, max(1, number), sent)
    assert set(sent) == {o.label for o in operations}


def _fuzz(inside: InProcess, operation: Any, number: int, sent: Counter[str]) -> None:
    """Requests that the document allows, and such that it does not."""

    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=number,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy())
    def one(case: Any) -> None:
        arguments = case.as_transport_kwargs(base_url="http://127.0.0.1:8000")
        arguments.pop("cookies", None)
        data = arguments.pop("data", None)
        if data is not None:
            arguments["content"] = data
        sent[operation.label] += 1
        method, url = arguments.pop("method"), arguments.pop("url")
        check(inside.ask(method, url, **arguments), (method, url, arguments))

    one()
