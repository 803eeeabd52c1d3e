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


def test_the_plan_of_the_house_names_all_folders() -> None:
    plan = SOURCE.parents[1] / "docs" / "explanation" / "architecture.md"
    rows = re.findall(
        r"^\| `(\w+)` \|.*\|(.*)\|$", plan.read_text(encoding="utf-8"), re.MULTILINE
    )
    for room, told in rows[:13]:
        there = {each.parent.name for each in (SOURCE / room).glob("*/__init__.py")}
        named = set(re.findall(r"`(\w+)`", told.partition("(")[0]))
        named |= set(re.findall(r"`(\w+)`", told.partition(")")[2]))
        assert named - {"web", "sweeps"} == there - {"sweeps"}, room


SAME_NAME = {
    "__init__", "api", "document", "documents", "engine", "finding", "layers",
    "memory", "parameters", "question", "questions", "server", "storage",
}  # fmt: skip
"""Names that still stand for two files; do not add to them."""


def test_a_name_of_a_file_means_one_thing() -> None:
    """But for a command, or a page, that is called as what it shows."""
    files: dict[str, list[Path]] = {}
    for each in SOURCE.rglob("*.py"):
        if each.relative_to(SOURCE).parts[0] not in ("cli", "show"):
            files.setdefault(each.stem, []).append(each)
    assert {name for name, found in files.items() if len(found) > 1} <= SAME_NAME
