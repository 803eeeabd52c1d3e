from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

import irene
from irene.tree import ModelTree, TreeBuilder

from ..made_up import tree_of_own, with_made_up_energy
from ..tree.test_model_tree import small_tree

VOID = {"meta", "input", "br", "link", "img", "hr"}
LOADS = ("src", "href", "srcset", "data", "action", "poster", "background", "style")
NASTY = '</script><script>alert(1)</script><b title="x">\' & \ud800'


class Page(HTMLParser):
    """Elements of a page, checked for being closed in the right order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def rows(self) -> list[dict[str, str | None]]:
        return [a for tag, a in self.elements if tag == "tr" and "data-share" in a]


@pytest.fixture(scope="module")
def bert() -> ModelTree:
    return irene.trace("bert-base-uncased", batch_size=8, seq_len=128)


@pytest.fixture(scope="module")
def page(bert) -> str:
    return with_made_up_energy(bert, ("extrapolation: made up",)).to_html()


def test_the_page_is_whole_and_small(page):
    assert page.startswith("<!DOCTYPE html>")
    Page(page)
    assert len(page.encode()) < 300_000


def test_the_totals_are_on_the_page(page, bert):
    text = " ".join(Page(page).texts)
    assert "5.61 J (5.44 – 5.72)" in text
    assert "701.0 mJ per sequence" in text.replace("  ", " ")
    assert "predicted for pc1 (a desk) · covers wall · by made-up rates 1" in text
    assert "179.2 GFLOP" in text
    assert "extrapolation: made up" in text
    assert bert.spec.digest in text


def test_rows_at_the_top_add_up_and_layers_are_folded(page):
    rows = Page(page).rows()
    shares = [float(r["data-share"]) for r in rows if r["data-depth"] == "1"]
    assert sum(shares) == pytest.approx(1, abs=0.01)
    (layer,) = (r for r in rows if r["data-path"] == "encoder.layer.0…11")
    assert layer["data-times"] == "12"
    query = next(r for r in rows if r["data-path"].endswith("self.query"))
    for fact in ("8×128×768 → 8×128×768 fp32", "1.21 GFLOP", "590.6 k parameters"):
        assert fact in query["title"]
    assert re.search(r"30\.\d mJ \(.* – .*\), predicted", query["title"])


def test_nothing_is_loaded_from_anywhere(page):
    for tag, attributes in Page(page).elements:
        assert tag not in ("link", "iframe", "object", "embed", "img", "base")
        assert not set(LOADS) & set(attributes), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert "@import" not in page
    assert "url(" not in page
    assert "fetch(" not in page
    assert "XMLHttpRequest" not in page


def test_the_policy_allows_this_style_and_script_alone(page):
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_names_are_text_and_nothing_else():
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", NASTY, params=1)
    for i in range(2):
        layer = builder.add(model, f"{NASTY}.{i}", "module", NASTY)
        builder.add(layer, NASTY, "ml", NASTY, flops=5, params=3)
    tree = builder.build(
        notes=(NASTY,), unsupported={NASTY: 1}, provenance={NASTY: NASTY}
    )
    text = with_made_up_energy(tree).to_html(title=NASTY)
    page = Page(text)
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 1
    assert "alert(1)</script>" not in text
    assert not any(a.get("title") == "x" for _, a in page.elements)
    text.encode("utf-8")


def test_without_energy_shares_are_of_flops(bert):
    text = bert.to_html()
    assert "Where the FLOPs are" in text
    assert "carries no energy" in text
    rows = Page(text).rows()
    assert sum(
        float(r["data-share"]) for r in rows if r["data-depth"] == "1"
    ) == pytest.approx(1, abs=0.001)


def test_the_title_can_be_given():
    assert "<h1>My &amp; model</h1>" in small_tree().to_html(title="My & model")
    assert "<h1>Model</h1>" in small_tree().to_html()


def test_own_energy_has_a_row_and_the_rest_is_labelled():
    text = tree_of_own().to_html()
    page = Page(text)
    own = [r for r in page.rows() if r.get("class") == "rest"]
    assert [float(r["data-share"]) for r in own] == [pytest.approx(0.2)]
    assert "(own)" in page.texts


def test_nodes_with_children_are_buttons_and_the_others_can_be_reached():
    page = Page(tree_of_own().to_html())
    in_tree = [a for tag, a in page.elements if tag == "button" and "class" in a]
    assert [a["class"] for a in in_tree] == ["model", "module"]
    leaves = [a for tag, a in page.elements if "leaf" in (a.get("class") or "")]
    assert len(leaves) == 3
    assert all(a["tabindex"] == "0" for a in leaves)


def test_a_tree_of_one_node_and_no_cost_is_a_page():
    builder = TreeBuilder()
    builder.add(-1, "", "model", "Nothing")
    for tree in (builder.build(), with_made_up_energy(builder.build())):
        Page(tree.to_html())


def test_a_large_tree_is_cut_higher_up(monkeypatch):
    monkeypatch.setattr("irene.show.page.tree_page.MOST_ROWS", 3)
    text = small_tree().to_html()
    assert "shown down to module" in text
    assert len(Page(text).rows()) == 2


def test_what_rounding_leaves_is_no_operator():
    tree = irene.predict(
        "llama-3.1-8b", on="b200", batch_size=64, prompt_len=750, output_len=500
    )
    operators = tree.to_html().partition("<h2>By operator</h2>")[2]
    names = re.findall(r'<th scope="row">(.*?)</th>', operators)
    assert names[0] == "linear"
    assert "(own)" not in names
