"""Cost and carbon: sliders that answer while they move."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

ADDRESS = "/cost?model=bert-l2-h128&batch_size=2&seq_len=32"


def opened(page: Page, more: str = "") -> Page:
    page.goto(ADDRESS + more)
    expect(page.get_by_role("rowheader", name="a year")).to_be_visible()
    expect(page.locator(".bars li").first).to_be_visible()
    return page


def test_a_year_in_electricity_carbon_and_money(page: Page) -> None:
    opened(page)
    expect(page.locator(".lede")).to_contain_text("CO₂e")
    expect(page.locator(".lede")).to_contain_text("250,000 requests a day")
    expect(page.locator(".figures.big")).to_contain_text("±")


def test_the_figures_are_the_servers(page: Page) -> None:
    opened(page, "&per_day=1000&price=0.5&pue=1.5&region=FR")
    told = page.evaluate(
        """async () => {
            const asked = "model=bert-l2-h128&batch_size=2&seq_len=32" +
                "&per_day=1000&price=0.5&pue=1.5&region=FR";
            const answer = await (await fetch(`/api/v1/cost?${asked}`)).json();
            return answer.lines.find(line => line.name === "year");
        }"""
    )
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as taken:
        page.get_by_role("menuitem", name="Table, CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(taken.value.path()).read_text())))
    year = rows[-1]
    assert float(year["kwh"]) == pytest.approx(told["kwh"])
    assert float(year["money"]) == pytest.approx(told["money"])
    assert float(year["kg"]) == pytest.approx(told["kg_co2e"])
    assert float(year["kg_high"]) == pytest.approx(told["kg_co2e_high"])


def test_sliders_answer_at_once(page: Page) -> None:
    opened(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    before = page.locator(".lede").text_content() or ""
    slider = page.get_by_label("Requests per day")
    slider.evaluate(
        "each => { each.value = 24; each.dispatchEvent(new Event('input')); }"
    )
    expect(page.locator(".lede")).not_to_have_text(before)
    expect(page.locator(".lede")).to_contain_text("100,000,000 requests a day")
    assert asked == []
    slider.press("ArrowRight")
    expect(page.locator(".lede")).to_contain_text("200,000,000 requests a day")
    assert "per_day=200000000" in page.url
    page.get_by_label("PUE").press("Home")
    assert "pue=1" in page.url


def test_every_machine_is_offered(page: Page) -> None:
    opened(page)
    told = page.evaluate(
        """async () => {
            const answer = await (await fetch("/api/v1/hardware")).json();
            return answer.hardware.map(each => each.hardware.name);
        }"""
    )
    options = page.get_by_label("Hardware").locator("option")
    expect(options.filter(has_text="rtx4090")).to_have_count(1)
    words = options.all_text_contents()
    assert sorted(each.partition(" ")[0] for each in words) == sorted(told)
    assert words[0].startswith("pc1 (")


def test_regions_and_an_own_intensity(page: Page) -> None:
    opened(page)
    carbon = page.locator(".figures.big div").filter(has_text="CO₂e a year")
    before = carbon.text_content() or ""
    page.get_by_label("Electricity of").select_option("FR")
    expect(carbon).not_to_have_text(before)
    assert "region=FR" in page.url
    page.get_by_label("or g CO₂e per kWh").fill("0")
    page.get_by_label("or g CO₂e per kWh").press("Tab")
    expect(carbon).to_contain_text("0 g")
    page.get_by_role("link", name="Norway").click()
    assert "region=NO" in page.url
    assert "intensity" not in page.url


def test_the_command_says_the_same(page: Page) -> None:
    opened(page, "&region=DE&pue=1.3")
    page.get_by_role("button", name="Export").click()
    page.get_by_role("menuitem", name="Copy CLI command").click()
    said = page.locator(".toast")
    expect(said).to_contain_text("irene cost bert-l2-h128 -b 2 -s 32")
    expect(said).to_contain_text("--region DE")


def test_on_a_phone(new_page: Any) -> None:
    page = opened(new_page(viewport={"width": 390, "height": 844}))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
