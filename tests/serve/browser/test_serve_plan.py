"""The cheapest way to serve a language model, chosen in the browser."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

ADDRESS = "/serve-plan?model=llama-3.1-8b&try_on=h100,b200&try_tensor_parallel=1,2"
ASKED = (
    "model=llama-3.1-8b&on=h100,b200&tensor_parallel=1,2&max_latency=50ms"
    "&prompt_len=750&output_len=500"
)


def opened(page: Page, more: str = "") -> Page:
    page.goto(ADDRESS + more)
    expect(page.locator(".plan tbody tr").first).to_be_visible()
    expect(page.locator(".busy")).to_have_count(0)
    return page


def told_by_the_server(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(
        f"async () => (await fetch('/api/v1/serve-plan?{ASKED}')).json()"
    )
    return found


def test_the_cheapest_is_the_servers(page: Page) -> None:
    opened(page)
    best = told_by_the_server(page)["best"]
    name = f"{best['gpus']} × {best['on']}"
    expect(page.locator(".lede")).to_contain_text(
        f"{name} with {best['batch_size']} streams"
    )
    row = page.locator(".plan tr", has_text="take this")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(name)
    row.get_by_role("link").click()
    expect(page.locator(".lead")).to_contain_text(f"{best['batch_size']} × 750 tokens")
    shown = page.locator(".serving-figures dd").first.text_content() or ""
    assert float(shown.split("\N{NO-BREAK SPACE}")[0]) == pytest.approx(
        best["j_per_output_token"] * 1e3, rel=0.006
    )


def test_a_limit_that_none_keeps_to(page: Page) -> None:
    opened(page)
    limit = page.get_by_label("Between tokens, at most")
    limit.fill("1ms")
    limit.press("Tab")
    expect(page.locator(".lede")).to_contain_text("None of")
    expect(page.locator(".lede")).to_contain_text("The quickest is")
    assert "max_latency=1ms" in page.url
    limit.fill("soon")
    limit.press("Tab")
    expect(page.locator(".problem")).to_contain_text("a time such as 50ms")
    limit.fill("")
    limit.press("Tab")
    expect(page.locator(".lede")).to_contain_text(re.compile(r"(\d+) of \1 ways"))


def test_what_is_tried_is_chosen(page: Page) -> None:
    opened(page)
    one = page.get_by_role("group", name="GPUs").get_by_role(
        "button", name="h100", exact=True
    )
    expect(one).to_have_attribute("aria-pressed", "true")
    one.click()
    expect(page.locator(".busy")).to_have_count(0)
    expect(page.locator(".plan")).not_to_contain_text("h100")
    page.get_by_role("button", name="fp8", exact=True).click()
    expect(page.locator(".lede")).to_contain_text("b200, fp8")
    assert "try_on=b200" in page.url
    page.get_by_role("checkbox", name=re.compile("^all ")).check()
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as taken:
        page.get_by_role("menuitem", name="Table, CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(taken.value.path()).read_text())))
    assert {row["on"] for row in rows} == {"b200"}
    assert {row["quantization"] for row in rows} == {"fp8"}
    expect(page.locator(".plan tbody tr")).to_have_count(len(rows))


def test_a_serving_leads_here_and_keeps_its_subject(page: Page) -> None:
    page.goto("/?model=qwen3-8b&on=h200&batch_size=16&prompt_len=300&output_len=100")
    page.get_by_role("link", name="Find the cheapest set-up").click()
    expect(page.locator(".lede")).to_contain_text("Serve qwen3-8b")
    expect(page.get_by_role("spinbutton", name="Prompt")).to_have_value("300")
    page.get_by_role("navigation").get_by_role("link", name="Explore").click()
    expect(page.locator(".lead")).to_contain_text("16 × 300 tokens in")


def test_a_model_that_cannot_be_served_stays_for_other_pages(page: Page) -> None:
    page.goto("/serve-plan?model=bert-base-uncased&try_tensor_parallel=1")
    expect(page.locator(".lede")).to_contain_text("Serve llama-3.1-8b")
    page.get_by_role("navigation").get_by_role("link", name="Cost").click()
    expect(page.locator(".lede")).to_contain_text("bert-base-uncased")


def test_the_command_says_the_same(page: Page) -> None:
    opened(page)
    page.get_by_role("button", name="Export").click()
    page.get_by_role("menuitem", name="Copy CLI command").click()
    expect(page.locator(".toast")).to_contain_text(
        "irene serve-plan llama-3.1-8b --on h100,b200 --tensor-parallel 1,2 "
        "--max-latency 50ms --prompt 750 --output 500"
    )


def test_on_a_phone(new_page: Any) -> None:
    page = opened(new_page(viewport={"width": 390, "height": 844}), "&every=1")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.locator(".legend-row")).to_contain_text("1 × b200")
    page.locator("summary", has_text="Change limits, GPUs and the run").click()
    expect(page.get_by_label("Between tokens, at most")).to_be_visible()
