"""Trade-off: accuracy against energy, budgets, and one's own table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

ADDRESS = "/trade-off?batch_size=2&seq_len=32"
OWN = (
    "model,accuracy,energy_j,source\n"
    "bert-l2-h128,80,,mine\n"
    "bert-l4-h128,85,,mine\n"
    "<b>wild</b>,70,9.5,mine\n"
    "best,99,12.5,mine\n"
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(OWN)
    return path


def with_own(page: Page, table: Path) -> Page:
    page.goto(ADDRESS)
    page.locator("input[type=file]").set_input_files(table)
    expect(page.locator(".dot")).to_have_count(4)
    return page


def test_published_models_with_their_front(page: Page) -> None:
    page.goto(ADDRESS)
    expect(page.locator(".lede")).to_contain_text("are on the front")
    assert page.locator(".dot").count() > 20
    assert page.locator(".dot.on-front").count() >= 5
    rows = page.get_by_role("region", name="Models by budget").get_by_role("row")
    assert rows.count() == page.locator(".dot").count() + 1
    bert = page.get_by_role("button", name="bert-base-uncased", exact=True)
    row = page.locator("tr").filter(has=bert)
    expect(row).to_contain_text("Devlin et al. 2019")


def test_own_table_stays_in_the_tab(page: Page, table: Path) -> None:
    with_own(page, table)
    expect(page.locator(".lede")).to_contain_text("3 of 4 models")
    expect(page.locator(".side")).to_contain_text("mine.csv")
    assert page.locator("main b").count() == 0
    expect(page.get_by_role("row").filter(has_text="<b>wild</b>")).to_be_visible()
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert "wild" not in stored
    assert "wild" not in page.url


def test_a_table_is_dropped(page: Page) -> None:
    page.goto(ADDRESS)
    zone = page.locator(".drop")
    data = page.evaluate_handle(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], "dropped.csv", {type: "text/csv"}));
            return data;
        }""",
        OWN,
    )
    zone.dispatch_event("drop", {"dataTransfer": data})
    expect(page.locator(".side")).to_contain_text("dropped.csv")
    expect(page.locator(".dot")).to_have_count(4)


def test_budgets_choose_at_once(page: Page, table: Path) -> None:
    with_own(page, table)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Energy at most").press("Home")
    expect(page.locator(".lede")).to_contain_text("Take bert-l2-h128")
    expect(page.locator("tr", has_text="take this")).to_contain_text("bert-l2-h128")
    expect(page.locator(".faded-row")).to_have_count(3)
    page.get_by_role("button", name="No budget").click()
    page.get_by_label("Accuracy at least").press("End")
    expect(page.locator(".lede")).to_contain_text("Take best")
    assert "at_least=99" in page.url
    page.get_by_label("Energy at most").press("Home")
    expect(page.locator(".lede")).to_contain_text("No model fits")
    assert not [url for url in asked if "/api/" in url]


def test_names_by_hover_and_click(page: Page, table: Path) -> None:
    with_own(page, table)
    page.locator(".dot").nth(1).hover()
    expect(page.locator(".chart-foot .readout")).to_contain_text("bert-l4-h128")
    page.locator(".dot").nth(0).click()
    assert "model=bert-l2-h128" in page.url
    page.get_by_role("button", name="best").click()
    readout = page.locator(".chart-foot .readout")
    expect(readout).to_contain_text("best")
    expect(readout.get_by_role("link")).to_have_count(0)  # nobody knows its shapes
    page.locator(".dot").nth(1).hover()
    expect(readout.get_by_role("link", name="bert-l4-h128")).to_be_visible()


def test_a_table_that_cannot_be_is_told(page: Page, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("name,score\nbert,3\n")
    page.goto(ADDRESS)
    page.locator("input[type=file]").set_input_files(wrong)
    expect(page.get_by_role("alert")).to_contain_text("model and accuracy")
    unknown = tmp_path / "unknown.csv"
    unknown.write_text("model,accuracy\nbert-bse-uncased,3\n")
    page.locator("input[type=file]").set_input_files(unknown)
    expect(page.get_by_role("alert")).to_contain_text("bert-bse-uncased")
    page.get_by_role("button", name="Back to the published ones").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_the_picture_can_be_taken_away(page: Page, table: Path) -> None:
    with_own(page, table)
    for item, start in (("Picture, SVG", b"<svg"), ("Picture, PNG", b"\x89PNG")):
        page.get_by_role("button", name="Export").click()
        with page.expect_download() as taken:
            page.get_by_role("menuitem", name=item).click()
        content = Path(taken.value.path()).read_bytes()
        assert content.startswith(start)
        assert b"<b>" not in content


def test_on_a_phone(new_page: Any, table: Path) -> None:
    page = with_own(new_page(viewport={"width": 390, "height": 844}), table)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
