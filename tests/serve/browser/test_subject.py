"""One subject: model, run, machine and file go along, whatever one does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

SMALL = "/?model=bert-l2-h128&batch_size=2&seq_len=32"


def test_the_run_goes_along_and_strangers_are_ignored(page: Page) -> None:
    page.goto(f"{SMALL}&utm_source=mail&foo=bar")
    expect(page.locator(".lead")).to_contain_text("bert-l2-h128")
    page.get_by_role("link", name="Cost").click()
    expect(page.locator(".lede")).to_contain_text("bert-l2-h128")
    assert "batch_size=2" in page.url
    page.go_back()
    expect(page.locator(".lead")).to_contain_text("2 × 32 tokens")


def test_a_saved_tree_stays_the_subject(page: Page, tmp_path: Path) -> None:
    page.goto(SMALL)
    expect(page.locator(".lead .energy")).to_be_visible()
    tree = page.request.get(f"/api/v1/energy{SMALL[1:]}").text()
    file = tmp_path / "tree.json"
    file.write_text(tree)
    page.goto("/open")
    page.locator("input[type=file]").set_input_files(file)
    expect(page.locator(".lead")).to_contain_text("2 × 32 tokens")
    batch = page.get_by_label("Batch size", exact=True)
    expect(batch).to_have_value("2")
    batch.fill("3")
    batch.press("Tab")
    expect(page.locator(".lead")).to_contain_text("bert-l2-h128, 3 × 32 tokens")
    page.reload()
    expect(page.locator(".lead")).to_contain_text("bert-l2-h128, 3 × 32 tokens")
    page.get_by_role("link", name="Show the file again").click()
    expect(page.locator(".lead")).to_contain_text("2 × 32 tokens")
    page.get_by_label("Batch size, slider").press("ArrowRight")
    expect(page.locator(".lead")).to_contain_text("bert-l2-h128, 3 × 32 tokens")
    page.go_back()
    expect(page.locator(".lead")).to_contain_text("2 × 32 tokens")
    expect(page.get_by_text("predicted anew")).to_have_count(0)


def test_serving_is_a_mode_of_its_own(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("region", name="What this is")).to_be_visible()
    page.get_by_role("link", name="Llama 8B on B200, chat").click()
    expect(page.locator(".serving-figures")).to_contain_text("per output token")
    expect(page.locator(".serving-figures")).to_contain_text("fits")
    expect(page.get_by_label("Streams at once", exact=True)).to_have_value("64")
    expect(page.get_by_label("Sequence length", exact=True)).to_have_count(0)
    expect(page.get_by_label("Number format")).to_contain_text("bf16 (auto)")
    curve = re.compile("^Energy per output token by streams at once")
    expect(page.get_by_role("img", name=curve)).to_be_visible()
    page.get_by_label("Streams at once", exact=True).fill("16")
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("16 × 750 tokens in")


def test_anything_is_found_by_typing(page: Page) -> None:
    page.goto(SMALL)
    expect(page.locator(".lead .energy")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("l4 h128")
    expect(page.get_by_role("option", name="bert-l4-h128")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("bert-l4-h128, 2 × 32 tokens")


def test_nobody_is_lost(page: Page) -> None:
    page.goto("/nope")
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()


def test_thumbs_reach_everything(new_page: Any) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto(SMALL)
    expect(page.get_by_role("treegrid")).to_be_visible()
    page.get_by_text("Change model, sizes and hardware").click()
    small = page.evaluate(
        """() => [...document.querySelectorAll(
                "main button, main select, main input, summary")]
            .map(each => [each, each.closest("label") ?? each])
            .map(([each, target]) => [each, target.getBoundingClientRect()])
            .filter(([each, box]) => box.height > 0 && box.height < 39.5)
            .map(([each]) => each.outerHTML.slice(0, 80))"""
    )
    assert small == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


STICKS_OUT = """() => [...document.querySelectorAll(".group")].flatMap((panel) =>
  [...panel.querySelectorAll("button, input, select, .segments")]
    .filter((each) => {
      const right = each.getBoundingClientRect().right;
      return right > panel.getBoundingClientRect().right - 8;
    }).map((each) => each.outerHTML.slice(0, 120)))"""


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("what-if", "per output token"),
        ("leaderboard", "per output token"),
        ("suggest", "per request"),
        ("cost", "requests a day"),
    ],
)
def test_a_serving_has_its_machine_and_its_words(
    page: Page, place: str, words: str
) -> None:
    run = "on=h100&batch_size=4&prompt_len=64&output_len=32"
    page.goto(f"/{place}?model=llama-3.2-1b&search=llama-3.2&{run}")
    expect(page.locator(".lede")).to_contain_text(words)
    expect(page.locator(".where")).to_contain_text("H100 SXM 80 GB, 2022")
    expect(page.locator(".where")).to_contain_text("the GPU board alone")
    assert page.evaluate(STICKS_OUT) == [], "controls stay in their panel"


def test_a_wrong_size_is_told_as_the_form_calls_it(page: Page) -> None:
    page.goto("/?model=bert-l2-h128&batch_size=-4")
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("“Batch size” must be at least 1")
