"""`irene measure` as a user meets it, and what its data is good for."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from irene.cli import main
from irene.measure import api
from irene.measure.protocol import MeasureProtocol
from irene.meters.channel import Channel
from irene.tree import load

TINY = "bert-l2-h128"
BRISK = MeasureProtocol(
    rounds=1, round_s=0.002, extra_rounds=0, warm_up_s=0.0, idle_s=0.0, cool_s=0.0
)


class SteadyMeter:
    """20 W, always."""

    name = "wall"
    channels = (Channel("wall:power", "power_w", "wall"),)

    def read(self) -> list[float]:
        return [20.0]

    def close(self) -> None:
        pass


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the program in this process, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def brisk(monkeypatch):
    """A meter whose every value is known, and rounds of milliseconds."""
    monkeypatch.setitem(api.PROTOCOLS, "quick", BRISK)
    real = api.open_sampler

    def steady(meters: object, period_s: float, **rest: object) -> object:
        return real([SteadyMeter()], period_s)

    monkeypatch.setattr(api, "open_sampler", steady)


def test_a_model_is_measured_and_shown(run, brisk, tmp_path):
    page = tmp_path / "page.html"
    words = ("-s", "8", "--quick", "--threads", "1", "--name", "lab")
    code, out, err = run("measure", TINY, *words)
    assert code == 0
    assert "share" in out
    assert "measured on lab" in out
    assert "covers wall" in out
    assert "distinct nodes" in err
    journals = (tmp_path / "cache" / "irene" / "measure").glob("[!.]*")
    assert len(list(journals)) == 1  # beside its lock
    code, out, _ = run("measure", TINY, *words, "--top", "3", "--html", str(page))
    assert code == 0
    assert "times " in page.read_text()


def test_json_is_one_document_with_features(run, brisk):
    code, out, _ = run("measure", TINY, "-s", "8", "--quick", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "irene.tree/1"
    assert document["source"] == "measured"
    assert document["tree"]["features"]["times_mean"] > 0


def test_csv_has_the_features_as_columns(run, brisk, tmp_path):
    file = tmp_path / "tree.csv"
    assert run("measure", TINY, "-s", "8", "--quick", "--out", str(file))[0] == 0
    header, first, *_ = file.read_text().splitlines()
    assert "times_mean" in header.split(",")
    assert first.count(",") == header.count(",")


def test_a_journal_of_ones_own_and_a_fresh_start(run, brisk, tmp_path):
    journal = tmp_path / "journal.jsonl"
    words = ("measure", TINY, "-s", "8", "--quick", "--journal", str(journal))
    trees = []
    for name, more in (("a", ()), ("b", ()), ("c", ("--fresh",))):
        out = tmp_path / f"{name}.json"
        assert run(*words, *more, "--out", str(out))[0] == 0
        trees.append(load(out))
    assert trees[0].energy.joules.tolist() == trees[1].energy.joules.tolist()
    assert trees[0].energy.joules.tolist() != trees[2].energy.joules.tolist()


def test_ctrl_c_says_how_to_go_on(run, brisk, monkeypatch, tmp_path):
    journal = tmp_path / "journal.jsonl"
    words = ("measure", TINY, "-s", "8", "--quick", "--journal", str(journal))
    asked = iter(range(10_000))

    def read(meter: SteadyMeter) -> list[float]:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and next(asked) == 20:
            raise KeyboardInterrupt
        return [20.0]

    with monkeypatch.context() as until_stopped:
        until_stopped.setattr(SteadyMeter, "read", read)
        code, out, err = run(*words)
    assert (code, out) == (130, "")
    assert "the same command goes on" in err
    finished = len(journal.read_text().splitlines()) - 1
    assert finished > 0
    code, out, err = run(*words)
    assert code == 0
    assert f": {finished} of " in err


def test_a_plan_runs_nothing(run):
    code, out, _ = run("measure", TINY, "-b", "2", "-s", "8", "--plan")
    assert code == 0
    assert "40 distinct nodes of 88" in out
    assert "5 rounds of 2 s" in out
    words = ("--paper", "--rounds", "3", "--plan", "--json")
    code, out, _ = run("measure", TINY, "-b", "2", *words)
    document = json.loads(out)
    assert (code, document["distinct"]) == (0, 40)
    assert document["protocol"]["rounds"] == 3
    assert document["protocol"]["round_s"] == 20.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--phase", "train"), "cannot be run alone"),
        (("--data", "x.parquet", "--phase", "decode"), "--data holds forward passes"),
        (("--data", "nowhere/x.parquet"), "no folder"),
        (("--rounds", "0", "--plan"), "rounds must be"),
        (("--round-seconds", "-1", "--plan"), "round_s must be"),
        (("--meter", "thermometer"), "no meter 'thermometer'"),
        (("--device", "meta"), "runs nothing"),
    ],
)
def test_wrong_usage_is_told(run, words, message):
    code, _, err = run("measure", TINY, "-s", "8", *words)
    assert code == 2 or "meter" in message
    assert message in err


def test_without_a_meter_that_counts_it_says_where_to_look(run):
    code, _, err = run("measure", TINY, "-s", "8", "--meter", "proc")
    assert code == 1
    assert "irene doctor" in err


def test_measured_data_is_shown_and_learned_from(run, brisk, tmp_path: Path):
    file = tmp_path / "lab.parquet"
    for model in (TINY, "bert-l4-h128"):
        for batch in ("1", "2"):
            words = ("-b", batch, "-s", "16", "--quick", "--data", str(file))
            assert run("measure", model, *words, "--name", "lab")[0] == 0
    code, out, _ = run("data", "show", str(file), "--json")
    assert code == 0
    assert json.loads(out)["trees"] == 4
    predictor = tmp_path / "lab.json"
    code, out, err = run("train", str(file), "--out", str(predictor), "--name", "lab")
    assert code == 0, err
    code, out, _ = run(
        "predict", TINY, "-b", "2", "-s", "16", "--on", str(predictor), "--json"
    )
    assert code == 0
    assert json.loads(out)["energy_j"] > 0
    for words in (
        ("crossvalidate", str(file), "--method", "irene", "--json"),
        ("calibrate", "--from", "pc1", str(file), "--out", str(predictor), "--json"),
    ):
        code, out, err = run(*words)
        assert code == 0, err
        assert json.loads(out)
