"""Pictures of trees and of errors from the command line, with their numbers."""

from __future__ import annotations

import csv
from datetime import date

import pytest

from irene.cli import main

from ..made_up import tree_of_own


def rows_of(path):
    """The numbers beside a picture."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@pytest.fixture
def saved(tmp_path):
    tree_of_own().save(tmp_path / "tree.json")
    return str(tmp_path / "tree.json")


@pytest.mark.parametrize("kind", ["icicle", "annotated"])
def test_a_tree_is_drawn_beside_what_is_printed(tmp_path, capsys, saved, kind):
    plot = tmp_path / "tree.svg"
    assert main(["show", saved, "--plot", str(plot), "--plot-as", kind]) == 0
    told = capsys.readouterr()
    assert "layer.0…1" in told.out
    assert f"wrote {plot}" in told.err
    assert "layer.0…1 ×2" in plot.read_text(encoding="utf-8")
    rows = rows_of(tmp_path / "tree.csv")
    assert float(rows[1]["share"]) == pytest.approx(0.8)


def test_depth_cuts_an_annotated_tree(tmp_path, saved):
    plot = ["--plot", str(tmp_path / "t.svg"), "--plot-as", "annotated"]
    assert main(["show", saved, *plot, "--depth", "1"]) == 0
    rows = rows_of(tmp_path / "t.csv")
    assert {row["depth"] for row in rows} == {"0", "1"}


def test_a_png_is_a_png(tmp_path, saved):
    pytest.importorskip("resvg_py")
    assert main(["show", saved, "--plot", str(tmp_path / "t.png")]) == 0
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_is_told_before_the_work(tmp_path, capsys, saved):
    assert main(["show", saved, "--plot", str(tmp_path / "t.bmp")]) == 2
    told = capsys.readouterr()
    assert "must end in .svg, .png or .html" in told.err
    assert told.out == ""


SERVING = ("--on", "b200", "--prompt", "20", "--output", "10")


@pytest.mark.parametrize(
    ("words", "axis"),
    [
        (("leaderboard", "llama-3.1-8b"), "energy per request"),
        (("what-if", "llama-3.1-8b", "-b", "1,2,4"), "energy per output token"),
        (("compare", "llama-3.1-8b", "qwen3-8b"), "energy per output token"),
    ],
)
def test_a_picture_of_an_answer_says_unit_machine_and_day(tmp_path, words, axis):
    plot = tmp_path / "answer.svg"
    assert main([*words, *SERVING, "--plot", str(plot)]) == 0
    drawn = plot.read_text(encoding="utf-8")
    assert f">{axis}, " in drawn
    assert "predicted for b200 (NVIDIA B200 SXM 180 GB, 2024)" in drawn
    assert f", {date.today()}" in drawn
