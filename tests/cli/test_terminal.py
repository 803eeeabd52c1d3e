"""Progress on a terminal, and names that look like what a terminal is told."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import irene
from irene.cli import main
from irene.cli.progress import counted_bar, progress_bar, working
from irene.trace import catalogue

NAME = "a[/]b[bold]c"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    return made


def test_brackets_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with working(f"tracing {NAME}"):
        pass
    with progress_bar(f"reading {NAME}") as tell:
        assert tell is not None
        tell(1, 2, NAME)
    shown = terminal.getvalue()
    assert f"tracing {NAME} …" in shown
    assert f"reading {NAME}: {NAME}" in shown


def test_a_bar_counts_and_prints_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with counted_bar(NAME, "nodes") as bar:
        bar(1, 4, None, "3 min left", f"{NAME}: throttled")
        bar(2, 4, "query", "2 min left")
    shown = terminal.getvalue()
    assert f"{NAME}: throttled\n" in shown
    assert "2/4 nodes · 2 min left" in shown
    assert "query" in shown


@pytest.mark.parametrize("command", ["bottlenecks", "cost", "suggest", "predict"])
def test_a_path_with_brackets_is_printed_whole(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = catalogue.find("bert-l2-h128")
    assert entry is not None
    config = tmp_path / NAME / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps(dict(entry.config)))
    assert main([command, str(config), "-b", "1", "-s", "8", "--on", "pc1"]) == 0
    assert str(config) in capsys.readouterr().out


STEERING = "\x1b[31m"
AS_THEY_ARE = ("schema", "kind", "dtype", "phase", "source", "attention")


def steering(value: Any, name: str = "") -> Any:
    """A document whose texts would colour a terminal."""
    if isinstance(value, dict):
        return {key: steering(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [steering(each) for each in value]
    told = isinstance(value, str) and value and name not in AS_THEY_ARE
    return STEERING + value if told else value


@pytest.mark.parametrize(
    "words",
    [
        ["show", "T"], ["show", "T", "--top", "3"], ["bottlenecks", "T"],
        ["bottlenecks", "T", "--by", "layer"], ["cost", "T"], ["compare", "T", "T"],
        ["compare", "T", "T", "--by", "path", "--all"], ["suggest", "T"],
    ],
)  # fmt: skip
def test_a_strangers_tree_does_not_steer_the_terminal(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = irene.predict("bert-l2-h128", batch_size=1, seq_len=8, on="pc1").fold()
    file = tmp_path / "tree.json"
    file.write_text(json.dumps(steering(tree.to_dict())))
    main([str(file) if word == "T" else word for word in words])
    said = capsys.readouterr()
    assert "�[31m" in said.out + said.err
    assert STEERING not in said.out + said.err
