"""Leaderboard: all models, filtered and sorted, with links to explore them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

ADDRESS = "/leaderboard?limit=10&batch_size=2&seq_len=32"


def opened(page: Page, more: str = "") -> Page:
    page.goto(ADDRESS + more)
    expect(rows(page)).to_have_count(10)
    expect(page.locator(".busy")).to_have_count(0)
    return page


def rows(page: Page) -> Any:
    return page.locator("table.board tbody tr")


def first(page: Page) -> str:
    return str(rows(page).first.get_by_role("rowheader").inner_text())


def test_the_cheapest_first(page: Page) -> None:
    opened(page)
    expect(page.locator(".lede")).to_contain_text("10 models: from bert-l2-h128")
    assert first(page) == "bert-l2-h128"
    expect(rows(page).first).to_contain_text("±")


def test_sorted_by_any_column(page: Page) -> None:
    opened(page)
    head = page.get_by_role("columnheader", name="Parameters")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    largest = first(page)
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert first(page) != largest
    assert "sort=params" in page.url
    page.go_back()
    expect(head).to_have_attribute("aria-sort", "descending")


def test_searched_and_filtered(page: Page) -> None:
    opened(page)
    page.keyboard.press("/")
    page.keyboard.type("bert l4")
    expect(rows(page).first).to_contain_text("bert-l4")
    count = rows(page).count()
    assert 0 < count < 10
    assert "search=bert" in page.url
    page.get_by_label("Search").fill("")
    expect(rows(page)).to_have_count(10)
    page.get_by_label("Family").select_option("bert")
    assert 0 < rows(page).count() <= 10
    page.get_by_label("up to").select_option("1e7")
    assert "max_params=1e7" in page.url


def test_per_token(page: Page) -> None:
    opened(page)
    before = rows(page).first.locator(".cell-text").text_content() or ""
    page.get_by_role("button", name="token", exact=True).click()
    expect(rows(page).first.locator(".cell-text")).not_to_have_text(before)
    expect(page.locator(".lede")).to_contain_text("per token")


def test_a_model_is_explored(page: Page) -> None:
    opened(page)
    page.get_by_role("link", name="bert-l2-h128").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("bert-l2-h128, 2 × 32")


def test_picked_models_are_compared(page: Page) -> None:
    opened(page)
    page.get_by_label("Pick bert-l2-h128 to compare").check()
    page.get_by_label("Pick bert-l4-h128 to compare").check()
    page.get_by_role("link", name="Compare 2 models").click()
    expect(page.locator(".comparison thead")).to_contain_text("bert-l4-h128")


def test_on_a_phone(new_page: Any) -> None:
    page = opened(new_page(viewport={"width": 390, "height": 844}))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_bars_are_as_long_as_they_say(page: Page) -> None:
    opened(page)
    shares = page.evaluate("""() => {
      const bars = [...document.querySelectorAll("table.board .cell-bar")];
      const widest = Math.max(...bars.map((bar) => bar.offsetWidth));
      const part = (bar) => Number(bar.style.getPropertyValue("--part"));
      return bars.map((bar) => bar.offsetWidth / widest - part(bar));
    }""")
    assert shares == pytest.approx([0] * 10, abs=0.02)


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
@pytest.mark.parametrize(("width", "size"), [(1024, "12px"), (1600, "0px")])
def test_a_table_wider_than_its_place_says_so(
    new_page: Any, width: int, size: str, motion: str
) -> None:
    size_of_screen = {"width": width, "height": 768}
    page = new_page(viewport=size_of_screen, reduced_motion=motion)
    opened(page)
    told = page.locator(".table-scroll").evaluate(
        "each => getComputedStyle(each, '::before').fontSize"
    )
    assert told == size
