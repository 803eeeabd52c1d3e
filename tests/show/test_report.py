"""The report: everything on one page, in a real browser, and what is not there."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from irene.analyse.costs import CostTerms
from irene.analyse.pareto import published_accuracies
from irene.analyse.subject import Subject, subject_of_tree, tree_of
from irene.cli import main
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.human import human_energy
from irene.show import report as contents
from irene.show.report import PARTS, Report, make_report, report_html
from irene.spec import RunSpec
from irene.tree import EnergyColumns

from ..made_up import tree_of_own
from ..real_browser import browse, needs_browser
from ..tree.test_model_tree import small_tree
from .test_html import LOADS, NASTY, Page

FEW = ("bert-l2-h128", "bert-l4-h256", "bert-l4-h512")
RUN = {"batch_size": 4, "seq_len": 32}


@pytest.fixture(scope="module")
def report() -> Report:
    """A whole report of a small model; of the published scores only three."""
    rows = tuple(row for row in published_accuracies() if row.model in FEW)
    base = Subject(RunSpec("bert-l4-h256", **RUN))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "published_accuracies", lambda: rows)
        patch.setattr(contents, "BATCHES", (1, 8))
        patch.setattr(contents, "LENGTHS", (64, 1024))
        return make_report(
            tree_of(base), base, cost=CostTerms(price_per_kwh=0.3, region="DE")
        )


@pytest.fixture(scope="module")
def text(report: Report) -> str:
    return report_html(report)


def words(text: str) -> str:
    return re.sub(r"\s+", " ", " ".join(Page(text).texts))


def test_nothing_is_left_out_of_a_model_s_report(report):
    assert report.left_out == {}
    assert {next(iter(found.choices)) for found in report.sizes} == {
        "batch_size", "seq_len",
    }  # fmt: skip


def test_the_parts_are_on_the_page_and_linked(text):
    page = Page(text)
    targets = [a["href"] for tag, a in page.elements if tag == "a"]
    assert targets == [
        "#icicle", "#bottlenecks", "#nodes", "#sizes", "#trade-off", "#suggestions",
        "#method",
    ]  # fmt: skip
    names = [a["id"] for _, a in page.elements if "id" in a]
    assert len(names) == len(set(names))
    assert {target[1:] for target in targets} <= set(names)


def test_the_numbers_are_those_of_the_answers(report, text):
    said = words(text)
    energy = report.tree.energy_of(0)
    assert human_energy(energy.joules) in said
    million = next(line for line in report.costing.lines if line.queries == 1e6)
    assert million.kwh == pytest.approx(energy.joules / 4 / 3.6)
    assert f"{million.money:.3g} (" in said
    assert "Germany, mean of 2024" in said
    for row in report.bottlenecks.top(0.9):
        assert f"{row.name} {human_energy(row.energy_j)} {row.share:.1%}" in said
    for each in report.advice.suggestions:
        assert f"−{each.share:.0%} {each.title} : saves" in said


def test_size_curves_have_their_numbers_and_say_what_cannot_be(report, text):
    said = words(text)
    for found in report.sizes:
        for row in found.rows:
            if row.energy:
                value = f"{row.energy.joules / row.batch_size:.6g}"
                assert value in said
    assert "Not possible with this model: 1,024." in said


def test_the_model_is_marked_in_the_trade_off(report, text):
    said = words(text)
    assert "this model" in said
    (here,) = [c for c in report.trade_off.candidates if c.model == "bert-l4-h256"]
    place = "is on the Pareto front" if here.on_front else "beaten by"
    assert f"bert-l4-h256 {place}" in said
    assert "google-research/bert" in said


def test_method_names_data_and_errors(report, text):
    said = words(text)
    errors = report.predictor.provenance["held_out_errors_percent"]["family"]
    assert "IrEne 2021, device 1" in said
    assert f"each family of models {errors['ml']:.2f} %" in said
    assert report.predictor.hardware.predictor in said
    assert "extrapolation: " in said


def test_headings_are_in_order_and_pictures_told(text):
    page = Page(text)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    for picture in re.findall(r'<svg [^>]*role="img".*?</svg>', text, re.DOTALL):
        assert "<title>" in picture or "aria-label=" in picture
    assert '<html lang="en">' in text


def test_the_page_loads_nothing(text):
    page = Page(text)
    for tag, attributes in page.elements:
        for name in set(LOADS) & set(attributes) - {"style"}:
            assert (attributes[name] or "").startswith("#"), (tag, name)
    assert "default-src 'none'" in text
    assert "url(" not in text
    assert "@import" not in text
    assert len(text.encode()) < 400_000


def test_a_title_cannot_break_out(report):
    text = report_html(report, NASTY)
    page = Page(text)
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert "alert(1)" in " ".join(page.texts)


def test_paper_is_light_and_has_no_links(text):
    style = text.partition("<style>")[2].partition("</style>")[0]
    printed = style.rpartition("@media print")[2]
    assert "nav, details:not([open]) { display: none; }" in printed
    for rule in re.findall(r"@media[^{]*dark[^{]*\{", text):
        assert "screen" in rule


# Trees alone ------------------------------------------------------------------


def test_a_tree_alone_has_what_needs_no_predictor():
    found = make_report(tree_of_own())
    assert set(found.left_out) == {"sizes", "trade-off", "suggestions"}
    said = words(report_html(found))
    assert "Not in this report" in said
    assert "trade-off: this report is of a saved tree" in said
    assert "layer.*" in said
    assert "That predictor is not at hand here" in said
    assert "Energy per sequence by" not in said


def test_a_traced_tree_has_costs():
    found = make_report(small_tree())
    assert set(found.left_out) == set(PARTS)
    said = words(report_html(found))
    assert "costs only: this tree carries no energy" in said
    assert "bottlenecks: this tree carries no energy" in said
    assert "kWh" not in said


def test_parts_can_be_left_out():
    found = make_report(tree_of_own(), without=["bottlenecks"])
    assert found.left_out["bottlenecks"] == "left out as asked"
    assert found.bottlenecks is None
    with pytest.raises(UsageError, match="no part 'jokes'; there are bottlenecks"):
        make_report(tree_of_own(), without=["jokes"])


def test_other_runs_have_no_place_in_the_trade_off():
    base = Subject(RunSpec("gpt2", **RUN, phase="decode"))
    without = ("bottlenecks", "sizes", "suggestions")
    found = make_report(tree_of(base), base, without=without)
    assert found.left_out["trade-off"].endswith("this is a decode run")


def test_a_model_without_a_published_score_has_a_report_too():
    base = Subject(RunSpec("bert-l2-h256", **RUN), "pc1")
    without = ("bottlenecks", "sizes", "suggestions")
    text = report_html(make_report(tree_of(base), base, without=without))
    assert "bert-l2-h256 has no published score in this table." in text


def test_predictions_beside_a_measurement_are_called_so(predicted):
    tree = predicted("bert-l2-h128")
    energy = tree.energy
    source = np.zeros(len(tree), np.uint8)
    measured = tree.with_energy(
        EnergyColumns(energy.joules, energy.low, energy.high, source, "a meter"),
        Hardware("lab", "wall"),
    )
    base = subject_of_tree(measured, "pc1")
    found = make_report(measured, base, without=("sizes", "trade-off"))
    said = words(report_html(found))
    assert "The energy was measured by a meter." in said
    assert (
        "These are predictions for pc1; the energy of the tree is measured, not "
        "predicted." in said
    )


# In a browser -----------------------------------------------------------------


@needs_browser
def test_the_page_opens_under_its_policy_without_complaint(text, tmp_path):
    page, complaints = browse(text, tmp_path)
    assert complaints == ""
    # The script ran: the search box shows, and small modules are closed.
    assert '<div class="tools needs-script">' in page
    assert 'aria-expanded="false"' in page


@needs_browser
def test_the_page_asks_the_network_for_nothing_and_fits(text, tmp_path):
    # Our own policy would refuse the words of this test, and hide requests.
    ask = (
        "addEventListener('load', () => { const parts = [...document.querySelectorAll("
        "'details')]; parts.forEach((part) => { part.open = true; });"
        "document.title = [performance.getEntriesByType('resource').length,"
        "document.documentElement.scrollWidth <= innerWidth].join(' '); });"
    )
    free = re.sub(r"<meta http-equiv[^>]+>", "", text)
    page, complaints = browse(
        free.replace("</body>", f"<script>{ask}</script></body>"), tmp_path
    )
    assert complaints == ""
    assert re.findall(r"<title>([^<]*)</title>", page)[0] == "0 true"


# From the command line --------------------------------------------------------


def test_a_saved_tree_from_the_command_line(tmp_path, capsys):
    tree_of_own().save(tmp_path / "tree.json")
    out = tmp_path / "report.html"
    words_ = ["report", str(tmp_path / "tree.json"), "--html", str(out)]
    assert main([*words_, "--title", "<i>Mine</i>"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert f"wrote {out}" in told.err
    assert "not in it: suggestions: this report is of a saved tree" in told.err
    assert "<h1>&lt;i&gt;Mine&lt;/i&gt;</h1>" in out.read_text(encoding="utf-8")


def test_a_model_from_the_command_line(tmp_path, capsys):
    out = tmp_path / "report.html"
    left_out = [word for part in PARTS[1:] for word in ("--without", part)]
    words_ = ["report", "bert-l2-h128", "-b", "2", "-s", "32", "--html", str(out)]
    assert main([*words_, *left_out, "--region", "FR", "--pue", "1.2"]) == 0
    assert "France" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--region", "XX"], "no region 'XX'"),
        (["--pue", "0.5"], "--pue must be at least 1"),
        (["--on", "pc9"], "unknown hardware 'pc9'"),
        (["--html", "/nowhere/at/all.html"], "cannot write /nowhere/at/all.html"),
    ],
)
def test_what_cannot_be_is_told_at_once(tmp_path, capsys, more, told):
    words_ = ["report", "bert-l2-h128", "--html", str(tmp_path / "r.html"), *more]
    assert main(words_) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not (tmp_path / "r.html").exists()


def test_a_tree_of_no_known_model_cannot_be_predicted_anew(tmp_path, capsys):
    tree_of_own().save(tmp_path / "tree.json")
    words_ = ["report", str(tmp_path / "tree.json"), "--on", "pc1"]
    assert main([*words_, "--html", str(tmp_path / "r.html")]) == 2
    assert "does not say how the model is built" in capsys.readouterr().err
