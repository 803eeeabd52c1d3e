"""Tables on terminals of every width: numbers stay whole, whatever the names are."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from irene import cli, show
from irene.account import attribute
from irene.cli import main
from irene.cli.output import put_ledger
from irene.tree import TreeBuilder

from ..account.ledger.test_ledger import training
from ..dataset.conftest import make_table, write_folder
from ..made_up import with_made_up_energy

CHAT = ("--on", "b200", "-b", "64", "--prompt", "750", "--output", "500")
LONG = "deepseek-coder-1.3b"
COMMANDS = {
    "predict": ("predict", LONG, *CHAT),
    "top": ("predict", LONG, *CHAT, "--top", "9"),
    "trace": ("trace", LONG, *CHAT[2:]),
    "compare": ("compare", LONG, "llama-3.1-8b@on=h100", *CHAT, "--per", "token"),
    "bottlenecks": ("bottlenecks", LONG, *CHAT),
    "what-if": ("what-if", LONG, *CHAT, "--quantization", "bf16,fp8"),
    "cost": ("cost", LONG, *CHAT, "--price", "0.3", "--per-day", "1e6"),
    "leaderboard": ("leaderboard", "deepseek-coder", *CHAT),
    "suggest": ("suggest", LONG, *CHAT),
    "serve-plan": ("serve-plan", LONG, *CHAT[:2], *CHAT[4:]),
    "plan-training": ("plan-training", LONG, "--on", "h100", "--tokens", "1e9"),
    "models": ("models", "deepseek"),
    "show": ("show", "TREE"),
    "trade-off": ("trade-off", "-b", "2", "-s", "32"),
    "check": ("check", "--project", "PROJECT"),
    "account": ("account", "LEDGER"),
    "data": ("data", "show", "TREES"),
    "monitor": ("monitor", "--seconds", "0.05", "--meters", "estimate"),
    "measure": ("measure", "bert-l2-h128", "-s", "16", "--plan"),
    "collect": ("collect", "small", "--store", "NOTHING", "--dry-run"),
    "hardware": ("hardware",),
}
PLAIN = {
    "card": ("card", LONG, *CHAT),
    "crossvalidate": ("crossvalidate", "TREES"),
    "doctor": ("doctor", "--seconds", "0", "--sysfs", "TREES"),
}
"""Commands whose lines are left to the terminal, with nothing cut."""
OTHERS = {
    "study", "train", "train-ops", "evaluate", "validate", "calibrate", "watch",
    "learn", "data-dir", "token", "report", "mcp", "serve", "completion",
}  # fmt: skip
"""Commands without a table, or that need minutes: what they have is a `Fitted`."""
BUDGETS = f"""\
[[budget]]
model = "{LONG}"
on = "b200"
batch_size = 64
prompt_len = 750
output_len = 500
max_j_per_token = 1e9
"""
SHOWN = SimpleNamespace(
    tree=None, csv=None, parquet=None, html=None, perfetto=None, json=False,
    by="module", top=None,
)  # fmt: skip
PROSE = ("data", "monitor")
"""Commands whose sentences are left to the terminal; their tables fit."""
AMOUNT = (
    r"−?\+?\d[\d.,]*(?:e[+-]\d+)? (?:[kmµnMG]?J\b|[kMGTP]\b|W\b|G?i?B\b|m?s\b|min\b)"
)


@pytest.fixture(scope="module")
def deep_tree(tmp_path_factory):
    """A saved tree whose names are longer than a terminal."""
    builder = TreeBuilder()
    parent = builder.add(-1, "", "model", "Model")
    for depth in range(6):
        name = f"a_module_with_a_name_of_length_{depth}"
        parent = builder.add(parent, name, "module", "ModuleOfAVeryLongName")
    builder.add(parent, "product", "ml", "Linear", flops=10**9)
    file = tmp_path_factory.mktemp("trees") / "deep.json"
    with_made_up_energy(builder.build()).save(file)
    return str(file)


@pytest.fixture(scope="module")
def files(tmp_path_factory, deep_tree):
    """What commands are given: a tree, measured data, and a project."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "irene.toml").write_text(BUDGETS)
    write_folder(make_table((LONG, "small")), folder / "trees")
    return {"TREE": deep_tree, "TREES": f"{folder}/trees", "PROJECT": f"{folder}"}


@pytest.fixture
def screen(capsys, monkeypatch, tmp_path, files):
    """What a command prints on a terminal so wide; None for a pipe."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def call(words: tuple[str, ...], width: int | None) -> str:
        monkeypatch.delenv("COLUMNS", raising=False)
        if width:
            monkeypatch.setenv("COLUMNS", str(width))
        if words[0] == "account":
            machine = training()
            power = machine.counter(1.0, idle_w=10.0, relative_error=0.05)
            put_ledger(attribute(machine.events(("#1", "#2", "#3")), [power]), SHOWN)
        else:
            assert main([files.get(word, word) for word in words]) == 0
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_numbers_are_whole_at_every_width(screen, command):
    words = COMMANDS[command]
    whole = screen(words, None)
    assert "…" not in re.sub(r"\d…\d", "", whole), "a pipe cuts nothing"
    known = set(re.findall(AMOUNT, whole))
    for width in (60, 80, 100, 120):
        out = screen(words, width)
        lines = [
            line for line in out.splitlines()
            if command not in PROSE or re.search(AMOUNT, line)
        ]  # fmt: skip
        assert max(map(len, lines)) <= width
        assert not re.search(r"(?<!\S)[−+]?\d[\d.,]* ?…(?!\d)|…[kmµn]?J\b", out), out
        if command != "monitor":  # the machine goes on
            assert set(re.findall(AMOUNT, out)) <= known
        energies = [line for line in out.splitlines() if re.search(AMOUNT, line)]
        assert energies


def test_bars_and_costs_go_before_names(screen):
    words = (*COMMANDS["predict"], "--depth", "2")
    wide, narrow = (screen(words, width) for width in (120, 80))
    assert "█" in wide
    assert "FLOPs" in wide.splitlines()[2]
    assert "█" not in narrow
    assert "no room for FLOPs" in narrow
    assert "model.embed_tokens" in narrow
    assert re.search(r"a_mod\w+…\w+", screen(COMMANDS["show"], 60))


@pytest.mark.parametrize("command", PLAIN)
def test_lines_are_whole_at_every_width(screen, command):
    whole, *others = (screen(PLAIN[command], w) for w in (None, 60, 80, 100, 120))
    assert "…" not in whole
    for out in others:  # a reading of this moment may differ
        assert re.sub(r"[\d.]+", "", out) == re.sub(r"[\d.]+", "", whole)


def test_every_command_is_looked_at(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = re.findall(r"^  ([a-z][a-z-]+) +\w", capsys.readouterr().out, re.MULTILINE)
    known = {words[0] for words in COMMANDS.values()} | {*PLAIN} | OTHERS
    assert known == {name for name in listed if name != "irene"}


def test_every_table_fits():
    """No command makes a table of its own, which would cut numbers."""
    rooms = (Path(cli.__file__).parent, Path(show.__file__).parent)
    files = [path for room in rooms for path in room.rglob("*.py")]
    made = {path.name for path in files if re.search(r"\bTable\(", path.read_text())}
    assert made == {"fitted.py"}
