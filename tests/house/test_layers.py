"""A package imports only from rows above its own in the house plan.

The table is in docs/explanation/architecture.md. All imports count: at the top of
a module, inside functions, under TYPE_CHECKING, and by name: a string that is the
dotted name of one of our modules is there to be imported.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROWS = (
    (
        "arrays",
        "tree",
        "spec",
        "energy",
        "hardware",
        "errors",
        "human",
        "lazy",
        "parameters",
        "tables",
        "presented",
        "plain",
        "saved",
        "whole_file",
    ),
    ("work",),
    ("trace",),
    ("meters",),
    ("measure",),
    ("account",),
    ("dataset",),
    ("predict",),
    ("analyse",),
    ("collect",),
    ("show",),
    ("questions",),
    ("serve",),
    ("cli", "__main__"),
)
ROW_OF = {room: row for row, rooms in enumerate(ROWS) for room in rooms}
WORDS = frozenset(ROWS[0])
WORDS_MAY_IMPORT = frozenset({*sys.stdlib_module_names, "numpy"})
EXTRAS = {"tables": {"pandas", "pyarrow"}}  # optional, imported where they are used
FACADE = "irene"  # irene/__init__.py: may reach everything, so only cli may use it


def violations(package: Path) -> list[str]:
    """One line for each import that breaks the house plan."""
    found = []
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).with_suffix("").parts
        if parts == ("__init__",):
            continue
        if parts[0] not in ROW_OF:
            found.append(f"{file.name}: irene.{parts[0]} has no row in the house plan")
            continue
        for line, target in imports_of(file, package):
            problem = judge(parts[0], target)
            if problem:
                where = file.relative_to(package.parent).as_posix()
                found.append(f"{where}:{line}: {problem}")
    return found


def judge(room: str, target: str) -> str | None:
    """Why a module of `room` may not import `target`, or None if it may."""
    top, _, rest = target.partition(".")
    if top != "irene":
        if room in WORDS and top not in WORDS_MAY_IMPORT | EXTRAS.get(room, set()):
            return f"the words may not import {top}"
        return None
    other = rest.partition(".")[0]
    if other == "__version__":
        return None
    row = ROW_OF.get(other, ROW_OF["cli"])
    if row < ROW_OF[room] or other == room or row == ROW_OF[room] == 0:
        return None
    return None if room in ROWS[-1] else f"{room} may not import {target}"


def imports_of(file: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of everything a module imports."""
    dotted = ("irene", *file.relative_to(package).with_suffix("").parts)
    parent = dotted[:-1]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, name) for name in names_from(node, parent))
        elif isinstance(node, ast.Constant) and (name := module_named(node)):
            yield node.lineno, name


def module_named(node: ast.Constant) -> str | None:
    """Our module whose dotted name a string is, or begins with.

    As in `import_module("irene.cli")`, `import_module(f"irene.cli.{command}")`, tables
    of such names, and `python -m irene.cli.child`.
    """
    if not isinstance(node.value, str):
        return None
    named = re.fullmatch(r"(irene\.\w+)(\.\w+)*[.:]?\w*", node.value)
    if named is None or named[1].partition(".")[2] not in ROW_OF:
        return None
    return named[1]


def names_from(node: ast.ImportFrom, parent: tuple[str, ...]) -> Iterator[str]:
    """Absolute names of `from … import …`; `from irene import x` may be module x."""
    base = node.module or ""
    if node.level:
        above = parent[: len(parent) - node.level + 1]
        base = ".".join((*above, *filter(None, [node.module])))
    if base != FACADE:
        yield base
        return
    yield from (f"{FACADE}.{alias.name}" for alias in node.names)


def test_every_import_follows_the_house_plan(package: Path) -> None:
    assert (package / "__init__.py").is_file()
    assert violations(package) == []


def plant(folder: Path, where: str, source: str) -> Path:
    package = folder / "irene"
    file = package / where
    file.parent.mkdir(parents=True)
    file.write_text(source, encoding="utf-8")
    return package


@pytest.mark.parametrize(
    ("where", "source"),
    [
        ("trace/hooks.py", "from irene.predict import Predictor"),
        ("trace/hooks.py", "import irene.cli.asking.trace"),
        ("trace/hooks.py", "from irene import meters"),
        ("trace/hooks.py", "from .. import meters"),
        ("trace/hooks.py", "from ..cli.models import run"),
        ("trace/hooks.py", "def f():\n    from irene.serve import app"),
        (
            "trace/hooks.py",
            "import importlib\nimportlib.import_module('irene.collect')",
        ),
        ("trace/hooks.py", "from importlib import import_module as i\ni('irene.cli')"),
        ("trace/hooks.py", "HOMES = {'answer': 'irene.serve.http.app'}"),
        ("trace/hooks.py", "def f(x):\n    return load(f'irene.cli.{x}')"),
        ("trace/hooks.py", "if TYPE_CHECKING:\n    import irene.show"),
        ("trace/hooks.py", "def f():\n    import irene.account.ledger"),
        ("trace/hooks.py", "import irene"),
        ("work/child.py", "from irene.trace import trace"),
        ("work/child.py", "def run():\n    from irene.collect import sweep"),
        ("work/child.py", "COMMAND = ('-m', 'irene.collect.task')"),
        ("trace/__init__.py", "from ..measure import protocol"),
        ("meters/rapl.py", "if TYPE_CHECKING:\n    from irene.account import Ledger"),
        ("spec.py", "from irene.trace import trace"),
        ("spec.py", "import torch.nn"),
        ("tree/node.py", "def f():\n    from transformers import AutoModel"),
        ("errors.py", "import rich"),
        ("extras.py", ""),
    ],
)
def test_a_bad_import_is_found(tmp_path: Path, where: str, source: str) -> None:
    assert len(violations(plant(tmp_path, where, source))) == 1


@pytest.mark.parametrize(
    ("where", "source"),
    [
        ("__init__.py", "def __getattr__(name):\n    from irene.cli import main"),
        ("trace/hooks.py", "import torch\nfrom irene.tree import Node"),
        ("trace/hooks.py", "from . import catalogue\nfrom .costs import formula"),
        ("trace/deep/er.py", "from ...tree import Node\nfrom ..hooks import hook"),
        ("trace/hooks.py", "from irene import __version__, errors"),
        ("tree/node.py", "import json\nimport numpy as np\nfrom irene.spec import X"),
        ("predict/leaf.py", "from irene.trace import trace"),
        ("trace/hooks.py", "SCHEMA = 'irene.prediction/1'\nlog('irene.predict: slow')"),
        ("trace/hooks.py", '"""See irene.serve.http.app."""'),
        (
            "work/child.py",
            "from irene.errors import IreneError\nimport irene.work.lock",
        ),
        ("cli/trace.py", "import irene\nfrom irene import load\nimport irene.serve"),
    ],
)
def test_a_good_import_passes(tmp_path: Path, where: str, source: str) -> None:
    assert violations(plant(tmp_path, where, source)) == []
