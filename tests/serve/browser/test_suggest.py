"""Suggestions: what to change, what it saves, how to apply it."""

from __future__ import annotations

import ast
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

ADDRESS = "/suggest?model=bert-l4-h256&batch_size=1&seq_len=33"


def opened(page: Page) -> Page:
    page.goto(ADDRESS)
    expect(page.locator(".suggestion").first).to_be_visible()
    return page


def test_savings_with_their_intervals(page: Page) -> None:
    opened(page)
    expect(page.locator(".lede")).to_contain_text("bert-l4-h256 takes")
    batch = page.locator(".suggestion").filter(has_text="run batches of")
    expect(batch).to_contain_text("%")
    expect(batch).to_contain_text("±")
    expect(batch).to_contain_text("How")
    expect(page.get_by_role("heading", name="A setting is enough")).to_be_visible()


def test_filters_are_in_the_address(page: Page) -> None:
    opened(page)
    every = page.locator(".suggestion").count()
    page.get_by_label("What it may take").select_option("setting")
    expect(page.get_by_role("heading", name="Takes another model")).to_have_count(0)
    assert 0 < page.locator(".suggestion").count() <= every
    assert "effort=setting" in page.url
    page.get_by_label("only savings that are sure").check()
    assert "sure=1" in page.url
    page.go_back()
    expect(page.get_by_label("only savings that are sure")).not_to_be_checked()


def test_the_code_can_be_pasted(new_page: Any) -> None:
    page = opened(new_page(permissions=["clipboard-read", "clipboard-write"]))
    fused = page.locator(".suggestion").filter(has_text="fused attention")
    fused.get_by_role("button", name="Copy the code").click()
    expect(fused.get_by_text("copied")).to_be_visible()
    code = page.evaluate("navigator.clipboard.readText()")
    assert ast.dump(ast.parse(code))  # whole Python
    assert 'from_pretrained("google/bert_uncased_L-4_H-256_A-4"' in code
    assert 'attn_implementation="sdpa"' in code
    shown = page.locator(".suggestion .apply code").all_text_contents()
    for each in shown:
        ast.parse(each)


def test_a_serving_is_compared_with_the_same_serving(page: Page) -> None:
    page.goto(
        "/suggest?model=llama-3.1-8b&hardware=h100&batch_size=8"
        "&prompt_len=500&output_len=200"
    )
    first = page.locator(".suggestion").first
    first.get_by_role("link", name="Compare with now").click()
    expect(page.locator(".subject-energy")).to_have_count(2)
    assert "undefined" not in page.url


def test_a_suggestion_is_looked_at_and_compared(page: Page) -> None:
    opened(page)
    fused = page.locator(".suggestion").filter(has_text="fused attention")
    expect(fused.locator(".copy-command code")).to_contain_text("--attention sdpa")
    fused.get_by_role("link", name="Look at it").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("bert-l4-h256")
    assert "attention=sdpa" in page.url
    page.go_back()
    fused.get_by_role("link", name="Compare with now").click()
    expect(page.locator(".comparison thead")).to_contain_text("sdpa")


def test_a_model_that_is_not_there(page: Page) -> None:
    page.goto("/suggest?model=%3Cscript%3Ealert(1)%3C/script%3E")
    expect(page.get_by_role("alert")).to_contain_text("<script>")
    assert page.locator("main script").count() == 0


def test_on_a_phone(new_page: Any) -> None:
    page = opened(new_page(viewport={"width": 390, "height": 844}))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
