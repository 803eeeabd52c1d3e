"""`irene predict` as a user meets it.

Most tests put made-up energies in the place of `predict_run`: they are of
the command, not of the numbers. Those at the end use the predictor that ships for pc1.
"""

from __future__ import annotations

import json

import pytest

from irene.cli import COMMANDS
from irene.predict import api
from irene.trace.tracer import trace_spec
from irene.tree import ModelTree, load

from ..made_up import with_made_up_energy


@pytest.fixture
def asked(monkeypatch):
    """Made-up energies instead of the predictor; what it was asked for is kept."""
    calls = []

    def predict_run(spec, machine, **_):
        calls.append((spec, machine.hardware.name))
        return with_made_up_energy(trace_spec(spec))

    monkeypatch.setattr(api, "predict_run", predict_run)
    return calls


def test_it_is_the_first_command():
    assert next(iter(COMMANDS)) == "predict"


def test_the_request_reaches_the_predictor(run, asked):
    words = ("-b", "4", "-s", "32", "--on", "h100", "--dtype", "fp16")
    code, out, err = run("predict", "bert-l2-h128", *words)
    assert (code, err) == (0, "")
    ((spec, machine),) = asked
    assert (spec.model, machine) == ("bert-l2-h128", "h100")
    assert (spec.batch_size, spec.seq_len, spec.dtype) == (4, 32, "fp16")
    assert spec.given("dtype")
    assert not spec.given("attention")
    assert "share" in out
    assert "predicted for pc1 (" in out
    assert "covers wall" in out


def test_json_is_the_document_of_the_design(run, asked):
    code, out, err = run("predict", "bert-l2-h128", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["schema"] == "irene.tree/1"
    assert document["source"] == "predicted"
    assert document["hardware"]["name"] == "pc1"
    assert document["spec"]["model"] == "bert-l2-h128"
    assert document["low_j"] < document["energy_j"] < document["high_j"]
    tree = document["tree"]
    assert tree["energy_j"] == document["energy_j"]
    assert (tree["path"], tree["kind"], tree["share"]) == ("", "model", 1.0)
    needed = {"path", "kind", "op", "energy_j", "own_j", "share", "flops", "bytes"}
    needed |= {"params", "count", "children"}
    nodes = [tree]
    for node in nodes:
        assert needed <= set(node)
        parts = sum(child["energy_j"] * child["count"] for child in node["children"])
        assert parts + node["own_j"] == pytest.approx(node["energy_j"])
        nodes += node["children"]
    assert ModelTree.from_json(out).to_json() + "\n" == out


def test_everything_can_be_written(run, asked, tmp_path):
    page, file = tmp_path / "page.html", tmp_path / "tree.json"
    words = ("--html", str(page), "--out", str(file))
    code, out, err = run("predict", "bert-l2-h128", *words)
    assert (code, out) == (0, "")
    assert err == f"wrote {page}\nwrote {file}\n"
    assert "Where the energy is" in page.read_text(encoding="utf-8")
    assert load(file).total().energy_j > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bert-base-uncasd"], "did you mean bert-base-uncased"),
        (["gpt2", "-b", "0"], "--batch-size must be at least 1, got 0"),
        (["gpt2", "--top", "-3"], "--top must be at least 1, got -3"),
        (["gpt2", "--on", "pc17"], "unknown hardware 'pc17'"),
    ],
)
def test_bad_requests_get_one_clear_message(run, words, said):
    code, out, err = run("predict", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_model_that_was_measured(run):
    words = ("bert-base-uncased", "-b", "8", "-s", "128", "--depth", "2")
    code, out, err = run("predict", *words)
    assert (code, err) == (0, "")
    assert "layer.0…11 ×12" in out
    assert "predicted for pc1 (" in out
    assert "covers wall" in out
    assert "per sequence" in out
    assert "extrapolation" not in out


def test_a_size_that_was_not_measured_is_marked(run):
    code, out, _ = run("predict", "gpt2", "-s", "1024", "--top", "3")
    assert code == 0
    assert "length never measured (1,024, not 32 to 256)" in " ".join(out.split())


@pytest.mark.parametrize("command", ["cost", "suggest", "bottlenecks", "compare"])
def test_every_answer_says_first_what_does_not_fit(run, command):
    more = ["bert-l2-h256"] if command == "compare" else []
    sizes = ["-b", "4096", "-s", "512", "--on", "pc1"]
    code, shown, _ = run(command, "bert-l2-h128", *more, *sizes)
    assert code == 0
    problems = [n for n, line in enumerate(shown.splitlines()) if "cannot run" in line]
    assert problems
    assert max(problems) < 4
    said = " ".join(shown.split())
    if command == "compare":
        assert "cannot run: bert-l2-h128: 18 MB of weights" in said
        assert "cannot run: bert-l2-h256: 38 MB of weights" in said
    assert said.count("cannot run: ") == said.count("do not fit into")


def test_rows_of_what_if_that_do_not_fit_are_marked(run):
    sizes = ["-b", "8,4096", "-s", "512", "--on", "pc1"]
    code, shown, _ = run("what-if", "bert-l2-h128", *sizes)
    assert code == 0
    lines = shown.splitlines()
    assert lines[1].startswith("as it is: batch 8 · length 512 · fp32*")
    assert lines[2].startswith("cannot run: 18 MB of weights and 17 GB of activations")
    (marked,) = [line for line in lines if line.endswith("does not fit")]
    assert marked.split()[0] == "4096"


def test_what_does_not_fit_is_said_before_any_number(run):
    code, shown, _ = run("predict", "bert-l2-h128", "-b", "4096", "-s", "512")
    assert code == 0
    title, sizes, problem, *rest = shown.splitlines()
    assert title.startswith("bert-l2-h128 for pc1 (Core i9-7900X")
    assert sizes.startswith("batch 4096 · length 512")
    assert problem.startswith("cannot run: 18 MB of weights and 17 GB of activations")
    assert "do not fit into" not in "\n".join(rest)
