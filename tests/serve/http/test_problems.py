"""Every status that the server uses can be told as a problem document."""

from __future__ import annotations

import httpx
import pytest

from irene.serve.http.problems import CLIENT_LEFT, Problem, problem_document


@pytest.mark.parametrize("status", [400, 404, 413, 422, 429, CLIENT_LEFT, 503, 504])
def test_every_status_has_a_document(status: int) -> None:
    document = problem_document(Problem(status, "what to do"), "/api/v1/x")
    assert document["status"] == status
    assert document["detail"] == "what to do"
    assert document["instance"] == "/api/v1/x"
    assert document["title"]


@pytest.mark.parametrize("path", ["/energy", "/server"])
def test_what_is_not_answered_without_a_body_is_said(
    api: httpx.Client, path: str
) -> None:
    found = api.head(path)
    assert found.status_code == 405
    assert found.headers["allow"] == "GET"
