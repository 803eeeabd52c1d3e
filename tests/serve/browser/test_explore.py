"""The first page: choose a run, read its energy, share what is on screen."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect

SMALL = "/?model=bert-l2-h128&batch_size=2&seq_len=32"


def query_of(page: Page) -> dict[str, str]:
    return {k: v[0] for k, v in parse_qs(urlsplit(page.url).query).items()}


def total_j(page: Page) -> float:
    """Energy in the headline, J."""
    text = page.locator(".lead .energy").inner_text().replace("\u00a0", " ")
    number, unit = text.split(" ")
    return float(number) * {"kJ": 1e3, "J": 1.0, "mJ": 1e-3, "µJ": 1e-6}[unit]


def choose(page: Page, words: str, name: str) -> None:
    page.get_by_role("combobox", name="Model").click()
    page.keyboard.type(words)
    page.get_by_role("option", name=name).first.click()


def test_the_first_page_shows_a_result_at_once(page: Page) -> None:
    page.goto("/")
    lead = page.get_by_role("heading", level=1)
    expect(lead).to_contain_text("bert-base-uncased, 8 × 128 tokens on pc1")
    expect(lead).to_contain_text("predicted")
    expect(lead).to_contain_text(re.compile(r"[\d.]+\s*J ±"))
    expect(page.locator(".lead-where")).to_contain_text("in the 12 equal layers")
    expect(page.get_by_role("treegrid").get_by_role("row")).not_to_have_count(0)
    expect(page.get_by_role("treegrid")).to_contain_text("×12")


def test_a_model_is_found_by_words_and_chosen(page: Page) -> None:
    page.goto(SMALL)
    expect(page.locator(".lead")).to_contain_text("bert-l2-h128")
    choose(page, "l4 h128", "bert-l4-h128")
    expect(page.locator(".lead")).to_contain_text("bert-l4-h128")
    assert query_of(page)["model"] == "bert-l4-h128"
    page.go_back()
    expect(page.locator(".lead")).to_contain_text("bert-l2-h128")
    page.go_forward()
    expect(page.locator(".lead")).to_contain_text("bert-l4-h128")


def test_the_list_of_models_lies_above_the_page(page: Page) -> None:
    page.goto(SMALL)
    expect(page.get_by_role("treegrid")).to_be_visible()
    page.get_by_role("combobox", name="Model").click()
    box = page.get_by_role("listbox").bounding_box()
    assert box
    corner = [box["x"] + box["width"] - 20, box["y"] + box["height"] - 8]
    above = "([x, y]) => !!document.elementFromPoint(x, y).closest('[role=listbox]')"
    assert page.evaluate(above, corner)


def test_a_model_is_chosen_by_keyboard_alone(page: Page) -> None:
    page.goto(SMALL)
    box = page.get_by_role("combobox", name="Model")
    box.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("l4-h128")
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("bert-l4-h128")


def test_the_tree_answers_while_sliding(page: Page) -> None:
    page.goto(SMALL)
    expect(page.locator(".lead .energy")).to_be_visible()
    before = total_j(page)
    slider = page.get_by_role("slider", name="Batch size, slider")
    slider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".lead")).to_contain_text("8 × 32 tokens")
    assert total_j(page) > before
    expect(page.get_by_role("treegrid")).to_be_visible()
    assert query_of(page)["model"] == "bert-l2-h128"
    assert query_of(page).get("batch_size", "8") == "8"
    page.get_by_label("Sequence length", exact=True).fill("64")
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("8 × 64 tokens")


def test_number_format_attention_phase_and_hardware(page: Page) -> None:
    page.goto(SMALL)
    page.get_by_label("Number format").select_option("fp16")
    expect(page.locator(".figures")).to_contain_text("fp16")
    page.get_by_label("Attention", exact=True).select_option("sdpa")
    expect(page.locator(".figures")).to_contain_text("sdpa attention")
    page.get_by_label("Phase", exact=True).select_option("train")
    expect(page.locator(".figures")).to_contain_text("train")
    expect(page.get_by_label("Hardware", exact=True)).to_have_value("default")
    wanted = {"dtype": "fp16", "attention": "sdpa", "phase": "train"}
    assert wanted.items() <= query_of(page).items()


def test_other_settings_come_from_the_server(page: Page) -> None:
    page.goto("/?model=t5-small&batch_size=1&seq_len=16")
    expect(page.locator(".lead .energy")).to_be_visible()
    page.get_by_text("More settings").click()
    page.get_by_label("Decoder len").fill("4")
    page.keyboard.press("Enter")
    expect(page.locator(".figures")).to_contain_text("decoder length 4")
    assert query_of(page)["decoder_len"] == "4"


def test_a_wrong_size_says_what_to_do_and_keeps_the_picture(page: Page) -> None:
    page.goto(SMALL)
    expect(page.locator(".lead .energy")).to_be_visible()
    page.get_by_label("Sequence length", exact=True).fill("100000000")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"\w{3,}"))
    expect(page.locator(".lead .energy")).to_be_visible()


def test_an_unknown_model_is_named_as_text(page: Page) -> None:
    page.goto("/?model=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    expect(page.get_by_role("alert")).to_contain_text("<img src=x")
    expect(page.locator("main img")).to_have_count(0)


def test_the_address_holds_the_state(page: Page, new_page: Callable[..., Any]) -> None:
    page.goto(SMALL)
    page.get_by_role("button", name="Icicle").click()
    page.get_by_role("searchbox", name="Search parts").fill("attention")
    page.get_by_label("Parts", exact=True).select_option("0.01")
    page.get_by_label("Share", exact=True).select_option("log")
    page.get_by_role("button", name="Primitive").click()
    wanted = {
        "view": "icicle",
        "search": "attention",
        "min_share": "0.01",
        "metric": "log",
        "by": "primitive",
    }
    assert wanted.items() <= query_of(page).items()
    again = new_page()
    again.goto(page.url)
    icicle = again.get_by_role("button", name="Icicle")
    expect(icicle).to_have_attribute("aria-pressed", "true")
    box = again.get_by_role("searchbox", name="Search parts")
    expect(box).to_have_value("attention")
    expect(again.get_by_label("Share", exact=True)).to_have_value("log")
    primitive = again.get_by_role("button", name="Primitive")
    expect(primitive).to_have_attribute("aria-pressed", "true")
    page.go_back()
    node = page.get_by_role("button", name="Node", exact=True)
    expect(node).to_have_attribute("aria-pressed", "true")


def exported(page: Page, item: str) -> bytes:
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name=item).click()
    return Path(waiting.value.path()).read_bytes()


def test_export_of_pictures_table_and_document(page: Page) -> None:
    page.goto(SMALL)
    expect(page.locator(".lead .energy")).to_be_visible()
    document = json.loads(exported(page, "Document, JSON"))
    assert document["schema"] == "irene.tree/1"
    rows = list(csv.DictReader(io.StringIO(exported(page, "Table, CSV").decode())))
    assert float(rows[0]["energy_j"]) == document["energy_j"]
    assert {"path", "op", "share", "flops"} <= rows[0].keys()
    assert b"bert-l2-h128" in exported(page, "Picture, SVG")
    assert exported(page, "Picture, PNG").startswith(b"\x89PNG")
    page.get_by_role("button", name="Tree", exact=True).click()
    assert b"encoder" in exported(page, "Picture, SVG")


def test_the_api_call_and_the_command_can_be_copied(
    new_page: Callable[..., Any], server_url: str
) -> None:
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(SMALL)
    expect(page.locator(".lead .energy")).to_be_visible()
    page.get_by_role("button", name="Export").click()
    page.get_by_role("menuitem", name="Copy API call").click()
    call = page.evaluate("navigator.clipboard.readText()")
    address = re.fullmatch(r"curl '(.+)'", call)
    assert address is not None
    assert address[1].startswith(f"{server_url}/api/v1/energy?model=bert-l2-h128")
    answer = page.request.get(address[1])
    assert answer.json()["spec"]["seq_len"] == 32
    page.get_by_role("button", name="Export").click()
    page.get_by_role("menuitem", name="Copy CLI command").click()
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == "irene predict bert-l2-h128 -b 2 -s 32"


def test_light_dark_and_system(new_page: Callable[..., Any]) -> None:
    page = new_page(color_scheme="dark")
    page.goto("/help")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Theme: auto").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.evaluate(background) != dark
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.get_by_role("button", name="Theme: light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(background) == dark


def test_phone_width_needs_no_sideways_scroll(new_page: Callable[..., Any]) -> None:
    page = new_page(viewport={"width": 360, "height": 740}, has_touch=True)
    page.goto(SMALL)
    expect(page.locator(".lead .energy")).to_be_visible()
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for view in ("Table", "Icicle", "Tree"):
        page.get_by_role("button", name=view, exact=True).click()
        assert page.evaluate(wide) <= 0
    page.get_by_text("Change model, sizes and hardware").click()
    expect(page.get_by_role("combobox", name="Model")).to_be_visible()
    assert page.evaluate(wide) <= 0


def test_question_mark_opens_the_keys(page: Page) -> None:
    page.goto(SMALL)
    expect(page.locator(".lead .energy")).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    expect(dialog).to_contain_text("Tree table")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search parts")).to_be_focused()


def test_method_and_provenance_are_one_click_away(page: Page) -> None:
    page.goto(SMALL)
    page.locator(".figures").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("figures come from")
    expect(page.locator("main")).to_contain_text("GTX 1080 Ti")
    expect(page.locator("main")).to_contain_text("a family it never saw")
    page.go_back()
    expect(page.locator(".lead")).to_contain_text("bert-l2-h128")


def test_pages_are_reached_by_keys(page: Page) -> None:
    page.goto("/help")
    expect(page.get_by_role("heading", level=1)).to_have_text("Help")
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page.locator(".lead")).to_contain_text("bert-base-uncased")


def test_curves_under_the_sliders_tell_sizes_and_take_them(page: Any) -> None:
    page.goto(SMALL)
    curve = page.get_by_role("img", name=re.compile("^Energy per sequence by batch"))
    expect(curve).to_be_visible()
    other = page.get_by_role("img", name=re.compile("by sequence length"))
    expect(other).to_have_count(0)
    page.get_by_role("button", name="energy by sequence length").click()
    expect(other).to_be_visible()
    words = page.locator(".size-curve .hint").first
    expect(words).to_contain_text("per sequence")
    curve.hover()
    expect(words).to_have_text(re.compile(r"^\d+: .*J ±"))
    curve.click()
    expect(page).not_to_have_url(re.compile("batch_size=2&"))
    size = page.get_by_role("spinbutton", name="Batch size").input_value()
    expect(words).to_have_text(re.compile(rf"^{size}: "))
    page.go_back()
    expect(page).to_have_url(re.compile("batch_size=2&"))


def test_curves_say_what_they_are_of_and_where_memory_ends(page: Any) -> None:
    words = page.locator(".size-curve .hint").first
    page.goto("/?model=resnet-18")
    expect(words).to_contain_text("per input")
    page.goto("/?model=llama-3.1-8b&on=h100&prompt_len=2000&output_len=500")
    expect(words).to_contain_text("fits below")
