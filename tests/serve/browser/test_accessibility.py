"""axe-core finds nothing to complain about, in light and in dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

CHAT = "model=llama-3.2-1b&on=h100&batch_size=4&prompt_len=64&output_len=32"
SMALL = "/?model=bert-l2-h128&batch_size=2&seq_len=32"
PAGES = {
    "first": "/",
    "table": SMALL,
    "table-search": f"{SMALL}&search=dense&path=encoder.layer.0.attention",
    "icicle": f"{SMALL}&view=icicle&metric=log&by=class",
    "tree": f"{SMALL}&view=tree&depth=all&by=primitive",
    "serving": f"/?{CHAT}",
    "does-not-fit": "/?model=llama-3.1-405b&on=h100&prompt_len=64&output_len=32",
    "no-model": "/?model=nosuchmodel",
    "method": "/method",
    "method-gpu": "/method?on=b200",
    "help": "/help",
    "nowhere": "/nope",
}


LOW = """() => [...document.querySelectorAll("a, button, input, select, summary")]
  .filter((each) => {
    const box = each.getBoundingClientRect(), style = getComputedStyle(each);
    const inText = each.tagName === "A" && style.display === "inline";
    const label = each.closest("label")?.getBoundingClientRect().height ?? 0;
    const there = box.width > 1 && style.visibility !== "hidden" && box.top > -40;
    return there && !inText && Math.max(box.height, label) < 39.5;
  }).map((each) => each.outerHTML.slice(0, 120))"""


def low_targets(page: Any) -> list[str]:
    """What a thumb would miss: lower than 40 px, but for links in sentences."""
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    found: list[str] = page.evaluate(LOW)
    return found


@pytest.mark.parametrize("name", PAGES)
def test_no_violation(
    name: str,
    new_page: Callable[..., Any],
    axe: Callable[[Any], list[str]],
) -> None:
    page = new_page(bypass_csp=True)
    page.goto(PAGES[name])
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".busy")).to_have_count(0)
    assert axe(page) == []


def test_no_violation_in_what_opens(
    new_page: Callable[..., Any], axe: Callable[[Any], list[str]]
) -> None:
    page = new_page(bypass_csp=True)
    page.goto(SMALL)
    expect(page.locator(".lead .energy")).to_be_visible()
    page.get_by_role("combobox", name="Model").click()
    expect(page.get_by_role("listbox")).to_be_visible()
    assert axe(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Export").click()
    assert axe(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("llama")
    expect(page.get_by_role("option", name="llama-3.1-8b")).to_be_visible()
    assert axe(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keyboard help").click()
    assert axe(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_no_violation_on_a_phone(
    name: str, new_page: Callable[..., Any], axe: Callable[[Any], list[str]]
) -> None:
    page = new_page(bypass_csp=True, viewport={"width": 390, "height": 844})
    page.goto(PAGES[name])
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".busy")).to_have_count(0)
    assert axe(page) == [], "folded"
    assert low_targets(page) == []
    assert axe(page) == [], "unfolded"
