"""What if: a grid of sizes as heat map and as curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

ADDRESS = "/what-if?model=bert-l2-h128&batch_size=1,4&seq_len=16,32,64"


def opened(page: Page, more: str = "") -> Page:
    page.goto(ADDRESS + more)
    expect(page.locator(".lede")).to_contain_text("takes least with")
    return page


def test_a_heat_map_of_sizes(page: Page) -> None:
    opened(page)
    expect(page.locator(".heat tbody td")).to_have_count(6)
    page.locator(".heat tbody td").first.hover()
    expect(page.locator(".readout")).to_contain_text("batch size 1")
    expect(page.locator(".readout")).to_contain_text("±")
    page.locator(".heat tbody td a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("bert-l2-h128, 1 × 16")


def test_curves_and_units(page: Page) -> None:
    opened(page)
    page.get_by_role("button", name="curves").click()
    expect(page.locator(".curve")).to_have_count(2)
    expect(page.locator(".chart")).to_contain_text("batch size 4")
    page.get_by_role("button", name="token", exact=True).click()
    expect(page.locator(".lede")).to_contain_text("per token")
    assert "view=curve" in page.url
    page.go_back()
    expect(page.locator(".lede")).to_contain_text("per sequence")


def test_lists_that_cannot_be_are_told(page: Page) -> None:
    opened(page)
    lengths = page.get_by_label("Sequence lengths")
    lengths.fill("64,abc")
    lengths.press("Enter")
    expect(lengths).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".hint.wrong")).to_contain_text("64:512:64")
    lengths.fill("16:48:16")
    lengths.press("Enter")
    expect(page.locator(".heat thead th")).to_have_text(
        ["batch size", "16", "32", "48"]
    )


def test_fields_of_the_config(page: Page) -> None:
    page.goto("/what-if?model=bert-l2-h128&batch_size=2&seq_len=16")
    fields = page.get_by_label("Fields of the config")
    fields.fill("num_hidden_layers=1,2,4")
    fields.press("Enter")
    expect(page.locator(".heat tbody th")).to_have_text(["1", "2", "4"])
    assert "set=num_hidden_layers" in page.url


def test_which_number_the_energy_follows(page: Page) -> None:
    opened(page)
    page.get_by_text("Which number the energy follows").click()
    bars = page.get_by_role("list", name="Elasticities")
    expect(bars).to_contain_text("num_hidden_layers")


def test_the_map_can_be_taken_away(page: Page) -> None:
    opened(page)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as taken:
        page.get_by_role("menuitem", name="Picture, SVG").click()
    drawing = Path(taken.value.path()).read_text()
    assert drawing.startswith("<svg")
    assert "bert-l2-h128: energy per sequence" in drawing


def test_on_a_phone(new_page: Any) -> None:
    page = opened(new_page(viewport={"width": 390, "height": 844}))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
