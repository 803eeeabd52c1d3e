"""A ledger: power over time, and its energy by module, op, phase and device."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

from irene.account import attribute
from tests.account.ledger.test_ledger import costs, training
from tests.serve.browser.test_open import brought


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps of training; a note is markup."""
    machine = training()
    events = machine.events(("#1", "#2", "#3")).noted("warning: <b>look</b>")
    found = attribute(events, [machine.counter(1.0, idle_w=10.0, relative_error=0.05)])
    path = tmp_path_factory.mktemp("ledger") / "ledger.json"
    path.write_text(found.to_json(costs()))
    return path


def opened(page: Page, ledger: Path) -> Page:
    brought(page, ledger)
    expect(page.locator(".timeline")).to_be_visible()
    return page


def test_power_over_time_is_read_by_pointer_and_keys(page: Page, ledger: Path) -> None:
    opened(page, ledger)
    expect(page.locator(".ledger .figures").first).to_contain_text("charged to ops")
    assert page.locator(".power-line").count() >= 1
    readout = page.locator(".timeline .readout")
    page.locator(".timeline-frame").hover()
    expect(readout).to_contain_text("counter")
    expect(readout).to_contain_text("W")
    page.mouse.move(5, 5)
    page.locator(".timeline-frame").focus()
    page.keyboard.press("ArrowRight")
    expect(readout).to_contain_text("step #1")


def test_it_stays_the_subject(page: Page, ledger: Path) -> None:
    opened(page, ledger)
    page.get_by_role("link", name="Explore where it goes").click()
    expect(page.locator(".lead .energy")).to_be_visible()
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.locator(".subject").first).to_contain_text("base")
    expect(page.locator(".subject a").first).to_have_attribute(
        "href", re.compile("upload=")
    )


def test_zoomed_the_address_knows_and_the_energy_is_that_part(
    page: Page, ledger: Path
) -> None:
    opened(page, ledger)
    part = page.locator(".timeline .figures")
    whole = part.text_content() or ""
    page.locator(".timeline-frame").focus()
    page.keyboard.press("+")
    expect(part).not_to_have_text(whole)
    assert "from=" in page.url
    address = page.url
    page.goto("/help")
    page.goto(address)
    expect(part).to_be_visible()
    assert part.text_content() != whole
    page.get_by_role("button", name="Whole run").click()
    expect(part).to_have_text(whole)


def test_by_module_op_phase_and_device(page: Page, ledger: Path) -> None:
    opened(page, ledger)
    table = page.get_by_role("region", name="Energy by")
    expect(table).to_contain_text("encoder.layer.0")
    for view, word in (
        ("op", "aten::addmm"),
        ("phase", "backward"),
        ("device", "cuda"),
    ):
        page.get_by_role("button", name=view, exact=True).click()
        expect(table).to_contain_text(word)
        assert f"ledger_by=by_{view}" in page.url
    expect(table).to_contain_text("(idle)")
    page.get_by_role("button", name="op", exact=True).click()
    page.get_by_label("Search").fill("addmm")
    expect(table.get_by_role("rowheader", name="aten::addmm")).to_be_visible()
    expect(table.get_by_role("rowheader", name="aten::mm")).to_have_count(0)


def test_sorted_and_taken_away(page: Page, ledger: Path) -> None:
    opened(page, ledger)
    page.get_by_role("button", name="op", exact=True).click()
    head = page.get_by_role("columnheader", name="Time")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    page.locator(".ledger").get_by_role("button", name="Export").click()
    with page.expect_download() as taken:
        page.get_by_role("menuitem", name="Table, CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(taken.value.path()).read_text())))
    assert {"name", "energy_j", "time_s"} <= set(rows[0])
    assert rows[-1]["name"] == "(no power known)"
    page.locator(".ledger").get_by_role("button", name="Export").click()
    with page.expect_download() as taken:
        page.get_by_role("menuitem", name="Picture, SVG").click()
    assert "polyline" in Path(taken.value.path()).read_text()


def test_notes_are_text(page: Page, ledger: Path) -> None:
    opened(page, ledger)
    page.locator(".notes summary").first.click()
    expect(page.locator(".notes").first).to_contain_text("<b>look</b>")
    assert page.locator("main b").count() == 0


def test_a_ledger_opens_in_the_views_with_its_timeline(
    page: Page, ledger: Path
) -> None:
    opened(page, ledger)
    page.get_by_role("link", name="Explore where it goes").click()
    expect(page.get_by_role("treegrid")).to_contain_text("encoder")
    expect(page.locator(".timeline")).to_be_visible()


def test_on_a_phone(new_page: Callable[..., Any], ledger: Path) -> None:
    page = opened(new_page(viewport={"width": 390, "height": 844}), ledger)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
