"""The docstring of a package maps its modules: all of them, and no others.

A small folder may leave it to the package that it is in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "irene"


def packages(source: Path) -> list[Path]:
    """All packages below the front door."""
    return sorted(each.parent for each in source.glob("*/**/__init__.py"))


def modules_of(package: Path) -> set[str]:
    """Modules and packages right below a package."""
    files = {each.stem for each in package.glob("*.py")}
    folders = {each.parent.name for each in package.glob("*/__init__.py")}
    return {each for each in files | folders if not each.startswith("_")}


def docstring(package: Path) -> str:
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    return ast.get_docstring(tree) or ""


def heads(text: str) -> Iterator[str]:
    """Names that a list maps: those that begin its points, or have a colon."""
    for point in re.findall(r"^- (.*?)(?:: |$)", text, re.MULTILINE):
        yield from re.findall(r"`([a-z_0-9]+)`", point)
    yield from re.findall(r"`([a-z_0-9]+)`:", text)


def mistakes(package: Path) -> list[str]:
    """What is wrong with the map of a package."""
    text, there = docstring(package), modules_of(package)
    above = package.parent / "__init__.py"
    both = text + (docstring(package.parent) if above.exists() else "")
    named = set(re.findall(r"`([a-z_0-9]+)`", both))
    below = set().union(*(modules_of(package / each) for each in there))
    data = {each.name for each in package.iterdir() if each.is_dir()}
    strangers = set(heads(text)) - there - below - data
    return [
        *(f"does not name {each}" for each in sorted(there - named)),
        *(f"names {each}, which is not there" for each in sorted(strangers)),
    ]


@pytest.mark.parametrize(
    "package", packages(SOURCE), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_the_map_is_complete(package: Path) -> None:
    assert mistakes(package) == []


def test_a_wrong_map_is_found(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text(
        '"""A room.\n\n- `gone`, `a`: it; `lost`: too.\n"""\n'
    )
    for name in ("a", "b", "_hidden"):
        (tmp_path / f"{name}.py").touch()
    assert mistakes(tmp_path) == [
        "does not name b", "names gone, which is not there",
        "names lost, which is not there",
    ]  # fmt: skip
