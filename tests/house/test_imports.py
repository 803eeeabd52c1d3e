"""Commands that need no model answer at once: no torch, and no numpy for a help."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from irene.cli import COMMANDS

LIGHT = (
    ("--help",),
    ("models",),
    ("models", "--json"),
    ("hardware",),
    ("hardware", "--json"),
    ("predict", "bert-base-uncased", "-b", "3"),
)
WORDS = ("tree", "spec", "energy", "hardware", "errors")

# In one new Python, as starting it takes longer than any of them.
PROGRAM = """
import contextlib, importlib, io, json, sys
def heavy(*more):
    names = ("torch", "transformers", *more)
    return [name for name in names if name in sys.modules]
told = {}
from irene.cli import COMMANDS, main
for name in COMMANDS:
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main([name, "--help"])
    told["help of " + name] = heavy("numpy", "scipy")
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    told[name] = heavy()
for words in json.loads(sys.argv[2]):
    code = 0
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            code = main(words)
        except SystemExit as stop:
            code = stop.code
    told[" ".join(words)] = [code or 0, len(output.getvalue()), heavy()]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What was imported after each step, of modules and commands."""
    modules = ["irene", *(f"irene.{word}" for word in WORDS)]
    steps = [json.dumps(modules), json.dumps(LIGHT)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *steps],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_computes_nothing(told: dict[str, Any], name: str) -> None:
    assert told[f"help of {name}"] == []


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_light_commands_import_no_torch(
    told: dict[str, Any], words: tuple[str, ...]
) -> None:
    code, characters, heavy = told[" ".join(words)]
    assert code == 0
    assert characters > 0
    assert heavy == []


@pytest.mark.parametrize("name", ["irene", *(f"irene.{word}" for word in WORDS)])
def test_the_words_import_no_torch(told: dict[str, Any], name: str) -> None:
    assert told[name] == []


def test_every_benchmark_finds_what_it_imports() -> None:
    """They run seldom: a name that moved would be noticed when its figure is needed."""
    root = Path(__file__).parents[2]
    names = sorted(f"benchmarks.{file.stem}" for file in root.glob("benchmarks/*.py"))
    assert "benchmarks.accuracy" in names
    program = "import importlib, sys; [*map(importlib.import_module, sys.argv[1:])]"
    subprocess.run([sys.executable, "-c", program, *names], cwd=root, check=True)
