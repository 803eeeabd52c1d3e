"""Bring your own: a config.json, a saved tree; and links that outlive the server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

from tests.serve.browser.conftest import JOB_MS, served

CONFIG = {
    "model_type": "bert",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 500,
    "architectures": ["<img src=x onerror=alert(1)>"],
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


def brought(page: Page, file: Path) -> Page:
    """The page of a file that was brought: it opens at once, and has one of its own."""
    page.goto("/open")
    page.locator("input[type=file]").set_input_files(file)
    page.wait_for_url(re.compile("upload[:=][0-9a-f]{32}"))
    found = re.search("upload[:=]([0-9a-f]{32})", page.url)
    assert found
    page.goto(f"/open?upload={found[1]}")
    expect(page.locator(".come-back")).to_be_visible()
    return page


def saved_tree(page: Page, path: Path) -> Path:
    """A tree as `irene predict --json` writes it, with a name that is markup."""
    page.goto("/")
    address = "/api/v1/energy?model=bert-l2-h128&batch_size=2&seq_len=32"
    document = page.evaluate(
        "address => fetch(address).then(each => each.json())", address
    )
    document["spec"]["model"] = "<b>mine</b>"
    path.write_text(json.dumps(document))
    return path


def test_a_config_becomes_a_result(page: Page, config: Path) -> None:
    brought(page, config)
    expect(page.locator("main")).to_contain_text("hidden_size")
    page.get_by_label("Batch size", exact=True).fill("4")
    page.get_by_label("Batch size", exact=True).press("Tab")
    expect(page).to_have_url(re.compile("batch_size=4"))
    page.get_by_role("button", name="Predict its energy").click()
    expect(page).to_have_url(re.compile("/jobs/[0-9a-f]{32}$"))
    result = page.get_by_role("link", name="Explore the result")
    result.click(timeout=JOB_MS)
    expect(page.get_by_role("heading", level=1)).to_contain_text("predicted")
    expect(page.get_by_role("treegrid")).to_contain_text("encoder")
    assert "answer=" in page.url


def test_a_config_is_explored_while_sliding(page: Page, config: Path) -> None:
    brought(page, config)
    page.get_by_role("link", name="Explore while sliding").click()
    expect(page.get_by_role("treegrid")).to_contain_text("encoder")


def test_a_file_is_dropped(page: Page) -> None:
    page.goto("/open")
    data = page.evaluate_handle(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], "config.json"));
            return data;
        }""",
        json.dumps(CONFIG),
    )
    page.locator(".drop").dispatch_event("drop", {"dataTransfer": data})
    expect(page.get_by_role("treegrid")).to_contain_text("encoder")
    assert "model=upload:" in page.url
    expect(page.get_by_role("heading", name="config.json, 8 × 128")).to_be_visible()
    expect(page.get_by_role("combobox", name="Model")).to_have_value("config.json")
    expect(page.get_by_role("treegrid")).to_contain_text("config.json")
    for place in ("Compare", "Suggest", "Cost", "What if"):
        page.get_by_role("link", name=place, exact=True).first.click()
        expect(page.get_by_role("heading", level=1)).not_to_contain_text("config")
        expect(page.locator(".lede")).to_contain_text("config.json")


def test_a_tree_opens_in_the_views(page: Page, tmp_path: Path) -> None:
    brought(page, saved_tree(page, tmp_path / "tree.json"))
    expect(page.get_by_role("heading", name="<b>mine</b>")).to_be_visible()
    assert page.locator("main b").count() == 0
    page.get_by_role("link", name="Explore where it goes").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("<b>mine</b>")
    assert "upload=" in page.url


def test_what_was_brought_is_found_again(page: Page, config: Path) -> None:
    brought(page, config)
    page.get_by_role("link", name="Bring another file").click()
    page.get_by_role("link", name="config.json").click()
    expect(page.get_by_role("treegrid")).to_be_visible()
    page.goto("/open")
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("link", name="config.json")).to_have_count(0)


def test_a_file_that_cannot_be_is_told(page: Page, tmp_path: Path) -> None:
    page.goto("/open")
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"model_type": "<b>nothing</b>"}')
    page.locator("input[type=file]").set_input_files(wrong)
    expect(page.get_by_role("alert")).to_contain_text("<b>nothing</b>")
    assert page.locator("main b").count() == 0
    wrong.write_text("no json at all")
    page.locator("input[type=file]").set_input_files(wrong)
    expect(page.get_by_role("alert")).not_to_contain_text("nothing")


def test_messages_are_offered_as_far_as_the_server_sends_them(
    page: Page, config: Path
) -> None:
    brought(page, config)
    page.get_by_text("Tell me when it is ready").click()
    expect(page.get_by_label("Webhook")).to_be_visible()
    expect(page.get_by_label("E-mail")).to_have_count(0)
    page.get_by_label("Webhook").fill("ftp://example.org/hook")
    page.get_by_role("button", name="Predict its energy").click()
    expect(page.get_by_role("alert")).to_contain_text("http")


def test_links_work_after_a_restart(browser: Any, config: Path, tmp_path: Path) -> None:
    with closing(browser.new_context()) as context:
        page = context.new_page()
        with served(tmp_path, "--computing", "1") as url:
            page.goto(f"{url}/open")
            page.locator("input[type=file]").set_input_files(config)
            page.get_by_role("link", name="Predict it as a job").click()
            expect(page.locator(".come-back")).to_be_visible()
            upload = page.url.removeprefix(url)
            page.get_by_role("button", name="Predict its energy").click()
            expect(page.locator(".state")).to_have_text("succeeded", timeout=JOB_MS)
            job = page.url.removeprefix(url)
        with served(tmp_path, "--computing", "1") as url:
            page.goto(url + upload)
            expect(page.locator("main")).to_contain_text("intermediate_size")
            page.goto(url + job)
            page.get_by_role("link", name="Explore the result").click()
            expect(page.get_by_role("treegrid")).to_contain_text("encoder")


def test_a_token_is_asked_for(browser: Any, config: Path, tmp_path: Path) -> None:
    options = ("--computing", "1", "--token", "open sesame")
    with served(tmp_path, *options) as url, closing(browser.new_context()) as context:
        page = context.new_page()
        page.goto(f"{url}/open")
        page.locator("input[type=file]").set_input_files(config)
        page.get_by_label("Token of this server").fill("open sesame")
        page.get_by_role("button", name="Try with this token").click()
        expect(page.get_by_role("treegrid")).to_be_visible()


def test_on_a_phone(new_page: Callable[..., Any], config: Path) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto("/open")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    brought(page, config)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
