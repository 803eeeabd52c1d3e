"""Commands that need no model answer at once: they import no torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers")

RUN_COMMAND = """
import contextlib, io, json, sys
from irene.cli import main
code = 0
with contextlib.redirect_stdout(io.StringIO()) as output:
    try:
        code = main(json.loads(sys.argv[1]))
    except SystemExit as stop:
        code = stop.code
print(json.dumps([code or 0, len(output.getvalue()), sorted(sys.modules)]))
"""

IMPORT_ALL = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
print(json.dumps(sorted(sys.modules)))
"""


def in_new_python(program: str, argument: list[str]) -> list:
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(argument)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["models"],
        ["models", "--json"],
        ["trace", "--help"],
        ["hardware"],
        ["hardware", "--json"],
    ],
)
def test_light_commands_import_no_torch(arguments: list[str]) -> None:
    code, characters, modules = in_new_python(RUN_COMMAND, arguments)
    assert code == 0
    assert characters > 0
    assert [name for name in HEAVY if name in modules] == []


@pytest.mark.parametrize(
    "names",
    [
        ["irene"],
        ["irene.tree", "irene.spec", "irene.energy", "irene.hardware", "irene.errors"],
    ],
)
def test_the_words_import_no_torch(names: list[str]) -> None:
    modules = in_new_python(IMPORT_ALL, names)
    assert [name for name in HEAVY if name in modules] == []
