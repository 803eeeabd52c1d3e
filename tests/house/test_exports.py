"""Every package says what it offers in `__all__`, and offers just that.

In a module a leading underscore says what is its own: it needs no second list.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"


def packages(source: Path) -> list[str]:
    """Dotted names of all packages."""
    files = sorted((source / "irene").rglob("__init__.py"))
    return [".".join(file.relative_to(source).parts[:-1]) for file in files]


def file_of(package: str) -> Path:
    return SOURCE.joinpath(*package.split("."), "__init__.py")


def in_ruff_order(names: list[str]) -> list[str]:
    """Sorted as ruff does it: CONSTANTS, then Classes, then functions."""

    def key(name: str) -> tuple[int, list[tuple[int, str]]]:
        rank = 0 if len(name) > 1 and name.isupper() else 1
        if not name[:1].isupper():
            rank = 2
        pieces = re.findall(r"\d+|\D+", name)
        return rank, [(int(p), "") if p.isdigit() else (-1, p) for p in pieces]

    return sorted(names, key=key)


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Top-level statements, also those below `if TYPE_CHECKING:` and `try:`."""
    for node in tree.body:
        if isinstance(node, ast.If | ast.Try):
            yield from (inner for inner in node.body if isinstance(inner, ast.stmt))
        else:
            yield node


def public(names: Iterator[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def declared(tree: ast.Module) -> set[str]:
    """Public classes and functions that a module defines."""
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return public(n.name for n in statements(tree) if isinstance(n, kinds))


def assigned(tree: ast.Module) -> set[str]:
    """Public constants and type aliases of a module."""
    targets: list[ast.expr] = []
    for node in statements(tree):
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, ast.AnnAssign):
            targets.append(node.target)
    return public(target.id for target in targets if isinstance(target, ast.Name))


def reexported(tree: ast.Module, package: str) -> set[str]:
    """Public names that a package's `__init__` imports from its own modules."""
    names: set[str] = set()
    for node in statements(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        own = f"{node.module or ''}.".startswith(f"{package}.")
        inside = node.level == 1 or (node.level == 0 and own)
        if inside and node.module not in (None, package):
            names |= public(alias.asname or alias.name for alias in node.names)
    return names


def problems(package: str, tree: ast.Module) -> list[str]:
    """What is wrong with a package's `__all__`, judged by its source alone."""
    if is_docstring_alone(tree):
        return []
    listed = listed_names(tree)
    if listed is None:
        return ["has no literal __all__"]
    must = declared(tree) | reexported(tree, package)
    may = must | assigned(tree)
    if any(
        isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__getattr__"
        for n in tree.body
    ):
        may |= set(listed)  # lazy names: the existence test tells
    found = [f"lacks {name}" for name in sorted(must - set(listed))]
    strangers = {name for name in listed if not name.startswith("__")} - may
    found += [f"lists {name}, which is not its own" for name in sorted(strangers)]
    if listed != in_ruff_order(listed):
        found.append("is not sorted")
    if len(listed) != len(set(listed)):
        found.append("lists a name twice")
    return found


def is_docstring_alone(tree: ast.Module) -> bool:
    """Whether a package only says what it is: the map of a folder."""
    return len(tree.body) == 1 and ast.get_docstring(tree) is not None


def listed_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, value = node.target.id, node.value
        else:
            continue
        if name == "__all__" and isinstance(value, ast.List | ast.Tuple):
            return list(ast.literal_eval(value))
    return None


def test_there_are_packages_to_check() -> None:
    assert {"irene", "irene.cli", "irene.serve.http"} <= set(packages(SOURCE))


def test_modules_have_no_second_list() -> None:
    inner = (p for p in (SOURCE / "irene").rglob("*.py") if p.name != "__init__.py")
    assert [p.name for p in inner if listed_names(ast.parse(p.read_text()))] == []


@pytest.mark.parametrize("package", packages(SOURCE))
def test_all_is_complete_and_sorted(package: str) -> None:
    tree = ast.parse(file_of(package).read_text(encoding="utf-8"))
    assert problems(package, tree) == []


@pytest.mark.parametrize("package", packages(SOURCE))
def test_every_name_in_all_exists(package: str) -> None:
    loaded = importlib.import_module(package)
    listed = getattr(loaded, "__all__", ())  # its absence is the other test's matter
    assert [name for name in listed if not hasattr(loaded, name)] == []


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def f(): ...", "has no literal __all__"),
        ("'''The room.'''\nimport json", "has no literal __all__"),
        ("", "has no literal __all__"),
        ("__all__ = []\ndef f(): ...", "lacks f"),
        ("__all__ = []\nfrom irene.room.part import Thing", "lacks Thing"),
        ("__all__ = []\nfrom .part import Thing", "lacks Thing"),
        (
            "__all__ = ['sqrt']\nfrom math import sqrt",
            "lists sqrt, which is not its own",
        ),
        ("__all__ = ['b', 'a']\ndef a(): ...\ndef b(): ...", "is not sorted"),
        ("__all__ = ['a', 'a']\ndef a(): ...", "lists a name twice"),
    ],
)
def test_a_wrong_all_is_found(source: str, problem: str) -> None:
    assert problems("irene.room", ast.parse(source)) == [problem]


@pytest.mark.parametrize(
    "source",
    [
        "__all__ = ['LIMIT', 'Thing', 'f']\nLIMIT = 3\n"
        "class Thing: ...\ndef f(): ...\ndef _g(): ...",
        "__all__ = ['Thing']\nfrom math import sqrt\nfrom irene.spec import RunSpec\n"
        "from irene.room import part\nfrom irene.room.part import Thing, _hidden",
        "__all__ = ['lazy']\n__getattr__ = lazily(__name__)",
        "'''The room: a map of its modules.'''",
        "__all__ = ['Kind']\nfrom typing import Literal\nKind = Literal['a']",
    ],
)
def test_a_right_all_passes(source: str) -> None:
    assert problems("irene.room", ast.parse(source)) == []
