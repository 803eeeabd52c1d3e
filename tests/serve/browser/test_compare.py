"""Compare: two or more runs side by side, aligned, with what differs and why."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

TWO = "/compare?subject=bert-l2-h128&subject=bert-l4-h128&batch_size=2&seq_len=32"


def subjects_of(page: Page) -> list[str]:
    return parse_qs(urlsplit(page.url).query)["subject"]


def opened(page: Page, address: str = TWO) -> Page:
    page.goto(address)
    expect(page.locator(".comparison .total")).to_be_visible()
    return page


def test_the_difference_is_told_with_its_interval(page: Page) -> None:
    opened(page)
    lead = page.locator(".lede")
    expect(lead).to_contain_text("bert-l4-h128 takes")
    expect(lead).to_contain_text("±")
    expect(lead).to_contain_text("more")
    expect(lead).to_contain_text("than bert-l2-h128")
    whole = page.locator(".comparison .total")
    expect(whole).to_contain_text("±")


def test_only_differences_and_all_parts(page: Page) -> None:
    opened(page, "/compare?subject=bert-base-uncased&subject=roberta-base")
    table = page.locator("table.comparison")
    expect(table.get_by_role("rowheader", name="embeddings")).to_be_visible()
    feed_forward = table.get_by_role("row").filter(has_text=".intermediate")
    expect(feed_forward).to_have_count(0)
    page.get_by_label("only differences").uncheck()
    expect(feed_forward).to_contain_text("same")
    assert "all=1" in page.url


def test_aligned_by_role(page: Page) -> None:
    opened(page)
    page.get_by_role("button", name="role", exact=True).click()
    table = page.locator("table.comparison")
    expect(table.get_by_role("rowheader", name="feed-forward")).to_be_visible()
    expect(table).to_contain_text("compute")
    assert "by=role" in page.url


def test_swapped_the_sign_changes_and_back_undoes_it(page: Page) -> None:
    opened(page)
    page.get_by_role("button", name="Swap the first two").click()
    expect(page.locator(".lede")).to_contain_text("bert-l2-h128 takes")
    expect(page.locator(".lede")).to_contain_text("less")
    assert subjects_of(page) == ["bert-l4-h128", "bert-l2-h128"]
    page.go_back()
    expect(page.locator(".lede")).to_contain_text("more")


def test_one_is_added_changed_and_removed(page: Page) -> None:
    opened(page)
    page.get_by_role("button", name="Add to compare").click()
    form = page.locator("form.editor")
    form.get_by_role("combobox", name="Model").click()
    page.keyboard.type("l2 h256")
    page.get_by_role("option", name="bert-l2-h256").click()
    form.get_by_label("Batch size").fill("4")
    form.get_by_role("button", name="Add").click()
    expect(page.locator(".comparison thead")).to_contain_text("bert-l2-h256")
    assert subjects_of(page)[2] == "bert-l2-h256@b4"
    expect(page.locator(".subject").nth(2)).to_contain_text("batch 4")
    page.get_by_role("button", name="Remove bert-l4-h128").click()
    expect(page.locator(".comparison thead")).not_to_contain_text("bert-l4-h128")
    assert len(subjects_of(page)) == 2


def test_a_serving_is_compared_with_another_machine(page: Page) -> None:
    run = "on=h100&batch_size=4&prompt_len=64&output_len=32"
    page.goto(f"/compare?model=llama-3.2-1b&subject=llama-3.2-1b&{run}")
    page.get_by_role("button", name="Add to compare").click()
    form = page.locator("form.editor")
    expect(form.get_by_label("Length")).to_have_count(0)
    form.get_by_label("Prompt").fill("128")
    form.get_by_label("Hardware").select_option("b200")
    form.get_by_role("button", name="Add").click()
    expect(page.locator(".subject").nth(1)).to_contain_text("prompt 128")
    expect(page.locator(".where")).to_contain_text("B200")
    assert subjects_of(page) == ["llama-3.2-1b", "llama-3.2-1b@p128,on=b200"]
    page.keyboard.press("Control+k")
    page.keyboard.type("h200")
    page.get_by_role("option", name="H200").last.click()
    expect(page.locator(".where")).to_contain_text("H200")
    assert len(subjects_of(page)) == 2, "another machine, the same subjects"


def test_icicles_have_one_scale_and_are_linked(page: Page) -> None:
    opened(page)
    drawings = page.locator(".linked-one svg")
    expect(drawings).to_have_count(2)
    widths = [float(drawings.nth(i).get_attribute("width") or 0) for i in (0, 1)]
    energies = page.evaluate(
        """async () => {
            const wanted = ["bert-l2-h128", "bert-l4-h128"].map(name =>
                fetch(`/api/v1/energy?model=${name}&batch_size=2&seq_len=32`));
            const found = await Promise.all(wanted);
            const trees = await Promise.all(found.map(each => each.json()));
            return trees.map(tree => tree.energy_j);
        }"""
    )
    assert widths[0] / widths[1] == pytest.approx(energies[0] / energies[1], rel=0.01)
    first = page.locator(".linked-one").first
    first.locator(".part").filter(has_text="attention").first.hover()
    expect(page.locator(".part.lit")).to_have_count(2)
    expect(page.locator(".linked .readout")).to_contain_text("bert-l4-h128:")
    first.locator(".part").filter(has_text="attention").first.click()
    assert "path=encoder.layer.*.attention" in page.url


def test_icicles_by_keyboard(page: Page) -> None:
    opened(page)
    frame = page.get_by_role("application").first
    frame.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".linked .readout")).to_contain_text("encoder")
    page.keyboard.press("Enter")
    expect(page.locator(".part.lit")).to_have_count(2)
    assert "path=encoder" in page.url


def test_other_units(page: Page) -> None:
    opened(page, f"{TWO}&per=sequence")
    energy = page.locator(".subject-energy strong").first
    before = energy.text_content() or ""
    page.get_by_role("button", name="run", exact=True).click()
    expect(energy).not_to_have_text(before)


def test_what_is_on_screen_can_be_taken_away(page: Page) -> None:
    opened(page)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as taken:
        page.get_by_role("menuitem", name="Table, CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(taken.value.path()).read_text())))
    assert {"bert-l2-h128 energy_j", "bert-l4-h128 difference_j"} <= set(rows[0])
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as taken:
        page.get_by_role("menuitem", name="Picture, SVG").click()
    assert "bert-l4-h128" in Path(taken.value.path()).read_text()
    page.get_by_role("button", name="Export").click()
    page.get_by_role("menuitem", name="Copy CLI command").click()
    command = "irene compare bert-l2-h128 bert-l4-h128 -b 2 -s 32"
    expect(page.locator(".toast")).to_contain_text(command)


def test_a_name_that_is_markup_stays_text(page: Page) -> None:
    page.goto("/compare?subject=%3Cimg%20src%3Dx%3E&subject=bert-l2-h128")
    expect(page.get_by_role("alert").first).to_contain_text("<img src=x>")
    assert page.locator("main img").count() == 0


def test_on_a_phone(new_page: Any) -> None:
    page = opened(new_page(viewport={"width": 390, "height": 844}))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_parts_of_other_names_are_linked_by_their_last(page: Page) -> None:
    opened(page, "/compare")
    expect(page.locator(".linked-one svg")).to_have_count(2)
    first = page.locator(".linked-one").first
    first.locator(".part").filter(has_text="attention").first.hover()
    expect(page.locator(".part.lit")).to_have_count(2)
    readout = page.locator(".linked .readout")
    expect(readout).to_contain_text("in transformer.layer.*.attention")
