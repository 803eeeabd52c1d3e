from __future__ import annotations

import json
from pathlib import Path

import pytest

from irene.cli import main
from irene.cli.running.study import parse_fields, subjects

SMALL = [
    "--set", "vocab_size=100", "-b", "2", "-s", "16", "--steps", "2", "--runs", "1",
    "--mode", "prediction", "--level", "module", "--meters", "estimate",
    "--device", "cpu",
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["grid", "bert-base-uncased", "--set", "layers=1,2"], "no config field"),
        (["grid", "bert-base-uncased"], "at least two configurations"),
        (["grid", "bert-base-uncased", "--set", "num_hidden_layers=2"], "at least two"),
        (["grid", "bert-base-uncased", "--set", "num_hidden_layers"], "FIELD=VALUE"),
        (
            ["grid", "bert-base-uncased", "--set", "num_hidden_layers=2,2"],
            "given twice",
        ),
        (["grid", "no-such-model", "--set", "num_hidden_layers=2,4"], "no-such-model"),
        (["evolution", "bert-base-uncased"], "two models"),
        (["modes", "bert-base-uncased", "gpt2"], "one model"),
        (["modes", "gpt2", "--set", "n_layer=1,2"], "only grid"),
        (["modes", "gpt2", "--period", "0.1,0.2"], "only precision"),
        (["precision", "gpt2", "--period", "soon"], "not a number"),
        (["precision", "gpt2", "--runs", "1"], "--runs 1"),
        (["grid", "gpt2", "--set", "n_layer=1,2", "--steps", "0"], "steps"),
    ],
)
def test_bad_input(
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["study", *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_unknown_study(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["study", "horoscope", "gpt2"])
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert all(name in told for name in ("grid", "evolution", "modes", "precision"))


def test_a_grid_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "study"
    words = ["study", "grid", "bert-base-uncased", "--set", "num_hidden_layers=1,2"]
    words += ["--set", "hidden_size=96", *SMALL, "--out", str(out)]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "irene.study/1"
    assert any("ESTIMATED" in note for note in document["notes"])
    assert {row["name"] for row in document["pictures"]["energy"]} == {"L=1", "L=2"}
    assert {Path(file) for file in document["files"]} <= set(out.iterdir())
    assert len(list((out / "runs").iterdir())) == 2
    assert main(words) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "0 runs were made" in told
    assert "ESTIMATED" in told


def test_heads_and_feed_forward_follow_the_width() -> None:
    fields = parse_fields(["hidden_size=384,768", "num_hidden_layers=2"])
    narrow, wide = subjects("bert-base-uncased", fields)
    assert (narrow.name, wide.name) == ("H=384", "H=768")
    assert narrow.config.num_attention_heads == 6
    assert narrow.config.intermediate_size == 1536
    assert wide.config.num_attention_heads == 12
    assert narrow.config.num_hidden_layers == 2
    fields = parse_fields(["hidden_size=384,768", "num_attention_heads=3"])
    found = subjects("bert-base-uncased", fields)
    assert [each.config.num_attention_heads for each in found] == [3, 3]
