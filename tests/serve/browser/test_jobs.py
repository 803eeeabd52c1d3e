"""A job's page: how far it is, cancel, its result, what went wrong."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

from tests.serve.browser.conftest import JOB_MS

SUBMIT = """async ([path, body]) => {
    const answer = await fetch(path, {method: "POST", body: JSON.stringify(body),
        headers: {"Content-Type": "application/json"}});
    return answer.json();
}"""


def submitted(page: Page, config: dict[str, Any] | None = None, **run: Any) -> str:
    """Hand in a job; its id."""
    if not page.url.startswith("http"):
        page.goto("/help")
    model = "bert-l2-h128"
    if config is not None:
        upload = page.evaluate(SUBMIT, ["/api/v1/uploads", config])
        model = f"upload:{upload['id']}"
    body = {"kind": "predict", "model": model, **run}
    job: dict[str, Any] = page.evaluate(SUBMIT, ["/api/v1/jobs", body])
    assert "id" in job, json.dumps(job)
    return str(job["id"])


def test_followed_to_its_result(page: Page) -> None:
    job = submitted(page, batch_size=2, seq_len=24)
    page.goto(f"/jobs/{job}")
    expect(page.locator(".lede")).to_contain_text("Predicting bert-l2-h128, 2 × 24")
    expect(page.locator(".state")).to_have_text("succeeded", timeout=JOB_MS)
    expect(page.locator(".lede")).to_contain_text("done")
    page.get_by_role("link", name="Explore the result").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("bert-l2-h128, 2 × 24")


def test_followed_where_streams_do_not_get_through(page: Page) -> None:
    page.route("**/events", lambda route: route.abort())
    job = submitted(page, batch_size=2, seq_len=25)
    page.goto(f"/jobs/{job}")
    expect(page.locator(".state")).to_have_text("succeeded", timeout=JOB_MS)


def test_cancelled(page: Page) -> None:
    # Those before it keep the server busy.
    for seq_len in range(100, 102):
        submitted(page, batch_size=2, seq_len=seq_len)
    job = submitted(page, batch_size=2, seq_len=200)
    page.goto(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".state")).to_have_text("cancelled", timeout=JOB_MS)
    expect(page.get_by_role("link", name="Hand it in again")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_failure_says_what_to_do(page: Page) -> None:
    config = {"model_type": "bert", "hidden_size": 130, "num_attention_heads": 4}
    job = submitted(page, config, batch_size=1, seq_len=8)
    page.goto(f"/jobs/{job}")
    expect(page.locator(".state")).to_have_text("failed", timeout=JOB_MS)
    expect(page.get_by_role("alert")).to_contain_text("130")
    page.get_by_role("link", name="hand it in again").click()
    expect(page.get_by_role("button", name="Predict its energy")).to_be_visible()


def test_a_job_that_is_not_there(page: Page) -> None:
    page.goto("/jobs/%3Cb%3Enone")
    expect(page.get_by_role("alert")).to_contain_text("<b>none")
    assert page.locator("main b").count() == 0


def test_the_servers_machine_is_learned_by_a_button(page: Page) -> None:
    page.goto("/method")
    page.get_by_role("button", name="Learn this machine").click()
    expect(page.locator(".lede")).to_contain_text("Learning this machine, quick")
    told = page.locator(".progress-field .hint")
    expect(told).to_have_text(re.compile(r"^\d+ of 115\ss$"), timeout=JOB_MS)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".state")).to_have_text("cancelled", timeout=JOB_MS)
    expect(page.get_by_role("link", name="Hand it in again")).to_be_visible()
