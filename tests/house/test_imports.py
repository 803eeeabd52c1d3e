"""Commands that need no model answer at once: they import no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

LIGHT = (
    ("--help",),
    ("models",),
    ("models", "--json"),
    ("trace", "--help"),
    ("hardware",),
    ("hardware", "--json"),
    ("predict", "bert-base-uncased", "-b", "3"),
)
WORDS = ("tree", "spec", "energy", "hardware", "errors")

# In one new Python, as starting it takes longer than any of them.
PROGRAM = """
import contextlib, importlib, io, json, sys
def heavy():
    return [name for name in ("torch", "transformers") if name in sys.modules]
told = {}
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    told[name] = heavy()
from irene.cli import main
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
