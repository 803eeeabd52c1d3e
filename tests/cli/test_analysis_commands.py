"""The commands of analysis as a user meets them, with the predictor that ships."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

import irene
from irene.analyse.subject import LeftOut
from irene.hardware import Hardware
from irene.predict.api import predict
from irene.show.terminal import left_out_lines
from irene.trace.tracer import trace
from irene.tree import load

SMALL = ("-b", "4", "-s", "32")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test finds what another kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved predicted tree of bert-l2-h128, batch 4, length 32."""
    file = tmp_path_factory.mktemp("saved") / "tree.json"
    predict("bert-l2-h128", batch_size=4, seq_len=32).save(file)
    return str(file)


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        (("bottlenecks", "bert-l2-h128", *SMALL), "irene.bottlenecks/1"),
        (("compare", "bert-l2-h128", "bert-l2-h256", *SMALL), "irene.comparisons/1"),
        (("what-if", "bert-l2-h128", "--batch", "1,2", "-s", "32"), "irene.what_if/1"),
        (
            ("what-if", "bert-l2-h128", *SMALL, "--sensitivity"),
            "irene.sensitivity/1",
        ),
        (("what-if", "bert-l2-h128", "--over", "seq_len"), "irene.curves/1"),
        (("cost", "bert-l2-h128", *SMALL), "irene.cost/1"),
        (("suggest", "bert-l2-h128", *SMALL), "irene.suggestions/1"),
        (("leaderboard", "bert-l2-h1", *SMALL), "irene.leaderboard/1"),
    ],
)
def test_json_is_one_document_and_nothing_else(run, words, schema):
    code, out, err = run(*words, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["schema"] == schema


@pytest.mark.parametrize("command", ["bottlenecks", "cost", "suggest"])
def test_why_this_machine_is_said_once(run, command):
    code, out, _ = run(command, "bert-l2-h128", *SMALL)
    assert code == 0
    assert out.count("nothing was learned here yet") == 1


def test_bottlenecks_of_a_model(run):
    code, out, err = run("bottlenecks", "bert-base-uncased", "-b", "8", "-s", "128")
    assert (code, err) == (0, "")
    assert "encoder.layer.*.attention.self" in out
    assert "feed-forward" in out
    assert "above the machine's best" in out
    assert "FLOP per byte" in out


def test_bottlenecks_of_a_saved_tree_with_equal_layers_folded(run, saved):
    code, out, err = run("bottlenecks", saved, "--by", "layer", "--all")
    assert (code, err) == (0, "")
    assert "layer 1…2, each" in out
    assert "outside the layers" in out


def test_a_tree_and_itself_do_not_differ(run, saved):
    code, out, _ = run("compare", saved, saved)
    assert code == 0
    assert "no difference" in out
    assert "by efficiency" not in out


def test_energies_of_different_things_are_marked(run, saved, tmp_path):
    tree = load(saved)
    board = tree.with_energy(tree.energy, Hardware("lab", "gpu-board"))
    board.save(tmp_path / "board.json")
    code, out, _ = run("compare", saved, str(tmp_path / "board.json"))
    assert code == 0
    assert "warning: these energies cover different things: wall, gpu-board" in out


def test_models_sizes_and_files_side_by_side(run, saved):
    words = ("compare", saved, "bert-l2-h128@b8", "distilgpt2", "--per", "sequence")
    code, out, err = run(*words, *SMALL)
    assert (code, err) == (0, "")
    assert "batch 8" in out
    assert "attention" in out
    assert "by efficiency" in out
    assert "J per sequence" in out


def test_what_if_shows_base_rows_and_what_cannot_run(run):
    words = ("--set", "hidden_act=relu", "--seq", "32:512:480", "--batch", "4")
    code, out, err = run("what-if", "bert-l2-h128", *words)
    assert (code, err) == (0, "")
    as_it_is = "as it is: batch 4 · length 32 · fp32* · eager attention* · forward*"
    assert out.splitlines()[1].startswith(as_it_is)
    lines = [line.split() for line in out.splitlines()]
    assert lines[2][:2] == ["hidden_act", "seq_len"]
    assert lines[3][:2] == ["gelu", "32"]
    assert "base" in lines[3]
    assert [line[:2] for line in lines[4:6]] == [["relu", "32"], ["relu", "512"]]
    code, out, _ = run("what-if", "bert-l2-h128", "--seq", "512,600")
    assert code == 0
    assert "cannot run" in out
    assert "at most 512 positions" in out


def test_what_if_as_csv_and_as_a_picture(run, tmp_path):
    file, picture = tmp_path / "sizes.csv", tmp_path / "sizes.svg"
    words = ("--batch", "1,2,4", "-s", "32", "--out", str(file), "--plot", str(picture))
    code, out, err = run("what-if", "bert-l2-h128", *words)
    assert (code, out) == (0, "")
    assert f"wrote {picture}" in err
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    assert [row["batch_size"] for row in rows] == ["1", "1", "2", "4"]
    assert float(rows[3]["per_sequence_j"]) < float(rows[0]["per_sequence_j"])


def test_what_if_starts_from_a_saved_tree(run, saved):
    code, out, err = run("what-if", saved, "--set", "num_hidden_layers=1", "--json")
    assert code == 0
    assert "predicted anew" in err
    document = json.loads(out)
    assert document["base"]["batch_size"] == 4
    assert document["rows"][0]["saving_j"] > 0


def test_curves_say_what_was_looked_for_first(run):
    words = ("bert-l2-h128", "bert-l2-h256", "--over", "batch_size", "--under", "1")
    code, out, err = run("compare", *words, "-s", "32")
    assert (code, err) == (0, "")
    first, second, third = out.splitlines()[:3]
    assert first.startswith("bert-l2-h128 stays under 1.00 J")
    assert second.startswith("bert-l2-h256 stays under 1.00 J")
    assert "bert-l2-h128 is cheaper than bert-l2-h256 from batch_size 1 on" in third
    chosen = "length 32 · fp32* · eager attention* · forward* (*=chosen)"
    assert chosen in map(str.rstrip, out.splitlines())
    one, other = "bert-l2-h128", "bert-l2-h256@s8"
    _, out, _ = run("compare", one, other, "--over", "batch_size")
    assert f"{one}: length 128* · fp32*" in out
    assert f"{other}: length 8 · fp32*" in out
    code, out, err = run("what-if", "bert-l2-h128", "--over", "seq_len", "--under", "0")
    assert "takes more than 0 J already at seq_len 2" in out


def test_sensitivity(run):
    code, out, _ = run("what-if", "distilbert-base-uncased", *SMALL, "--sensitivity")
    assert code == 0
    assert "n_layers" in out
    assert "no effect: " in out
    assert "vocab_size" in out.split("no effect: ")[1]


def test_trade_off_of_a_users_table(run, tmp_path):
    table, picture = tmp_path / "mine.csv", tmp_path / "front.svg"
    table.write_text(
        "model,accuracy\nbert-l2-h128,83\nbert-l2-h256,82\nbert-l4-h256,86\n"
    )
    words = ("--accuracy", str(table), "--budget-j", "100", "--plot", str(picture))
    code, out, _ = run("trade-off", *words, *SMALL)
    assert code == 0
    assert "at most 100.0 J per sequence: bert-l4-h256, 86 for" in out
    beaten = next(line for line in out.splitlines() if "bert-l2-h256" in line)
    assert beaten.split()[-1] == "bert-l2-h128"
    assert "Pareto front" in picture.read_text(encoding="utf-8")
    words = ("--accuracy", str(table), "--at-least", "99")
    code, out, _ = run("trade-off", *words, *SMALL)
    assert code == 0
    assert "no model has accuracy at least 99" in out


def test_cost_on_screen(run, saved):
    words = ("--price", "0.1319", "--region", "DE", "--pue", "1.2", "--per-day", "1e5")
    code, out, err = run("cost", saved, *words)
    assert (code, err) == (0, "")
    assert "million requests" in out
    assert "year" in out
    assert "344.14 g CO₂e per kWh, Germany 2024" in out
    assert "0.1319 USD per kWh" in out
    assert re.search(r"^request +[\d.]+ µWh ", out, re.MULTILINE)


def test_the_reason_of_one_model_is_not_said_of_others():
    gone = [LeftOut(f"llama-{size}b", f"{size} GB do not fit") for size in range(1, 9)]
    assert list(left_out_lines(gone)) == [
        "left out: llama-1b: 1 GB do not fit; "
        "likewise llama-2b, llama-3b, llama-4b, llama-5b, llama-6b and 2 more"
    ]


def test_regions_can_be_listed(run):
    with pytest.raises(SystemExit) as stop:
        run("cost", "--regions")
    assert stop.value.code == 0


def test_suggestions_in_words(run):
    code, out, err = run("suggest", "distilgpt2", *SMALL)
    assert (code, err) == (0, "")
    assert "activation_function=gelu_pytorch_tanh" in out
    assert "per sequence ±" in out
    assert "nothing to say about:" in out


def test_leaderboard_on_screen_and_as_csv(run):
    words = ("leaderboard", "--family", "bert", "--limit", "3", *SMALL)
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert out.splitlines()[2].split()[:2] == ["1", "bert-l2-h128"]
    code, out, _ = run(*words, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["place"] for row in rows] == ["1", "2", "3"]
    energies = [float(row["per_sequence_j"]) for row in rows]
    assert energies == sorted(energies)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bottlenecks", "bert-base-uncasd"), "did you mean bert-base-uncased"),
        (("bottlenecks", "gpt2", "--top", "0"), "--top is a share"),
        (("bottlenecks", "gpt2", "--plot", "x.pdf"), "must end in .svg, .png or .html"),
        (("bottlenecks", "gpt2", "--on", "pc9"), "unknown hardware 'pc9'"),
        (("compare", "gpt2"), "compare needs two or more"),
        (("compare", "gpt2", "gpt2@x3"), "cannot read 'x3' after the @"),
        (("compare", "gpt2@b0", "gpt2"), "batch_size must be at least 1"),
        (("what-if", "gpt2"), "nothing to vary"),
        (("what-if", "gpt2", "--set", "n_layer"), "--set takes FIELD=VALUE"),
        (("what-if", "gpt2", "--set", "n_layr=2"), "no config field 'n_layr'; did you"),
        (("what-if", "gpt2", "--batch", "0,1"), "--batch-size must be at least 1"),
        (("what-if", "gpt2", "--seq", "9:1:1"), "write from:to:step"),
        (("what-if", "gpt2", "--dtype", "fp8"), "--dtype must be one of fp32"),
        (("what-if", "gpt2", "--set", "n_layer=2", "--sensitivity"), "goes without"),
        (("trade-off", "--accuracy", "no-such.csv"), "cannot read no-such.csv"),
        (("cost", "gpt2", "--region", "Germny"), "did you mean DE"),
        (("cost", "gpt2", "--pue", "0.5"), "--pue must be at least 1, got 0.5"),
        (("suggest", "no-such-model"), "unknown model 'no-such-model'"),
        (("leaderboard", "--family", "brt"), "no family 'brt'; there are"),
        (("leaderboard", "--limit", "0"), "--limit must be at least 1"),
        (("leaderboard", "--out", "/no/such/folder/x.csv"), "no folder"),
    ],
)
def test_bad_requests_get_one_clear_message(run, words, said):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("model,accuracy\nno-such,90\n", "unknown model 'no-such'"),
    ],
)
def test_accuracies_that_cannot_be_used(run, tmp_path, text, said):
    table = tmp_path / "mine.csv"
    table.write_text(text)
    code, out, err = run("trade-off", "--accuracy", str(table))
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["bottlenecks", "cost", "compare"])
def test_a_tree_without_energy_is_refused(run, tmp_path, command):
    file = str(tmp_path / "traced.json")
    trace("bert-l2-h128", seq_len=8).save(file)
    code, out, err = run(
        *([command, file, file] if command == "compare" else [command, file])
    )
    assert (code, out) == (2, "")
    assert "carries no energy" in err


