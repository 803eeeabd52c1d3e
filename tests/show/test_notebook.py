"""What notebooks show: whole, small, without script, network or style sheet."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import irene
from irene.errors import MissingExtraError, UsageError
from irene.show.text import bar
from irene.tree import EnergyColumns, ModelTree, TreeBuilder

from ..made_up import HARDWARE, tree_of_own
from .test_html import NASTY, Page

LARGEST = 300_000
ALLOWED = {
    "b", "br", "code", "details", "div", "i", "li", "span", "summary", "table", "tbody",
    "td", "th", "thead", "tr", "ul",
}  # fmt: skip


def shown(thing: object) -> Page:
    """What a notebook would show, checked for what cleaned viewers leave standing."""
    text = thing._repr_html_()  # type: ignore[attr-defined]
    page = Page(text)
    assert {tag for tag, _ in page.elements} <= ALLOWED
    for _, attributes in page.elements:
        assert set(attributes) <= {"class", "style", "open"}
        assert "url" not in (attributes.get("style") or "")
    assert len(text.encode()) < LARGEST
    return page


def words(page: Page) -> str:
    return re.sub(r"\s+", " ", " ".join(page.texts))


def test_a_tree_shows_its_total_and_folded_layers_with_bars():
    text = words(shown(tree_of_own()))
    assert "Model: 10.0 J (9.00 – 11.0)" in text
    assert "predicted for pc1 (a desk) · covers wall · by made-up rates 1" in text
    assert "⚠ extrapolation: 3 is more than 2" in text
    assert re.search(r"layer\.0…1 ×2 Layer 8\.00 J 80\.0% ████████", text)
    assert re.search(r"\(own\) 2\.00 J 20\.0% ██", text)


def test_a_tree_opens_where_most_of_the_energy_is():
    page = shown(tree_of_own())
    details = [attributes for tag, attributes in page.elements if tag == "details"]
    assert ["open" in attributes for attributes in details] == [True, True]
    small = shown(irene.trace("bert-l2-h128", batch_size=2, seq_len=16))
    closed = [a for tag, a in small.elements if tag == "details" and "open" not in a]
    assert closed


def test_a_tree_without_energy_shows_flops():
    tree = irene.trace("bert-l2-h128", batch_size=2, seq_len=16)
    text = words(shown(tree))
    assert "bert-l2-h128: " in text
    assert "FLOP" in text
    assert "100.0%" in text
    assert "J per" not in text


def test_names_cannot_break_out():
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", NASTY)
    builder.add(model, NASTY, "ml", NASTY * 50, flops=3)
    tree = builder.build(notes=[f"warning: {NASTY}"])
    assert "alert(1)" in words(shown(tree))


@pytest.mark.parametrize("deep", [False, True])
def test_a_huge_tree_stays_small_and_says_so(deep):
    builder = TreeBuilder()
    above = builder.add(-1, "", "model", "Model")
    for i in range(3_000):
        name = f"{chr(97 + i % 26) * 90}{i}"
        made = builder.add(above, name, "module", "B" * 200)
        builder.add(made, "fc", "ml", "Linear", flops=i + 1)
        above = made if deep and i % 100 == 0 else above
    text = words(shown(builder.build()))
    assert "lines more than fit here: to_html() makes a page of them all" in text


def test_seventy_billion_parameters_fit():
    tree = irene.trace("llama-3.1-70b", batch_size=1, seq_len=8, dtype="bf16")
    assert tree.root.params > 70e9
    assert "×80" in words(shown(tree))


def test_unknown_energy_is_a_dash():
    tree = tree_of_own()
    joules = tree.energy.joules.copy()
    joules[-1] = np.nan
    source = np.zeros(len(tree), np.uint8)
    energy = EnergyColumns(joules, joules, joules, source, "a meter")
    assert "head Linear –" in words(shown(tree.with_energy(energy, HARDWARE)))


@pytest.mark.parametrize(
    ("share", "width"), [(0, 0), (0.04, 1), (0.5, 5), (1, 10), (7, 10), (-1, 0)]
)
def test_bars_are_as_long_as_their_share(share, width):
    assert len(bar(share)) == width
    assert bar(float("nan")) == ""


# Pictures ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["icicle", "annotated"])
def test_a_tree_draws_itself_with_its_numbers(tmp_path, kind):
    picture = tree_of_own().picture(kind)
    assert picture.title == "Model: 10.0 J (9.00 – 11.0)"
    drawn, table = picture.save(tmp_path / "tree.svg")
    text = drawn.read_text(encoding="utf-8")
    assert "layer.0…1 ×2" in text
    assert re.search(r"irene [\d.]+, \d{4}-\d\d-\d\d</text>", text)
    assert "0.8" in table.read_text(encoding="utf-8")


def test_an_annotated_tree_can_be_cut():
    names = [row[0] for row in tree_of_own().picture("annotated", depth=1).rows]
    assert names == ["Model", "layer.0…1 ×2", "view", "head"]


def test_a_kind_of_picture_that_there_is_not():
    with pytest.raises(UsageError, match="no picture 'cake'; there are icicle"):
        tree_of_own().picture("cake")


# Data frames ------------------------------------------------------------------


def test_without_pandas_the_message_names_the_line():
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "from tests.made_up import tree_of_own\n"
        "from irene.errors import MissingExtraError\n"
        "try:\n    tree_of_own().to_pandas()\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "pip install pandas" in done.stdout
    assert "irene-energy[pandas]" in done.stdout
    assert issubclass(MissingExtraError, irene.IreneError)


def test_a_data_frame_has_a_row_per_node():
    pytest.importorskip("pandas")
    tree = tree_of_own()
    frame = tree.to_pandas()
    assert len(frame) == len(tree)
    assert frame.loc[0, "energy_j"] == pytest.approx(10.0)
    primitives = frame[frame.kind == "ml"].set_index("path")
    assert primitives.loc["head", "op"] == "Linear"
    assert primitives.loc["head", "share"] == pytest.approx(0.19)
    # Own energies of all rows are the whole, which is what a reader would sum.
    assert (frame.own_j * frame.instances).sum() == pytest.approx(10.0)
    assert (frame.source == "predicted").all()


def test_a_data_frame_of_a_folded_traced_tree_counts_instances():
    pytest.importorskip("pandas")
    tree: ModelTree = irene.trace("bert-l2-h128", batch_size=2, seq_len=16).fold()
    frame = tree.to_pandas()
    assert frame.instances.sum() == tree.node_count
    assert "energy_j" not in frame
    assert frame.loc[0, "outputs"]


def test_answers_show_their_pictures():
    size = {"batch_size": 2, "seq_len": 16}
    answers = {
        "bert-l2-h128: where": irene.bottlenecks("bert-l2-h128", **size),
        "bert-l2-h128 for pc1": irene.what_if(
            "bert-l2-h128", {"seq_len": [16, 32]}, batch_size=2, on="pc1"
        ),
        "Models for pc1: batch 2": irene.leaderboard(
            search="bert-l2", on="pc1", **size
        ),
        "SST-2 accuracy against energy: batch 2": irene.trade_off(on="pc1", **size),
        "Servings of llama-3.1-8b": irene.serve_plan("llama-3.1-8b", on="h100"),
    }
    for title, answer in answers.items():
        assert f"<title>{title}" in answer._repr_svg_()
