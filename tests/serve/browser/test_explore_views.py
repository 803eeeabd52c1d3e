"""Table, icicle and node-link tree: three linked views of one tree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Locator, Page, expect

BERT = "/?model=bert-base-uncased&batch_size=2&seq_len=32"
ATTENTION = "encoder.layer.0.attention"


def table_row(page: Page, path: str) -> Locator:
    return page.locator(f'.treegrid-row[data-path="{path}"]')


def box(page: Page, path: str) -> Locator:
    return page.locator(f'.node-link [role=treeitem][data-path="{path}"]')


def details(page: Page) -> Locator:
    return page.get_by_role("region", name="Details of a part")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_hover_shows_and_a_click_pins(page: Page) -> None:
    page.goto(BERT)
    table_row(page, ATTENTION).hover()
    expect(details(page)).to_contain_text("encoder.layer.*.attention")
    expect(details(page)).to_contain_text("click to pin")
    table_row(page, ATTENTION).locator(".node-name").click()
    page.mouse.move(5, 5)
    panel = details(page)
    expect(panel).to_contain_text("encoder.layer.*.attention")
    for words in (
        "predicted",
        "±",
        "of the total",
        "of its parent",
        "interval",
        "GFLOP",
        "J/GFLOP",
        "bytes read",
        "2×32×768",
    ):
        expect(panel).to_contain_text(words)
    assert f"path={ATTENTION}" in page.url
    table_row(page, "embeddings").hover()
    expect(panel).to_contain_text("embeddings")
    expect(page.locator(".tip")).to_contain_text("embeddings")
    page.mouse.move(5, 5)
    expect(panel).to_contain_text("encoder.layer.*.attention")
    page.get_by_role("button", name="Unpin").click()
    expect(panel).not_to_contain_text("attention")


def test_a_pin_is_seen_in_all_three_views(page: Page) -> None:
    page.goto(f"{BERT}&path={ATTENTION}")
    expect(table_row(page, ATTENTION)).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="Tree", exact=True).click()
    expect(box(page, ATTENTION)).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="Icicle").click()
    chart = page.get_by_role("group", name=re.compile("Icicle of the model"))
    expect(chart.get_by_role("status")).to_contain_text("encoder.layer.*.attention")
    expect(details(page)).to_contain_text("encoder.layer.*.attention")


def test_equal_layers_unfold_on_click_and_fold_again(page: Page) -> None:
    page.goto(BERT)
    table_row(page, "encoder.layer.0").get_by_role(
        "button", name="12 equal ones, unfold"
    ).click()
    expect(table_row(page, "encoder.layer.0")).to_be_visible()
    expect(table_row(page, "encoder.layer.0")).not_to_contain_text("×12")
    grid = page.get_by_role("treegrid")
    rows = int(grid.get_attribute("aria-rowcount") or 0)
    page.get_by_role("button", name="Unfold layers").click()
    expect(table_row(page, "encoder.layer.0")).to_contain_text("×12")
    assert int(grid.get_attribute("aria-rowcount") or 0) < rows
    page.get_by_role("button", name="Unfold layers").click()
    page.get_by_role("button", name="Expand all").click()
    table_row(page, "encoder").focus()
    page.keyboard.press("End")
    page.keyboard.press("Home")
    expect(page.locator(".below-view")).not_to_contain_text("folded")


def test_the_table_by_keyboard(page: Page) -> None:
    page.goto(f"{BERT}&depth=1")
    root = page.locator(".treegrid-row").first
    root.focus()
    press(page, "ArrowDown", "ArrowDown")
    expect(table_row(page, "encoder")).to_be_focused()
    press(page, "ArrowRight")
    expect(table_row(page, "encoder")).to_have_attribute("aria-expanded", "true")
    press(page, "ArrowRight")
    expect(table_row(page, "encoder.layer.0")).to_be_focused()
    press(page, "x")
    expect(table_row(page, "encoder.layer.11")).to_be_visible()
    press(page, "ArrowDown", "Enter")
    expect(details(page)).to_contain_text("encoder.layer.1")
    press(page, "x")
    expect(table_row(page, "encoder.layer.11")).to_have_count(0)
    press(page, "End")
    expect(table_row(page, "pooler")).to_be_focused()
    press(page, "Home", "e", "e")
    expect(table_row(page, "encoder")).to_be_focused()
    press(page, "ArrowLeft")
    expect(table_row(page, "encoder")).to_have_attribute("aria-expanded", "false")
    press(page, "ArrowLeft")
    expect(root).to_be_focused()


def test_the_table_is_virtual(page: Page) -> None:
    page.goto("/?model=llama-2-70b&batch_size=1&seq_len=32&unfold=1&depth=all")
    grid = page.get_by_role("treegrid")
    expect(grid).to_be_visible()
    assert int(grid.get_attribute("aria-rowcount") or 0) > 1500
    assert page.locator(".treegrid-row").count() < 120
    page.locator(".treegrid-row").first.focus()
    page.keyboard.press("End")
    expect(table_row(page, "lm_head")).to_be_focused()
    expect(table_row(page, "lm_head")).to_be_in_viewport()


def icicle_place(page: Page, words: str) -> dict[str, float]:
    """Where in the middle of the icicle a part is, px of the canvas."""
    size = page.locator(".canvas-wrap canvas").bounding_box()
    assert size is not None
    for y in range(8, int(size["height"]), 16):
        page.mouse.move(size["x"] + size["width"] / 2, size["y"] + y)
        tip = page.locator(".tip")
        expect(tip).to_be_visible()
        if words in tip.inner_text():
            return {"x": size["width"] / 2, "y": y}
    raise AssertionError(f"no {words} in the middle of the icicle")


def test_the_icicle_by_mouse_and_keyboard(page: Page) -> None:
    page.goto(f"{BERT}&view=icicle")
    canvas = page.locator(".canvas-wrap canvas")
    place = icicle_place(page, "BertEncoder")
    canvas.click(position=place)
    expect(details(page)).to_contain_text("BertEncoder")
    canvas.dblclick(position=place)
    expect(page.get_by_role("navigation", name="Above this part")).to_be_visible()
    assert "root=encoder" in page.url
    chart = page.get_by_role("group", name=re.compile("Icicle of the model"))
    chart.focus()
    press(page, "Home", "ArrowDown", "ArrowDown")
    expect(chart.get_by_role("status")).to_contain_text("encoder.layer.*.")
    press(page, "Home", "Enter")
    expect(page.get_by_role("navigation", name="Above this part")).to_have_count(0)


def test_the_icicle_uses_the_room_there_is(new_page: Callable[..., Any]) -> None:
    heights = []
    for height in (700, 1200):
        page = new_page(viewport={"width": 1440, "height": height})
        page.goto(f"{BERT}&view=icicle")
        size = page.locator(".canvas-wrap canvas").bounding_box()
        assert size is not None
        heights.append(size["height"])
    assert heights[0] < heights[1]


def test_the_tree_opens_and_closes(page: Page) -> None:
    page.goto(f"{BERT}&view=tree&depth=1")
    boxes = page.locator(".node-link [role=treeitem]")
    expect(box(page, "encoder")).to_have_attribute("aria-expanded", "false")
    box(page, "encoder").click()
    expect(box(page, "encoder.layer.0")).to_be_visible()
    expect(box(page, "encoder.layer.0")).to_contain_text("×12")
    page.get_by_role("button", name="Collapse to the root").click()
    expect(boxes).to_have_count(1)
    page.go_back()
    expect(box(page, "encoder")).to_have_attribute("aria-expanded", "false")
    boxes.first.focus()
    press(page, "ArrowDown", "ArrowDown")
    expect(box(page, "encoder")).to_be_focused()
    press(page, "ArrowRight", "ArrowRight")
    expect(box(page, "encoder.layer.0")).to_be_focused()
    press(page, "ArrowLeft")
    expect(box(page, "encoder")).to_be_focused()
    press(page, "Enter")
    expect(page.get_by_role("navigation", name="Above this part")).to_be_visible()
    expect(boxes.first).to_contain_text("encoder")


WHOLE = """() => {
  const frame = document.querySelector(".node-link");
  return frame.scrollWidth <= frame.clientWidth &&
    frame.scrollHeight <= frame.clientHeight;
}"""


@pytest.mark.parametrize("width", [390, 1440])
def test_fit_shows_the_whole_tree(new_page: Any, width: int) -> None:
    page = new_page(viewport={"width": width, "height": 844})
    page.goto(f"{BERT}&view=tree")
    page.get_by_role("button", name="Unfold layers").click()
    page.get_by_role("button", name="Expand all").click()
    page.wait_for_function(f"() => !({WHOLE})()")
    page.get_by_role("button", name="Fit").click()
    page.wait_for_function(WHOLE)
    page.get_by_role("button", name="Smaller").click()
    page.wait_for_function(WHOLE)


@pytest.mark.parametrize("view", ["table", "tree"])
def test_expand_all_opens_everything(page: Page, view: str) -> None:
    page.goto(f"{BERT}&view={view}&depth=all")
    root = page.locator("[role=treeitem], .treegrid-row").first
    root.focus()
    press(page, "ArrowLeft")
    expect(root).to_have_attribute("aria-expanded", "false")
    page.get_by_role("button", name="Expand all").click()
    expect(page.locator(".below-view")).not_to_contain_text("folded")
    expect(root).to_have_attribute("aria-expanded", "true")
    root.focus()
    # Row by row, through what is folded together and what is small: nothing is closed.
    for _ in range(45):
        press(page, "ArrowDown")
        here = page.locator(":focus")
        expect(here).not_to_have_attribute("aria-expanded", "false")
    expect(here).to_have_attribute("data-path", re.compile(r"^encoder\.layer\.\d"))
    press(page, "End")
    expect(page.locator(":focus")).to_have_attribute("data-path", re.compile("pooler"))
    page.go_back()
    expect(page.locator(".below-view")).to_contain_text("folded")


def test_colour_is_the_share_of_energy(page: Page) -> None:
    page.goto(f"{BERT}&view=tree&depth=1")
    fill = "e => getComputedStyle(e.querySelector('rect')).fill"
    much = box(page, "encoder").evaluate(fill)
    little = box(page, "pooler").evaluate(fill)
    luminance = [sum(map(int, re.findall(r"\d+", each)[:3])) for each in (much, little)]
    assert luminance[0] < luminance[1]
    page.get_by_label("Share", exact=True).select_option("log")
    assert box(page, "pooler").evaluate(fill) != little


def test_search_says_how_much_the_matches_carry(page: Page) -> None:
    page.goto(BERT)
    page.get_by_role("searchbox", name="Search parts").fill("query")
    found = page.locator(".found")
    expect(found).to_contain_text(re.compile(r"12 matches = \d+(\.\d+)?\s%"))
    expect(table_row(page, f"{ATTENTION}.self.query")).to_be_visible()
    expect(table_row(page, "pooler")).to_have_count(0)
    page.get_by_role("searchbox", name="Search parts").fill("no such part")
    expect(found).to_contain_text("0 matches")


def test_top_90_percent_depth_threshold_and_share(page: Page) -> None:
    page.goto(BERT)
    page.get_by_role("button", name="Top 90 %").click()
    expect(page.locator(".found")).to_contain_text(re.compile(r"\d+ of \d+ leaves"))
    expect(table_row(page, "pooler")).to_have_count(0)
    page.get_by_role("button", name="Top 90 %").click()
    page.get_by_label("Depth").select_option("1")
    expect(page.locator(".treegrid-row")).to_have_count(4)
    page.get_by_label("Parts", exact=True).select_option("0.05")
    expect(page.locator(".treegrid-row")).to_have_count(2)
    page.get_by_label("Parts", exact=True).select_option("")
    page.get_by_label("Depth").select_option("2")
    layer = table_row(page, "encoder.layer.0")
    page.get_by_label("Share", exact=True).select_option("parent")
    expect(layer).to_contain_text(re.compile(r"(99\.\d|100)\s%"))
    header = page.get_by_role("columnheader", name="Of parent")
    expect(header).to_be_visible()


def test_the_list_by_node_class_and_primitive(page: Page) -> None:
    page.goto(BERT)
    parts = page.get_by_role("region", name="Where it goes, largest first")
    items = parts.get_by_role("listitem")
    expect(items.first).to_contain_text("encoder")
    shares = [
        float(re.findall(r"([\d.]+)\s%", text)[0]) for text in items.all_inner_texts()
    ]
    assert shares == sorted(shares, reverse=True)
    parts.get_by_role("button", name="Primitive").click()
    expect(items.first).to_contain_text("Linear")
    parts.get_by_role("button", name="Module class").click()
    expect(parts).to_contain_text("BertLayer")
    expect(parts).to_contain_text("their shares overlap")
    parts.get_by_role("button", name="Node", exact=True).click()
    items.nth(2).get_by_role("button").click()
    expect(details(page).get_by_role("button", name="Unpin")).to_be_visible()


def measured_tree(document: dict[str, Any]) -> dict[str, Any]:
    """The same tree as if a meter had been read."""

    def mark(node: dict[str, Any]) -> None:
        node["source"] = "measured"
        node["features"] = {"cpu_utilisation": 0.5, "gpu_power_w": 181.25}
        for child in node["children"]:
            mark(child)

    mark(document["tree"])
    return {**document, "source": "measured", "produced_by": "a made-up meter"}


def test_a_measured_tree_shows_its_features(page: Page) -> None:
    answer = page.request.get(
        "/api/v1/energy?model=bert-l2-h128&batch_size=1&seq_len=16"
    )
    body = json.dumps(measured_tree(answer.json()))
    headers = {"Content-Type": "application/json"}
    made = page.request.post("/api/v1/uploads", data=body, headers=headers)
    assert made.ok, made.text()
    page.goto(f"/?upload={made.json()['id']}")
    expect(page.locator(".lead")).to_contain_text("measured")
    table_row(page, "encoder").locator(".node-name").click()
    expect(details(page)).to_contain_text("gpu power")
    expect(details(page)).to_contain_text(re.compile(r"181\sW"))
    expect(details(page)).to_contain_text("cpu utilisation")
    expect(details(page)).to_contain_text(re.compile(r"50\s%"))
    expect(details(page).get_by_role("heading", name="Also measured")).to_be_visible()


def test_what_a_machine_predicts_beside_energy_is_in_words(page: Page) -> None:
    page.goto(f"{BERT}&hardware=h100")
    expect(details(page)).to_contain_text("Also predicted")
    expect(details(page)).to_contain_text("time, give or take")
    expect(details(page)).not_to_contain_text("_")


def test_an_answer_is_kept_under_its_link(
    page: Page, new_page: Callable[..., Any]
) -> None:
    answer = page.request.get(
        "/api/v1/energy?model=bert-l2-h128&batch_size=3&seq_len=16"
    )
    key = answer.headers["content-location"].rsplit("/", 1)[1]
    page.goto(f"/?answer={key}")
    expect(page.locator(".lead")).to_contain_text("bert-l2-h128, 3 × 16 tokens")