def test_one_model_that_fails_is_left_out_of_a_comparison(run):
    code, out, _ = run("compare", "bert-l2-h128", "bert-l4-h128", "no-such", "--json")
    assert code == 0
    (left,) = json.loads(out)["left_out"]
    assert left["model"] == "no-such"
    assert "unknown model" in left["problem"]
    for words in (("bert-l2-h128", "no-such"), ("no-such", "gpt2", "bert-l2-h128")):
        code, out, err = run("compare", *words)
        assert (code, out) == (2, "")
        assert "unknown model 'no-such'" in err


@pytest.mark.parametrize(
    ("given", "unit"), [((), "token"), (("--per", "run"), "run")], ids=["usual", "run"]
)
def test_servings_are_compared_per_token_unless_told_otherwise(run, given, unit):
    serving = ("--on", "h100", "-b", "4", "--prompt", "20", "--output", "10")
    words = ("compare", "llama-3.1-8b", "qwen3-8b", *serving, *given, "--json")
    code, out, _ = run(*words)
    assert code == 0
    found = json.loads(out)
    assert found["per"] == unit
    called = {"token": "output token", "sequence": "request"}.get(unit, unit)
    assert f" J per {called} " in run(*words[:-1])[1].splitlines()[0]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            lambda: irene.bottlenecks("bert-l2-h128", on="pc1"),
            "bottlenecks bert-l2-h128",
        ),
        (lambda: irene.cost("bert-l2-h128", on="pc1"), "cost bert-l2-h128"),
        (lambda: irene.card("bert-l2-h128", on="pc1"), "card bert-l2-h128"),
        (lambda: irene.trade_off(on="pc1"), "trade-off"),
        (lambda: irene.leaderboard("tinybert", on="pc1"), "leaderboard tinybert"),
        (
            lambda: irene.what_if("gpt2", {"batch_size": [8, 4]}, "pc1", batch_size=8),
            "what-if gpt2 --batch 8,4",
        ),
    ],
)
def test_an_answer_prints_as_its_command_shows_it(run, monkeypatch, ask, words):
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = run(*words.split(), "--on", "pc1")
    assert code == 0
    assert str(ask()).splitlines() == [line.rstrip() for line in out.splitlines()]


def test_a_comparison_prints_both_sides_and_what_differs(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    told = str(irene.compare("bert-l2-h128", "bert-l2-h256", on="pc1")).splitlines()
    _, out, _ = run("compare", "bert-l2-h128", "bert-l2-h256", "--on", "pc1")
    assert told == [line.rstrip() for line in out.splitlines()][: len(told)]
    assert any("feed-forward" in line for line in told)


def test_a_trade_off_says_its_machine_and_whose_accuracy():
    found = irene.trade_off(on="h100", batch_size=1, seq_len=8)
    assert "h100 (NVIDIA" in str(found)
    assert found.to_dict()["hardware"] == "h100"
    assert found.to_dict()["score"] == "SST-2 accuracy"
