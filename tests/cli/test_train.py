"""Training, evaluating and calibrating as a user meets them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from irene.cli import main
from irene.cli.machines.evaluate import _remarks
from irene.cli.machines.machine_text import error_lines
from irene.dataset import TreeKey, read_data, write_data
from irene.predict.machines.finding import find_machine

DECODER = "two-layer-gpt"


@pytest.fixture
def run(capsys):
    """Run the program in this process; returns exit code, output and errors."""

    def call(*words: str | Path) -> tuple[int, str, str]:
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def data(
    measure,
    made_up_keys: Sequence[TreeKey],
    decoder_config: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Trees of PC1 with noise; the decoder's config lies next to them."""
    folder = tmp_path_factory.mktemp("lab")
    table = measure(find_machine("pc1").model, made_up_keys)
    write_data(table, folder / "trees.jsonl", "jsonl")
    (folder / "configs").mkdir()
    shutil.copy(decoder_config, folder / "configs" / f"{DECODER}.json")
    return folder / "trees.jsonl"


@pytest.fixture(scope="module")
def small(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trees of the catalogue's model, in another format and place."""
    pytest.importorskip("pyarrow")
    table, _ = read_data(data)
    encoder = [i for i, key in enumerate(table.keys) if key.model != DECODER]
    path = tmp_path_factory.mktemp("small") / "small.parquet"
    write_data(table.take([encoder[0], encoder[3]]), path, "parquet")
    return path


@pytest.fixture(scope="module")
def trained(
    data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, object]]:
    """A predictor's file, and what the command said of it."""
    import contextlib
    import io

    out = tmp_path_factory.mktemp("trained") / "lab.json"
    words = ["--name", "lab", "--covers", "gpu-board", "--description", "a [b] machine"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(["train", str(data), "--out", str(out), *words, "--json"]) == 0
    return out, json.loads(said.getvalue())


def test_training_writes_a_predictor_and_says_what_was_learned(trained) -> None:
    out, document = trained
    assert document["schema"] == "irene.training/1"
    assert document["hardware"]["covers"] == "gpu-board"
    assert document["bytes"] == out.stat().st_size
    told = document["provenance"]
    assert (told["trees"], told["data"]) == (12, "trees")
    errors = told["held_out_errors_percent"]
    assert set(errors) == {"model", "family", "small", "large"}
    assert set(errors["model"]) == {"ml", "module", "model"}
    assert document["unknown_models"] == {}  # the config next to the data was found
    assert document["unmatched_paths"] == {}
    assert find_machine(str(out)).to_dict()["digest"] == document["digest"]


def test_a_trained_predictor_predicts(run, trained) -> None:
    out, _ = trained
    code, shown, _ = run("predict", "bert-l2-h768", "-b", "8", "--on", out, "--json")
    assert code == 0
    document = json.loads(shown)
    assert document["hardware"]["name"] == "lab"
    known = find_machine("pc1")
    import irene

    same = known.predict(irene.trace("bert-l2-h768", batch_size=8, seq_len=128))
    assert document["energy_j"] == pytest.approx(same.total().energy_j, rel=0.05)


def test_hardware_shows_a_file(run, trained) -> None:
    code, out, _ = run("hardware", trained[0])
    assert code == 0
    assert "lab: gpu-board energy; a [b] machine" in out
    assert "12 trees" in out


def test_hardware_lists_what_is_known(run) -> None:
    code, out, err = run("hardware", "pc1")
    assert (code, err) == (0, "")
    for words in ("pc1: wall energy", "GTX 1080 Ti", "distilgpt2", "family", "tokens"):
        assert words in out
    _, out, _ = run("hardware", "--json")
    (machine,) = [
        m for m in json.loads(out)["hardware"] if m["hardware"]["name"] == "pc1"
    ]
    assert machine["domain"]["dtype"] == "fp32"
    assert "model" not in machine  # the rates


def test_evaluation_compares_and_writes_predictions(run, data, tmp_path) -> None:
    out = tmp_path / "predicted.jsonl"
    code, shown, err = run(
        "evaluate", data, "--predictor", "pc1", "--out", out, "--json"
    )
    assert code == 0
    assert f"wrote {out}" in err
    document = json.loads(shown)
    assert document["schema"] == "irene.evaluation/1"
    assert document["dataset"] == "trees"
    assert [row["name"] for row in document["rows"]] == ["bert-l2-h768", DECODER]
    for level in ("ml", "module", "model"):
        assert document["average"][level] < 2  # noise of 1 %
        assert 0 < document["coverage"][level] <= 1
    before, after = (
        [json.loads(line)["frontend_tree"] for line in file.read_text().splitlines()]
        for file in (data, out)
    )
    assert [tree["id"] for tree in after] == [tree["id"] for tree in before]
    for tree in after:
        assert tree["predicted_energy"] == pytest.approx(
            tree["ground_truth_energy"], rel=0.06
        )


def test_evaluation_as_a_table(run, data) -> None:
    code, out, _ = run("evaluate", data, "--predictor", "pc1")
    assert code == 0
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert {"bert-l2-h768", DECODER, "average", "node-weighted", "all nodes"} <= set(
        lines
    )
    assert "90% promised" in out


def test_calibration_from_two_trees(run, small, tmp_path) -> None:
    out = tmp_path / "new.json"
    code, shown, _ = run("calibrate", "--from", "pc1", small, "--out", out)
    assert code == 0
    assert "calibrated from pc1" in shown
    assert "by choice, error in %" in shown
    told = find_machine(str(out)).provenance
    assert told["trees"] == 2
    assert told["held_out_errors_percent"]["tree"]["model"] < 5


def test_calibration_without_trees_is_a_guess(run, tmp_path) -> None:
    out = tmp_path / "guess.json"
    words = ("calibrate", "--from", "pc1", "--out", out)
    code, shown, _ = run(*words, "--name", "lab", "--json")
    assert code == 0
    document = json.loads(shown)
    assert document["schema"] == "irene.calibration/1"
    assert document["provenance"]["choice"] == "source"
    _, shown, _ = run("predict", "bert-l2-h768", "-b", "8", "--on", out)
    assert "warning: nothing was measured on lab" in shown
    code, _, err = run(*words)
    assert code == 2
    assert "--name" in err


def test_configs_can_be_named(run, data, decoder_config, tmp_path) -> None:
    alone = tmp_path / "alone.jsonl"
    lines = data.read_text().splitlines()
    alone.write_text("\n".join(lines[:2]) + "\n")
    words = ("evaluate", alone, "--predictor", "pc1")
    code, out, _ = run(*words)
    assert code == 0
    assert f"not used: {DECODER}" in out
    assert "nodes have no prediction" in out
    code, out, _ = run(*words, "--configs", f"{DECODER}={decoder_config}")
    assert code == 0
    assert "not used" not in out


def test_a_method_of_the_paper_is_trained_and_evaluated(run, data, tmp_path) -> None:
    file, out = tmp_path / "paper.json", tmp_path / "predicted.jsonl"
    words = ("--method", "irene", "--features", "model", "--option", "degree=1")
    code, shown, _ = run("train", data, "--out", file, *words, "--seed", "3", "--json")
    assert code == 0
    document = json.loads(shown)
    assert document["options"] == {"features": "model", "degree": 1, "seed": 3}
    assert document["bytes"] == file.stat().st_size < 1_000_000
    assert set(document["provenance"]["held_out_errors_percent"]) == {"model"}
    evaluate = ("evaluate", data, "--predictor", file)
    code, shown, err = run(*evaluate, "--out", out, "--json")
    assert (code, f"wrote {out}" in err) == (0, True)
    document = json.loads(shown)
    assert [row["name"] for row in document["rows"]] == ["bert-l2-h768", DECODER]
    assert set(document["average"]) == {"ml", "module", "model"}
    assert not {"coverage", "promised_coverage"} & {*document, *document["rows"][0]}
    assert json.loads(out.read_text().splitlines()[0])["frontend_tree"][
        "predicted_energy"
    ]
    code, shown, _ = run(*evaluate)
    assert code == 0
    assert "no intervals" in shown
    code, shown, _ = run("train", data, "--out", file, "--method", "sum")
    assert code == 0
    assert "method sum, features all, seed 0" in shown


def test_methods_are_asked_for_what_they_can_do(run, data, tmp_path) -> None:
    file, out = tmp_path / "paper.json", tmp_path / "x.json"
    assert run("train", data, "--out", file, "--method", "sum")[0] == 0
    train = ("train", data, "--out", out, "--option")
    across = ("crossvalidate", data, "--option")
    for words, said in (
        (("predict", "bert-l2-h768", "--on", file), "needs measured features"),
        (("calibrate", "--from", file, data, "--out", out), "irene evaluate"),
        ((*across, "depth=2"), "no option 'depth'; there are weighting, stepwise"),
        ((*across, "degree=two"), "degree takes a whole number"),
        ((*across, "standardise=1"), "standardise takes True or False"),
        ((*across, "weighting=half"), "there are near-one, one, free"),
        ((*across, "tau=0"), "tau must be above zero"),
        ((*across, "degree"), "takes NAME=VALUE"),
        ((*across, "seed=1"), "an option of its own"),
        ((*train, "tau=1"), "specs has no option 'tau'; it has none"),
        ((*train, "pue=-1", "--method", "utilisation"), "not negative"),
    ):
        code, shown, err = run(*words)
        assert (code, shown) == (2, ""), words
        assert said in err
    assert not out.exists()
    assert run(*across, "degree=1", "--option", "epochs=1")[0] == 0


def test_bad_requests_get_one_clear_message(run, data, tmp_path) -> None:
    out, nowhere = tmp_path / "x.json", tmp_path / "none" / "x.json"
    foreign = tmp_path / "foreign.json"
    foreign.write_text("{}")
    evaluate = ("evaluate", data, "--predictor")
    for words, said in (
        (("train", "no-such-data", "--out", out), "there is no data 'no-such-data'"),
        (("train", data, "--out", nowhere), "no folder"),
        (("train", data), "required: --out"),
        (("train", data, "--out", out, "--configs", "x"), "takes NAME=FILE"),
        (("train", data, "--out", out, "--configs", "x=/no"), "no file /no"),
        (
            ("train", data, "--out", out, "--configs", f"x={foreign}"),
            "has no model 'x'",
        ),
        ((*evaluate, "pc7"), "unknown hardware 'pc7'"),
        ((*evaluate, tmp_path / "none.json"), "cannot read"),
        ((*evaluate, foreign), f"{foreign}: schema is None"),
        ((*evaluate, "pc1", "--out", nowhere), "no folder"),
        (("evaluate", "no-such-data", "--predictor", "pc1"), "there is no data"),
        (("calibrate", "--from", "pc7", data, "--out", out), "unknown hardware"),
        (("calibrate", "--from", "pc1", "no-such", "--out", out), "there is no data"),
        (("calibrate", "--from", "pc1", data, "--out", nowhere), "no folder"),
        (("calibrate", data, "--out", out), "required: --from"),
        (("hardware", "pc7"), "unknown hardware"),
    ):
        code, shown, err = run(*words)
        assert (code, shown) == (2, ""), words
        assert said in err
        message = [x for x in err.splitlines() if x and not x.startswith("usage:")]
        assert len(message) == 1, err
    assert not out.exists()


def test_of_one_model_nothing_can_be_held_out() -> None:
    nothing = dict.fromkeys(("ml", "module", "model"))
    told = {"held_out_errors_percent": {"model": nothing, "family": nothing}}
    assert "nothing could be held out, of one model" in "\n".join(error_lines(told))
    known = {**nothing, "model": 3.0}
    told = {"held_out_errors_percent": {"model": known}}
    assert "nothing could be" not in "\n".join(error_lines(told))


def test_a_predictor_of_another_machine_is_asked_about() -> None:
    result = SimpleNamespace(
        rows=[], promised_coverage=0.9, coverage=SimpleNamespace(model=0.01)
    )
    assert "only 1% of whole models" in _remarks(result)[0]  # type: ignore[arg-type]
    result.coverage.model = 0.95
    assert _remarks(result) == []  # type: ignore[arg-type]


def test_too_few_models_to_hold_one_out_is_told():
    levels = {"ml": 1.0, "module": 1.0, "model": 1.0}
    none = dict.fromkeys(levels)
    told = {"held_out_errors_percent": {"model": none, "small": levels}}
    assert "too few models to hold a model out" in "\n".join(error_lines(told))
