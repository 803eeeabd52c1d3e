"""Trees that carry energy, as `irene show` prints them. The energies are made up."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

import irene
from irene.cli import main
from irene.tree import TreeBuilder

from ..made_up import tree_of_own, with_made_up_energy


@pytest.fixture
def show(capsys, tmp_path):
    """Save a tree and show it; returns exit code, output and errors."""

    def call(tree, *words: str) -> tuple[int, str, str]:
        file = tmp_path / "tree.json"
        tree.save(file)
        code = main(["show", str(file), *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def lines_of(out: str) -> dict[str, str]:
    return {line.split()[0]: line for line in out.splitlines() if line.strip()}


def test_energy_is_what_the_tree_is_about(show):
    code, out, err = show(tree_of_own())
    assert (code, err) == (0, "")
    lines = lines_of(out)
    assert lines["node"].split()[:4] == ["node", "op", "energy", "share"]
    assert re.search(r"10\.0 J +100\.0% ██████████ +±10%", lines["Model"])
    assert re.search(r"layer.0…1 ×2 +Layer +8\.00 J +80\.0%", out)
    assert re.search(r"\(own\) +2\.00 J +20\.0%", out)
    assert "10.0 J (9.00 – 11.0)" in out
    assert "predicted for pc1 (a desk) · covers wall · by made-up rates 1" in out
    assert "\nextrapolation: 3 is more than 2\nnote: made up\n" in out
    assert "not shown: 1, 0.0% of the energy" in out


def test_what_is_on_screen_adds_up(show):
    tree = irene.trace("bert-base-uncased", batch_size=8)
    _, out, _ = show(with_made_up_energy(tree), "--depth", "4")
    below = {}
    for line in out.splitlines()[3:]:
        found = re.search(r"^( *)(\S.*?) .*? (\d+\.\d)%", line)
        if not found:
            break
        below.setdefault(len(found[1]) // 2, []).append(float(found[3]))
    assert sum(below[1]) == pytest.approx(100, abs=0.5)
    # The parts of the twelve layers: attention, intermediate, output.
    assert sum(below[3][-3:]) == pytest.approx(99.3, abs=1.5)
    assert "701.0 mJ per sequence · 5.48 mJ per token" in out


def test_sorting_by_energy(show):
    tree = with_made_up_energy(irene.trace("bert-l2-h128"))
    _, out, _ = show(tree, "--sort", "energy", "--depth", "1", "--all")
    shares = [float(x) for x in re.findall(r" (\d+\.\d)% ", out)]
    assert shares[1:] == sorted(shares[1:], reverse=True)


def test_the_most_expensive_nodes_in_a_list(show):
    _, out, _ = show(tree_of_own(), "--top", "3")
    rows = [line.split() for line in out.splitlines()[2:5]]
    assert [row[:2] for row in rows] == [
        ["1", "layer.0…1.fc"],
        ["2", "layer.0…1"],
        ["3", "head"],
    ]
    assert [row[-1] for row in rows] == ["60.0%", "80.0%", "99.0%"]
    _, out, _ = show(tree_of_own(), "--top", "1", "--sort", "flops", "--unfold")
    assert re.search(r"1 +layer\.0\.fc +Linear +100 +45\.5%", out)


def test_without_energy_the_list_is_of_flops(show):
    tree = irene.trace("bert-l2-h128")
    _, out, _ = show(tree, "--top", "1")
    assert "share of FLOPs" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sort", "energy"], "carries no energy"),
        (["--top", "0"], "--top must be at least 1, got 0"),
        (["--top", "3", "--sort", "params"], "use --sort energy, flops or bytes"),
        (["--html", "/no/such/folder/x.html"], "no folder"),
    ],
)
def test_bad_requests_get_one_clear_message(show, words, said):
    code, out, err = show(irene.trace("bert-l2-h128"), *words)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_the_page_goes_into_a_file_beside_the_rest(show, tmp_path):
    file = tmp_path / "page.html"
    code, out, err = show(tree_of_own(), "--html", str(file))
    assert (code, out, err) == (0, "", f"wrote {file}\n")
    assert "10.0 J (9.00 – 11.0)" in file.read_text(encoding="utf-8")
    _, out, _ = show(tree_of_own(), "--html", str(file), "--json")
    assert json.loads(out)["energy_j"] == pytest.approx(10)


def test_csv_has_interval_source_and_share(show):
    _, out, _ = show(tree_of_own(), "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    layer = rows[1]
    assert float(layer["energy_j"]) == pytest.approx(4)
    assert float(layer["low_j"]) == pytest.approx(3.6)
    assert float(layer["own_j"]) == pytest.approx(1)
    assert float(layer["share"]) == pytest.approx(0.8)
    assert layer["source"] == "predicted"


def test_names_cannot_steer_the_terminal(show):
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "[red]\x1b[2J", flops=1)
    builder.add(model, "[/]x\x1b]0;title\x07", "ml", "[bold", flops=1)
    tree = builder.build(notes=("[/nonsense]\x1b[2J",), unsupported={"[/]": 1})
    for each in (tree, with_made_up_energy(tree)):
        for words in ([], ["--top", "5"]):
            code, out, _ = show(each, *words)
            assert code == 0
            assert "\x1b" not in out
            assert "[bold" in out
